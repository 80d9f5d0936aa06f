#!/usr/bin/env python3
"""Makes agents.jsonl, the small trace of the tests, and prints what caches of some sizes make of it.

    make.py > agents.jsonl     the figures go to standard error

Agents with one of three system prompts go on turn by turn, with pauses; every third request is a long document that comes once.
The figures are the block hit rates of LRU (of blocks used last at the same time the deepest goes first) and of Belady's algorithm
with bypass, computed in the plainest way. tests/lab and tests/cache compare with them.
"""
import json
import random
import sys

BLOCK = 512
random.seed(20261115)


def make():
    fresh = iter(range(10**6))
    systems = [[next(fresh) for _ in range(length)] for length in (3, 5, 8)]
    agents = [list(random.choice(systems)) for _ in range(10)]
    requests, at = [], 0
    for number in range(240):
        at += int(random.expovariate(1 / 3000))
        if number % 3 == 2:
            blocks = [next(fresh) for _ in range(random.randint(6, 14))]
        else:
            agent = random.choice(agents[:4]) if random.random() < 0.5 else random.choice(agents)
            if len(agent) > 24:
                agent[:] = random.choice(systems)
            agent += [next(fresh) for _ in range(random.randint(1, 2))]
            blocks = list(agent)
        requests.append((at, blocks))
    return requests


def lru(requests, capacity):
    used, depth, hits = {}, {}, 0
    for now, (_, blocks) in enumerate(requests):
        known = 0
        while known < len(blocks) and blocks[known] in used:
            known += 1
        hits += known
        for block in blocks[:known]:
            used[block] = now
        for level, block in enumerate(blocks[known:], known):
            if len(used) == capacity:
                victim = min(used, key=lambda b: (used[b], -depth[b]))
                if used[victim] == now:
                    break
                del used[victim]
            used[block], depth[block] = now, level
    return hits


def opt(requests, capacity):
    never = len(requests)
    held, hits = {}, 0
    for now, (_, blocks) in enumerate(requests):
        known = 0
        while known < len(blocks) and blocks[known] in held:
            known += 1
        hits += known
        for level, block in enumerate(blocks):
            later = (n for n in range(now + 1, never) if block in requests[n][1])
            held[block] = (next(later, never), level)
        best = sorted((when, block) for block, when in held.items() if when[0] < never)
        held = {block: when for when, block in best[:capacity]}
    return hits


def main():
    requests = make()
    total = sum(len(blocks) for _, blocks in requests)
    for at, blocks in requests:
        print(json.dumps({"timestamp": at, "input_length": BLOCK * len(blocks), "output_length": 1, "hash_ids": blocks}))
    for capacity in (50, 100, 200, 400):
        print(capacity, *(f"{f(requests, capacity) / total:.4f}" for f in (lru, opt)), file=sys.stderr)


main()
