#!/usr/bin/env python3
"""session.py: libhearth with an engine of fifty lines, to see what an engine has to do. `python3 session.py`

The engine stands for a language model: the state of a token depends on all tokens before it, computing one is slow, and a wrong state gives
a wrong answer. It comes in the two forms that matter to a cache:

    RowsEngine      one row per token, and any prefix of the rows is a state, as in full attention
    StateEngine     one state for all tokens, good at exactly one length, as in recurrent layers

Every answer is held against that of an engine without a cache.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Sequence

import hearth
from hearth import Entry, Kind, Object, ObjectKind

ROW_BYTES = 32


def step(state: bytes, token: int) -> bytes:
    """The model: slow enough to be worth avoiding."""
    for _ in range(50):
        state = hashlib.blake2b(state + token.to_bytes(4, "little"), digest_size=ROW_BYTES).digest()
    return state


class RowsEngine:
    kinds = Kind.FULL

    def __init__(self) -> None:
        self.rows = bytearray()
        self.computed = 0  # tokens, in all

    def compute(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.rows += step(bytes(self.rows[-ROW_BYTES:]), token)
        self.computed += len(tokens)

    def reset(self) -> None:
        self.rows.clear()

    def answer(self) -> str:
        return hashlib.sha256(self.rows).hexdigest()[:12]

    # What libhearth asks for. A view is memory of the cache: rows go straight in and straight out.

    def capacity(self, kind: ObjectKind, begin: int, end: int) -> int:
        return (end - begin) * ROW_BYTES if kind == ObjectKind.ROWS else 0

    def export_to(self, kind: ObjectKind, begin: int, end: int, memory: memoryview) -> tuple[int, bytes]:
        size = (end - begin) * ROW_BYTES
        memory[:size] = memoryview(self.rows)[begin * ROW_BYTES : end * ROW_BYTES]
        return size, b"rows of 32"

    def import_objects(self, objects: Sequence[Object], data: Sequence[memoryview], boundary: int) -> bool:
        self.reset()
        for item, view in zip(objects, data):
            if item.shape != b"rows of 32" or item.begin * ROW_BYTES > len(self.rows):
                return False
            del self.rows[item.begin * ROW_BYTES :]  # rows before it may go on as another prompt did
            self.rows += view
        del self.rows[boundary * ROW_BYTES :]  # and so may the last ones
        return len(self.rows) == boundary * ROW_BYTES


class StateEngine:
    kinds = Kind.RECURRENT

    def __init__(self) -> None:
        self.state = b""
        self.computed = 0

    def compute(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.state = step(self.state, token)
        self.computed += len(tokens)

    def reset(self) -> None:
        self.state = b""

    def answer(self) -> str:
        return hashlib.sha256(self.state).hexdigest()[:12]

    def capacity(self, kind: ObjectKind, begin: int, end: int) -> int:
        return ROW_BYTES if kind == ObjectKind.SNAPSHOT else 0

    def export_to(self, kind: ObjectKind, begin: int, end: int, memory: memoryview) -> tuple[int, bytes]:
        memory[:ROW_BYTES] = self.state
        return ROW_BYTES, b""

    def import_objects(self, objects: Sequence[Object], data: Sequence[memoryview], boundary: int) -> bool:
        if len(objects) != 1 or objects[0].end != boundary:
            return False
        self.state = bytes(data[0])
        return True


def run(space: hearth.Space, engine: RowsEngine | StateEngine, tokens: list[int], shared: int) -> tuple[str, int]:
    """One prompt whose first `shared` tokens will be seen again. Returns the answer and the tokens reused."""
    engine.reset()
    reused = space.session_lookup(engine, tokens)
    if reused == 0:
        engine.reset()
    if reused < shared:
        # Store where prompts part: a state that cannot be cut is of use there only.
        engine.compute(tokens[reused:shared])
        space.session_insert(engine, tokens[:shared], entry=Entry.SYSTEM, anchor=shared)
    engine.compute(tokens[max(reused, shared) :])
    space.session_insert(engine, tokens, entry=Entry.USER, anchor=shared)
    return engine.answer(), reused


def demonstrate(cache: hearth.Cache, engine: RowsEngine | StateEngine) -> bool:
    name = type(engine).__name__
    space = cache.space(hearth.Model(hashlib.sha256(name.encode()).digest(), engine.kinds))
    instructions = [ord(c) for c in "Answer like the keeper of a lighthouse, plainly and in full sentences. " * 4]
    others = instructions[:100] + [ord(c) for c in "Speak like a pirate, and never give away where the treasure lies. " * 2]
    fine = True
    for start, question in (
        (instructions, "How do I pass the reef?"),
        (instructions, "How deep is the harbour?"),
        (others, "How do I pass the reef?"),  # leaves the first ones in the middle
        (others, "Where is the gold?"),
        (instructions, "How do I pass the reef at night?"),
    ):
        tokens = start + [ord(c) for c in question]
        answer, reused = run(space, engine, tokens, len(start))
        cold = type(engine)()
        cold.compute(tokens)
        fine = fine and answer == cold.answer()
        print(f"{name}: {len(tokens)} tokens, {reused} reused, answer {answer}, {'right' if answer == cold.answer() else 'WRONG'}")
    # The calls below the session: what would a lookup give, and why not more?
    with space.lookup(instructions + [ord("X")] * 3, peek=True) as plan:
        print(f"{name}: a plan of {plan.boundary} tokens ({plan.match}), {len(plan.objects)} objects; not longer: {plan.reason.name.lower()}")
        fine = fine and plan.boundary == len(instructions)
        bytes_planned = sum(len(plan.fetch(i)) for i in range(len(plan.objects)))
        fine = fine and bytes_planned == sum(item.bytes for item in plan.objects)
    return fine


def main() -> int:
    with hearth.Cache(ram_bytes=64 << 20, block_tokens=32) as cache:
        fine = [demonstrate(cache, RowsEngine()), demonstrate(cache, StateEngine())]
        stats = cache.stats()
        print(f"{stats['hits']} hits of {stats['lookups']} lookups, {stats['tokens_reused']} of {stats['tokens_looked_up']} tokens reused")
        held, hits = cache.held(), [event for event in cache.events() if event.kind == hearth.EventKind.HIT]
        print(f"{len(held)} objects of {sum(item.bytes for item in held)} bytes are held, {stats['bytes_memory']} bytes are taken from the system")
        fine.append(len(held) == stats["objects"] and all(item.tokens is None for item in held))
        fine.append(len(hits) == cache.rate(hearth.EventKind.HIT, 60).count)
        fine.append(sum(event.read_tokens for event in hits) <= stats["tokens_reused"])
        return 0 if all(fine) and stats["hits"] == 7 else 1


if __name__ == "__main__":
    sys.exit(main())
