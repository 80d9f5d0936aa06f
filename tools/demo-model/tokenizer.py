"""A byte-level BPE tokenizer with Qwen's way of cutting text into words: learned from the generator's own text.

`tokenizer.py DOCS OUT [SAMPLES]` learns one. The pattern below is Qwen's for the characters that occur here; bytes beyond ASCII
are letters of Latin-1 or single signs.
"""
import heapq
import json
import random
import re
import sys
from collections import Counter, defaultdict

SPECIALS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>', '<think>', '</think>']
L, N = r'[^\W\d_]', r'\d'
WORDS = re.compile(r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|(?:[^\r\n\w]|_)?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = re.compile('(' + '|'.join(re.escape(s) for s in SPECIALS) + ')')
VOCAB = 4096


def visible():
    """GPT-2's notation: a character for each byte."""
    chars, extra = {}, 0
    for b in range(256):
        if 33 <= b <= 126 or (161 <= b <= 255 and b != 173):
            chars[b] = chr(b)
        else:
            chars[b] = chr(256 + extra)
            extra += 1
    return chars


def learn(counts, merges_wanted):
    """The merges, most frequent first; ties go to the smaller pair, so that the result does not depend on the machine."""
    words = [[list(bytes([b]) for b in word.encode()), count] for word, count in sorted(counts.items())]
    pairs, where = Counter(), defaultdict(set)
    for i, (parts, count) in enumerate(words):
        for pair in zip(parts, parts[1:]):
            pairs[pair] += count
            where[pair].add(i)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < merges_wanted and heap:
        count, best = heapq.heappop(heap)
        if pairs[best] != -count:
            if pairs[best] > 0:
                heapq.heappush(heap, (-pairs[best], best))
            continue
        merges.append(best)
        changed = set()
        for i in where.pop(best):
            parts, n = words[i]
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) != best:
                    at += 1
                    continue
                for left in ([(parts[at - 1], parts[at])] if at else []) + ([(parts[at + 1], parts[at + 2])] if at + 2 < len(parts) else []):
                    pairs[left] -= n
                    changed.add(left)
                parts[at:at + 2] = [best[0] + best[1]]
                for new in ([(parts[at - 1], parts[at])] if at else []) + ([(parts[at], parts[at + 1])] if at + 1 < len(parts) else []):
                    pairs[new] += n
                    where[new].add(i)
                    changed.add(new)
                at += 1
        pairs[best] = 0
        for pair in changed:
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
    return merges


class Tokenizer:
    def __init__(self, path):
        self.merges = [tuple(bytes.fromhex(x) for x in pair) for pair in json.load(open(path))]
        self.tokens = [bytes([b]) for b in range(256)] + [a + b for a, b in self.merges]
        self.ids = {t: i for i, t in reversed(list(enumerate(self.tokens)))}
        self.ranks = {pair: i for i, pair in enumerate(self.merges)}
        self.special = {s: len(self.tokens) + i for i, s in enumerate(SPECIALS)}
        self.size = len(self.tokens) + len(SPECIALS)
        self.memo = {}

    def word(self, word):
        parts = [bytes([b]) for b in word.encode()]
        while len(parts) > 1:
            rank, at = min((self.ranks.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == 1 << 30:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[p] for p in parts]

    def encode(self, text):
        out, memo = [], self.memo
        for piece in SPECIAL.split(text):
            if piece in self.special:
                out.append(self.special[piece])
                continue
            for word in WORDS.findall(piece):
                ids = memo.get(word)
                if ids is None:
                    ids = self.word(word)
                    if len(memo) < 500000:
                        memo[word] = ids
                out += ids
        return out

    def decode(self, ids):
        names = {i: s for s, i in self.special.items()}
        return b''.join(names[i].encode() if i in names else self.tokens[i] for i in ids).decode(errors='replace')


if __name__ == '__main__':
    import talk
    talk.load_docs(sys.argv[1])
    r = random.Random(20)
    counts = Counter()
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 40000):
        for text, learned in talk.sample(r):
            for piece in SPECIAL.split(text):
                if not SPECIAL.fullmatch(piece):
                    counts.update(WORDS.findall(piece))
    json.dump([(a.hex(), b.hex()) for a, b in learn(counts, VOCAB - 256 - len(SPECIALS))], open(sys.argv[2], 'w'))
