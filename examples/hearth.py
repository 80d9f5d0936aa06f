"""hearth.py: libhearth from Python, with ctypes alone: nothing to compile, nothing to install beside the library.

    import hearth

    with hearth.Cache(ram_bytes=1 << 30) as cache:
        space = cache.space(hearth.Model(fingerprint, hearth.Kind.FULL))
        reused = space.session_lookup(engine, tokens)      # your engine now stands at `reused` tokens
        ...                                                # it computes the rest
        space.session_insert(engine, tokens)

`engine` is any object with the three methods of `Engine` below. Programs that want to decide for themselves use `space.lookup` and
`space.store`, which are the C calls of the same names.

MEMORY. State is handed over as memoryviews of the library's own memory: reading one (numpy.frombuffer, file.readinto, bytes) copies nothing
before you do. A view is good until its plan or store is closed; then it raises ValueError. A slice or an array made from it does not
notice: keep none.

THREADS. As in hearth.h: everything from any thread; a plan or a store belongs to one thread at a time.

The library is found by HEARTH_LIBRARY (a path), beside this file's prefix, or by the loader's own rules.
"""

from __future__ import annotations

import ctypes
import enum
import os
import weakref
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int32
from ctypes import c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Iterator, NamedTuple, Optional, Protocol, Sequence, Union

API_VERSION = 6  # of the header that this file was written for
KEY_BYTES = 32
SHAPE_BYTES_MAX = 160
MESSAGE_BYTES = 256

Tokens = Union[Sequence[int], "ctypes.Array[c_int32]"]


class Kind(enum.IntFlag):
    """What the state of a layer can do; a model is a set of these. Unknown layers are RECURRENT."""

    FULL = 1
    SLIDING = 2
    CHUNKED = 4
    RECURRENT = 8


class ObjectKind(enum.IntEnum):
    ROWS = 1
    SLIDING = 2
    SNAPSHOT = 3


class Entry(enum.IntEnum):
    """What the end of stored tokens is; decides how long they are kept."""

    ASSISTANT = 0
    USER = 1
    SYSTEM = 2


class Reason(enum.IntEnum):
    """Why a plan is not longer."""

    NONE = 0
    COLD = 1
    DIVERGED = 2
    SHORT = 3
    NO_SNAPSHOT = 4
    EVICTED = 5
    FOREIGN = 6
    UNVERIFIED = 7
    CHEAPER = 8
    TIMEOUT = 9
    TIER_ERROR = 10
    REFUSED = 11
    DISABLED = 12


class Tier(enum.IntEnum):
    RAM = 0
    SSD = 1
    REMOTE = 2
    ALL = 3  # for clear()


class EventKind(enum.IntEnum):
    LOOKUP = 0
    HIT = 1
    MISS = 2
    PARTIAL = 3
    WRITE = 4
    REPLACE = 5
    EVICT = 6
    PROMOTE = 7
    DEMOTE = 8
    DROP = 9
    VERIFY_FAIL = 10
    CLEAR = 11


class HearthError(Exception):
    """A call failed; `code` is one of enum hearth_error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Object(NamedTuple):
    """One piece of state: rows [begin, end), or a snapshot at `end`."""

    kind: ObjectKind
    begin: int
    end: int
    bytes: int
    shape: bytes


class Event(NamedTuple):
    """Something that the cache did; `number` counts up without gaps."""

    number: int
    wall_ns: int
    request: int
    kind: EventKind
    prompt_tokens: int
    read_tokens: int
    write_tokens: int
    bytes: int
    tier: Tier
    match: int
    reason: Reason
    first_difference: int
    us: int
    object: int
    position: int


class Rate(NamedTuple):
    count: int
    prompt_tokens: int
    read_tokens: int
    write_tokens: int
    bytes: int


class Held(NamedTuple):
    """One object as it is held now."""

    space: bytes
    tenant: str
    key: bytes
    parent: bytes
    kind: ObjectKind
    begin: int
    end: int
    bytes: int
    tiers: list[Tier]
    uses: int
    leases: int
    age_s: float
    entry: Entry
    pinned: bool
    shared: bool
    superseded: bool
    tokens: Optional[list[int]]  # those of [tokens_begin, end); None unless asked for
    tokens_begin: int


class Model(NamedTuple):
    fingerprint: bytes  # KEY_BYTES: of the weights and of everything else that gives state its meaning
    kinds: Kind
    window: int = 0
    captures_sliding: bool = False
    prefill_tokens_per_s: float = 0.0
    import_bytes_per_s: float = 0.0
    rows_bytes_per_token: int = 0
    snapshot_bytes: int = 0


class Engine(Protocol):
    """What session_lookup and session_insert ask of your engine. Exceptions that you raise are raised again by the session call."""

    def import_objects(self, objects: Sequence[Object], data: Sequence[memoryview], boundary: int) -> bool:
        """Make a fresh sequence of exactly `boundary` tokens; False refuses, and a shorter boundary is tried."""

    def capacity(self, kind: ObjectKind, begin: int, end: int) -> int:
        """An upper limit for the bytes of this object; 0 when there is none."""

    def export_to(self, kind: ObjectKind, begin: int, end: int, memory: memoryview) -> tuple[int, bytes]:
        """Write it into `memory`; returns how many bytes it took (0: failed) and its shape."""


# ---- the C side: structs and functions as in hearth.h ----------------------------------------------------------


class _Options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("ram_bytes", c_uint64),
        ("block_tokens", c_uint32),
        ("run_tokens", c_uint32),
        ("tail_bytes", c_uint64),
        ("policy", c_char_p),
        ("key", c_char_p),
        ("alloc", c_void_p),
        ("free", c_void_p),
        ("alloc_arg", c_void_p),
        ("log", ctypes.CFUNCTYPE(None, c_char_p, c_void_p)),
        ("log_arg", c_void_p),
        ("books_bytes", c_uint64),
        ("ahead_bytes", c_uint64),
        ("snapshot_bytes", c_uint64),
    ]


class _Model(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("fingerprint", ctypes.c_ubyte * KEY_BYTES),
        ("kinds", c_uint32),
        ("window", c_uint32),
        ("captures_sliding", c_bool),
        ("prefill_tokens_per_s", c_double),
        ("import_bytes_per_s", c_double),
        ("rows_bytes_per_token", c_uint64),
        ("snapshot_bytes", c_uint64),
    ]


class _Object(Structure):
    _fields_ = [
        ("kind", c_int),
        ("begin", c_uint32),
        ("end", c_uint32),
        ("bytes", c_uint64),
        ("tier", c_int),
        ("shape", c_void_p),
        ("shape_bytes", c_size_t),
    ]


class _PlanInfo(Structure):
    _fields_ = [
        ("boundary", c_uint32),
        ("matched", c_uint32),
        ("objects", POINTER(_Object)),
        ("objects_count", c_size_t),
        ("match", c_int),
        ("reason", c_int),
        ("first_difference", c_uint32),
        ("junction", c_uint32),
        ("fetch_s", c_double),
        ("compute_s", c_double),
        ("snapshot_evicted", c_bool),
    ]


class _LookupOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("request", c_uint64),
        ("flags", c_uint32),
        ("ready", c_void_p),
        ("ready_arg", c_void_p),
        ("search_failed", c_int),
    ]


class _Hints(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("entry", c_int),
        ("anchor", c_uint32),
        ("ttl_s", c_uint32),
        ("pin", c_bool),
        ("no_disk", c_bool),
        ("request", c_uint64),
        ("prompt", c_uint32),
        ("generated", c_bool),
        ("resumed", c_uint32),
        ("last_user", c_uint32),
        ("junction", c_uint32),
        ("sparse", c_uint32),
        ("ending", c_int),
        ("transient", c_uint32),
        ("fork", c_uint32),
        ("fork_last", c_bool),
    ]


_IMPORT = ctypes.CFUNCTYPE(c_bool, POINTER(_Object), POINTER(c_void_p), c_size_t, c_uint32, c_void_p)
_CAPACITY = ctypes.CFUNCTYPE(c_uint64, c_int, c_uint32, c_uint32, c_void_p)
_EXPORT = ctypes.CFUNCTYPE(c_uint64, c_int, c_uint32, c_uint32, c_void_p, c_uint64, c_void_p, POINTER(c_size_t), c_void_p)


class _SessionOps(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("import_", _IMPORT),
        ("capacity", _CAPACITY),
        ("export_to", _EXPORT),
        ("arg", c_void_p),
    ]


class _Event(Structure):
    _fields_ = [
        ("number", c_uint64),
        ("wall_ns", c_uint64),
        ("request", c_uint64),
        ("kind", c_int),
        ("prompt_tokens", c_uint32),
        ("read_tokens", c_uint32),
        ("write_tokens", c_uint32),
        ("bytes", c_uint64),
        ("tier", c_int),
        ("match", c_int),
        ("reason", c_int),
        ("first_difference", c_uint32),
        ("us", c_uint64),
        ("object", c_int),
        ("position", c_uint32),
    ]


class _Rate(Structure):
    _fields_ = [(name, c_uint64) for name in Rate._fields]


class _Held(Structure):
    _fields_ = [
        ("space", c_void_p),
        ("tenant", c_char_p),
        ("key", c_void_p),
        ("parent", c_void_p),
        ("kind", c_int),
        ("begin", c_uint32),
        ("end", c_uint32),
        ("bytes", c_uint64),
        ("tiers", c_uint32),
        ("uses", c_uint32),
        ("leases", c_uint32),
        ("age_s", c_double),
        ("entry", c_int),
        ("pinned", c_bool),
        ("shared", c_bool),
        ("superseded", c_bool),
        ("tokens", POINTER(c_int32)),
        ("tokens_begin", c_uint32),
        ("tokens_count", c_uint32),
    ]


_EACH = ctypes.CFUNCTYPE(c_bool, POINTER(_Held), c_void_p)

_COUNTERS = "lookups hits misses partials tokens_looked_up tokens_matched tokens_reused"
_COUNTERS2 = "stores stores_refused stores_failed evictions bytes_evicted replaces promotions demotions verify_failures tier_errors"
_COUNTERS3 = "writes_declined writes_retried writes_given_up"
_HELD = "objects nodes snapshots tails tail_stashes tail_hits tail_evictions"
_TIERS = c_uint64 * Tier.ALL


class _Stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *((name, c_uint64) for name in _COUNTERS.split()),
        ("tokens_reused_by_tier", _TIERS),
        *((name, c_uint64) for name in (_COUNTERS2 + " " + _COUNTERS3).split()),
        ("miss_by_reason", c_uint64 * len(Reason)),
        *((name, c_uint64) for name in _HELD.split()),
        ("bytes_by_tier", _TIERS),
        *((name, c_uint64) for name in "bytes_index bytes_budget bytes_cap bytes_memory".split()),
        *((name, _TIERS) for name in "bytes_read_by_tier bytes_written_by_tier ns_read_by_tier ns_written_by_tier".split()),
        *((name, c_uint64) for name in "tail_tokens tail_bytes_max".split()),
    ]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "hearth_api_version": (c_uint, []),
    "hearth_error_text": (c_char_p, [c_int]),
    "hearth_reason_name": (c_char_p, [c_int]),
    "hearth_match_name": (c_char_p, [c_int]),
    "hearth_open": (c_int, [POINTER(c_void_p), POINTER(_Options), c_char_p]),
    "hearth_close": (None, [POINTER(c_void_p)]),
    "hearth_space_open": (c_int, [c_void_p, POINTER(_Model), c_char_p, c_uint64, POINTER(c_void_p)]),
    "hearth_space_close": (None, [POINTER(c_void_p)]),
    "hearth_space_set_speed": (None, [c_void_p, c_double, c_double]),
    "hearth_space_set_depth": (None, [c_void_p, c_double]),
    "hearth_lookup": (c_int, [c_void_p, POINTER(c_int32), c_size_t, POINTER(_LookupOptions), POINTER(c_void_p)]),
    "hearth_plan_info": (POINTER(_PlanInfo), [c_void_p]),
    "hearth_plan_fetch": (c_int, [c_void_p, c_size_t, c_uint32, POINTER(c_void_p)]),
    "hearth_plan_prefetch": (None, [c_void_p]),
    "hearth_plan_shorten": (None, [c_void_p, c_size_t, c_int]),
    "hearth_plan_lower": (None, [c_void_p, c_uint32]),
    "hearth_plan_skip": (None, [c_void_p, c_size_t, c_size_t]),
    "hearth_plan_accept": (None, [c_void_p]),
    "hearth_plan_release": (None, [POINTER(c_void_p)]),
    "hearth_store_open": (c_int, [c_void_p, POINTER(c_int32), c_size_t, POINTER(_Hints), POINTER(c_void_p)]),
    "hearth_store_next": (c_bool, [c_void_p, POINTER(c_uint32), POINTER(c_uint32)]),
    "hearth_store_wants_snapshot": (c_bool, [c_void_p, c_uint32]),
    "hearth_store_reserve": (c_int, [c_void_p, c_int, c_uint32, c_uint32, c_uint64, POINTER(c_void_p)]),
    "hearth_store_commit": (c_int, [c_void_p, c_uint64, c_char_p, c_size_t]),
    "hearth_store_cancel": (None, [c_void_p]),
    "hearth_store_close": (None, [POINTER(c_void_p)]),
    "hearth_session_lookup": (
        c_int,
        [c_void_p, POINTER(_SessionOps), POINTER(c_int32), c_size_t, POINTER(_LookupOptions), POINTER(c_uint32)],
    ),
    "hearth_session_insert": (
        c_int,
        [c_void_p, POINTER(_SessionOps), POINTER(c_int32), c_size_t, POINTER(_Hints), POINTER(c_uint64)],
    ),
    "hearth_get_stats": (None, [c_void_p, c_void_p, POINTER(_Stats)]),
    "hearth_reset_stats": (None, [c_void_p]),
    "hearth_clear": (c_uint64, [c_void_p, c_void_p, c_int]),
    "hearth_demote": (c_size_t, [c_void_p, POINTER(c_int32), c_size_t, c_uint32]),
    "hearth_release": (c_size_t, [c_void_p, POINTER(c_int32), c_size_t, c_uint32]),
    "hearth_pin": (c_uint32, [c_void_p, POINTER(c_int32), c_size_t, c_bool]),
    "hearth_set_ram_bytes": (None, [c_void_p, c_uint64]),
    "hearth_each": (c_size_t, [c_void_p, c_void_p, c_uint, _EACH, c_void_p]),
    "hearth_events_read": (c_size_t, [c_void_p, c_uint64, POINTER(_Event), c_size_t]),
    "hearth_get_rate": (c_int, [c_void_p, c_int, c_uint32, POINTER(_Rate)]),
}


def _load() -> ctypes.CDLL:
    name = "libhearth.so.0"
    here = Path(__file__).resolve().parent
    # PREFIX/share/doc/hearth/examples -> PREFIX/lib; the tree's examples -> its release build.
    beside = [parent / "lib" / name for parent in list(here.parents)[3:4]]
    beside.append(here.parent / "build" / "release" / "lib" / name)
    path = os.environ.get("HEARTH_LIBRARY") or next((str(p) for p in beside if p.exists()), name)
    library = ctypes.CDLL(path)
    for function, (result, arguments) in _SIGNATURES.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    if library.hearth_api_version() < API_VERSION:
        raise ImportError(f"{path} is older than hearth.py: API {library.hearth_api_version()} < {API_VERSION}")
    return library


_lib = _load()


def _check(error: int, message: Optional[bytes] = None) -> None:
    if error != 0:
        raise HearthError(error, (message or _lib.hearth_error_text(error)).decode())


def _tokens(tokens: Tokens) -> "ctypes.Array[c_int32]":
    """Tokens as C has them: what is an array of int32 already is not copied."""
    if isinstance(tokens, ctypes.Array) and tokens._type_ is c_int32:
        return tokens
    return (c_int32 * len(tokens))(*tokens)


def _view(address: Optional[int], size: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * size).from_address(address or 0)).cast("B")


def _object(record: _Object) -> Object:
    shape = ctypes.string_at(record.shape, record.shape_bytes) if record.shape_bytes else b""
    return Object(ObjectKind(record.kind), record.begin, record.end, record.bytes, shape)


def _held(record: _Held) -> Held:
    space, key, parent = (ctypes.string_at(pointer, KEY_BYTES) for pointer in (record.space, record.key, record.parent))
    return Held(
        space,
        record.tenant.decode(),
        key,
        parent,
        ObjectKind(record.kind),
        record.begin,
        record.end,
        record.bytes,
        [tier for tier in Tier if tier != Tier.ALL and record.tiers >> tier & 1],
        record.uses,
        record.leases,
        record.age_s,
        Entry(record.entry),
        record.pinned,
        record.shared,
        record.superseded,
        record.tokens[: record.tokens_count] if record.tokens else None,
        record.tokens_begin,
    )


def _lookup_options(request: int, peek: bool = False) -> _LookupOptions:
    return _LookupOptions(struct_size=ctypes.sizeof(_LookupOptions), request=request, flags=1 if peek else 0)


def _hints(entry: Entry, anchor: int, ttl_s: int, pin: bool) -> _Hints:
    return _Hints(struct_size=ctypes.sizeof(_Hints), entry=entry, anchor=anchor, ttl_s=ttl_s, pin=pin)


class _Handle:
    """An opaque pointer, closed once: by close(), by `with`, or at the latest when it is garbage-collected. What was made from it is closed
    before, as hearth.h asks for: a parent knows its children weakly, a child keeps its parent."""

    _closer = ""

    def __init__(self, parent: Optional["_Handle"] = None) -> None:
        self._pointer = c_void_p()
        self._views: list[memoryview] = []
        self._children: "weakref.WeakSet[_Handle]" = weakref.WeakSet()
        self._parent = parent
        if parent is not None:
            parent._children.add(self)

    def _lend(self, view: memoryview) -> memoryview:
        self._views.append(view)
        return view

    def _take_back(self) -> None:
        for view in self._views:
            try:
                view.release()
            except BufferError:  # an array was made of it; see MEMORY above
                pass
        self._views.clear()

    @property
    def _open(self) -> c_void_p:
        if not self._pointer:
            raise ValueError(f"{type(self).__name__} is closed")
        return self._pointer

    def close(self) -> None:
        for child in list(self._children):
            child.close()
        self._take_back()
        if self._pointer:
            getattr(_lib, self._closer)(byref(self._pointer))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()


# ---- the Python side -------------------------------------------------------------------------------------------


class Cache(_Handle):
    """A cache in memory. Closing it closes its spaces, and their plans and stores."""

    _closer = "hearth_close"

    def __init__(
        self,
        ram_bytes: int,
        *,
        block_tokens: int = 0,
        run_tokens: int = 0,
        tail_bytes: Optional[int] = None,
        policy: Optional[str] = None,
        key: Optional[bytes] = None,
        books_bytes: int = 0,
        snapshot_bytes: int = 0,
        log: Optional[Callable[[str], None]] = None,
    ) -> None:
        super().__init__()
        if key is not None and len(key) != KEY_BYTES:
            raise ValueError(f"key must have {KEY_BYTES} bytes")
        options = _Options(struct_size=ctypes.sizeof(_Options), ram_bytes=ram_bytes, block_tokens=block_tokens, run_tokens=run_tokens)
        options.tail_bytes = 0 if tail_bytes is None else tail_bytes or 0xFFFFFFFFFFFFFFFF
        options.policy = policy.encode() if policy else None
        options.key = key
        options.books_bytes = books_bytes
        options.snapshot_bytes = snapshot_bytes
        if log is not None:
            callback = log
            self._log = type(options.log)(lambda line, _: callback(line.decode()))  # kept: C holds a pointer to it
            options.log = self._log
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        _check(_lib.hearth_open(byref(self._pointer), byref(options), message), message.value)

    def space(self, model: Model, tenant: str = "", share_bytes: int = 0) -> "Space":
        return Space(self, model, tenant, share_bytes)

    def stats(self, space: Optional["Space"] = None) -> dict[str, Any]:
        stats = _Stats(struct_size=ctypes.sizeof(_Stats))
        _lib.hearth_get_stats(self._open, space._open if space else None, byref(stats))
        values = {name: getattr(stats, name) for name, _ in _Stats._fields_[1:]}
        return {name: list(value) if isinstance(value, ctypes.Array) else value for name, value in values.items()}

    def reset_stats(self) -> None:
        _lib.hearth_reset_stats(self._open)

    def clear(self, space: Optional["Space"] = None, tier: Tier = Tier.ALL) -> int:
        """Forget; returns the bytes freed."""
        return int(_lib.hearth_clear(self._open, space._open if space else None, tier))

    def set_ram_bytes(self, ram_bytes: int) -> None:
        _lib.hearth_set_ram_bytes(self._open, ram_bytes)

    def held(self, space: Optional["Space"] = None, tokens: bool = False) -> list[Held]:
        """What is held, in the order of storing; with tokens, which are what people wrote, only when asked for."""
        found: list[Held] = []

        def show(record: Any, _: Any) -> bool:
            found.append(_held(record.contents))
            return True

        _lib.hearth_each(self._open, space._open if space else None, 1 if tokens else 0, _EACH(show), None)
        return found

    def events(self, after: int = 0, most: int = 4096) -> list[Event]:
        """What happened after the event of that number, oldest first; the last 4,096 are kept."""
        records = (_Event * most)()
        count = _lib.hearth_events_read(self._open, after, records, most)
        rows = ([getattr(records[i], name) for name, _ in _Event._fields_] for i in range(count))
        return [
            Event(*row)._replace(kind=EventKind(row[3]), tier=Tier(row[8]), reason=Reason(row[10])) for row in rows
        ]

    def rate(self, kind: EventKind, seconds: int) -> Rate:
        """Sums over the last seconds, 900 at most."""
        rate = _Rate()
        _check(_lib.hearth_get_rate(self._open, kind, seconds, byref(rate)))
        return Rate(*(getattr(rate, name) for name in Rate._fields))


class Space(_Handle):
    """One model as it is configured, and one tenant. Made by Cache.space."""

    _closer = "hearth_space_close"

    def __init__(self, cache: Cache, model: Model, tenant: str, share_bytes: int) -> None:
        super().__init__(cache)
        if len(model.fingerprint) != KEY_BYTES:
            raise ValueError(f"fingerprint must have {KEY_BYTES} bytes")
        record = _Model(ctypes.sizeof(_Model), (ctypes.c_ubyte * KEY_BYTES)(*model.fingerprint), *model[1:])
        _check(_lib.hearth_space_open(cache._open, byref(record), tenant.encode(), share_bytes, byref(self._pointer)))

    def set_speed(self, prefill_tokens_per_s: float, import_bytes_per_s: float) -> None:
        _lib.hearth_space_set_speed(self._open, prefill_tokens_per_s, import_bytes_per_s)

    def set_depth(self, seconds_per_token_before: float) -> None:
        _lib.hearth_space_set_depth(self._open, seconds_per_token_before)

    def lookup(self, tokens: Tokens, peek: bool = False, request: int = 0) -> "Plan":
        """Always gives a plan; one with boundary 0 is a cold start. Events and log lines name the request."""
        return Plan(self, tokens, peek, request)

    def store(self, tokens: Tokens, entry: Entry = Entry.ASSISTANT, anchor: int = 0, ttl_s: int = 0, pin: bool = False) -> "Store":
        """The state of these tokens exists in the engine."""
        return Store(self, tokens, _hints(entry, anchor, ttl_s, pin))

    def pin(self, tokens: Tokens, pin: bool = True) -> int:
        array = _tokens(tokens)
        return int(_lib.hearth_pin(self._open, array, len(array), pin))

    def session_lookup(self, engine: Engine, tokens: Tokens, request: int = 0) -> int:
        """Looks up, fetches and imports; falls back until it works. Returns the tokens that need not be computed."""
        array, reused, call = _tokens(tokens), c_uint32(), _SessionCall(engine)
        options = _lookup_options(request)
        call.finish(_lib.hearth_session_lookup(self._open, byref(call.ops), array, len(array), byref(options), byref(reused)))
        return reused.value

    def session_insert(
        self, engine: Engine, tokens: Tokens, entry: Entry = Entry.ASSISTANT, anchor: int = 0, ttl_s: int = 0, pin: bool = False
    ) -> int:
        """Stores what is not held of a sequence that stands at the end of these tokens. Returns the bytes written."""
        array, stored, call = _tokens(tokens), c_uint64(), _SessionCall(engine)
        hints = _hints(entry, anchor, ttl_s, pin)
        call.finish(_lib.hearth_session_insert(self._open, byref(call.ops), array, len(array), byref(hints), byref(stored)))
        return stored.value


class Plan(_Handle):
    """What can be restored of a prompt, and from which objects."""

    _closer = "hearth_plan_release"

    def __init__(self, space: Space, tokens: Tokens, peek: bool, request: int) -> None:
        super().__init__(space)
        array, options = _tokens(tokens), _lookup_options(request, peek)
        _check(_lib.hearth_lookup(space._open, array, len(array), byref(options), byref(self._pointer)))

    @property
    def _info(self) -> _PlanInfo:
        return _lib.hearth_plan_info(self._open).contents  # type: ignore[no-any-return]

    @property
    def boundary(self) -> int:
        return int(self._info.boundary)

    @property
    def matched(self) -> int:
        return int(self._info.matched)

    @property
    def first_difference(self) -> int:
        return int(self._info.first_difference)

    @property
    def junction(self) -> int:
        return int(self._info.junction)

    @property
    def reason(self) -> Reason:
        return Reason(self._info.reason)

    @property
    def match(self) -> str:
        return str(_lib.hearth_match_name(self._info.match).decode())

    @property
    def objects(self) -> list[Object]:
        info = self._info
        return [_object(info.objects[i]) for i in range(info.objects_count)]

    def prefetch(self) -> None:
        _lib.hearth_plan_prefetch(self._open)

    def fetch(self, index: int, timeout_ms: int = 10000) -> memoryview:
        """The bytes of an object, read-only. HearthError: shorten."""
        data, size = c_void_p(), self._info.objects[index].bytes
        _check(_lib.hearth_plan_fetch(self._open, index, timeout_ms, byref(data)))
        return self._lend(_view(data.value, size).toreadonly())

    def shorten(self, index: int, why: Reason) -> None:
        self._take_back()
        _lib.hearth_plan_shorten(self._open, index, why)

    def lower(self, limit: int) -> None:
        self._take_back()
        _lib.hearth_plan_lower(self._open, limit)

    def accept(self) -> None:
        _lib.hearth_plan_accept(self._open)


class Store(_Handle):
    """Taking state in: for each of missing(), reserve, write, commit."""

    _closer = "hearth_store_close"

    def __init__(self, space: Space, tokens: Tokens, hints: _Hints) -> None:
        super().__init__(space)
        array = _tokens(tokens)
        _check(_lib.hearth_store_open(space._open, array, len(array), byref(hints), byref(self._pointer)))

    def missing(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows that are not held yet."""
        begin, end = c_uint32(), c_uint32()
        while _lib.hearth_store_next(self._open, byref(begin), byref(end)):
            yield begin.value, end.value

    def wants_snapshot(self, at: int) -> bool:
        return bool(_lib.hearth_store_wants_snapshot(self._open, at))

    def reserve(self, kind: ObjectKind, begin: int, end: int, capacity: int) -> memoryview:
        """Memory to write the object into. HearthError: go on without storing."""
        memory = c_void_p()
        _check(_lib.hearth_store_reserve(self._open, kind, begin, end, capacity, byref(memory)))
        return self._lend(_view(memory.value, capacity))

    def commit(self, size: int, shape: bytes = b"") -> None:
        self._take_back()
        _check(_lib.hearth_store_commit(self._open, size, shape, len(shape)))

    def cancel(self) -> None:
        self._take_back()
        _lib.hearth_store_cancel(self._open)


class _SessionCall:
    """The callbacks of one session call. An exception cannot travel through C: it waits here, and C sees a refusal."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._error: Optional[BaseException] = None
        self.ops = _SessionOps(
            ctypes.sizeof(_SessionOps), _IMPORT(self._import), _CAPACITY(self._capacity), _EXPORT(self._export), None
        )

    def finish(self, error: int) -> None:
        if self._error is not None:
            raise self._error
        _check(error)

    def _import(self, objects: Any, data: Any, count: int, boundary: int, _: Any) -> bool:
        if self._error is not None:
            return False
        records = [_object(objects[i]) for i in range(count)]
        views = [_view(data[i], records[i].bytes).toreadonly() for i in range(count)]
        try:
            return bool(self._engine.import_objects(records, views, boundary))
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error
            return False

    def _capacity(self, kind: int, begin: int, end: int, _: Any) -> int:
        try:
            return self._engine.capacity(ObjectKind(kind), begin, end) if self._error is None else 0
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error
            return 0

    def _export(self, kind: int, begin: int, end: int, memory: int, capacity: int, shape: int, shape_bytes: Any, _: Any) -> int:
        try:
            size, record = self._engine.export_to(ObjectKind(kind), begin, end, _view(memory, capacity))
            if size > capacity or len(record) > SHAPE_BYTES_MAX:
                raise ValueError(f"export_to returned {size} of {capacity} bytes and a shape of {len(record)} bytes")
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error
            return 0
        ctypes.memmove(shape, record, len(record))
        shape_bytes[0] = len(record)
        return size
