"""Trains the demo model and writes it as GGUF. PyTorch is needed here alone; nothing of it is needed to build or run hearth.

    train.py --docs DOCS --tokenizer FILE --template FILE --out FOLDER --seconds N [--from FOLDER [--average]]

Conversations are written while the GPU works: each worker process has its own seed and its own queue, and batches take the
queues in turn, so the order of the data does not depend on timing. Matrices are trained with Muon, the rest with AdamW.
"""
import argparse
import math
import multiprocessing
import os
import random
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import gguf
import talk
from tokenizer import Tokenizer

SHAPE = dict(layers=8, width=384, heads=6, kv_heads=2, head_dim=64, ff=672, context=65536, theta=1000000.0, eps=1e-6)
TINY = dict(SHAPE, layers=2, width=128, heads=2, kv_heads=1, ff=128)
NOT_LEARNED = 0x8000  # a bit beside the token


# ---- data ----

def write_rows(seed, docs, tokenizer, length, queue):
    """Packs conversations into rows. A row begins with a conversation; the last one may be cut off."""
    talk.load_docs(docs)
    talk.AGENT_PAGES = length // 100
    tok = Tokenizer(tokenizer)
    r = random.Random(seed)
    while True:
        rows = []
        for _ in range(16):
            row = []
            while len(row) < length + 1:
                for text, learned in talk.sample(r):
                    row += tok.encode(text) if learned else [t | NOT_LEARNED for t in tok.encode(text)]
            rows.append(row[:length + 1])
        queue.put(np.array(rows, dtype=np.uint16))


class Data:
    def __init__(self, args, length, workers):
        self.queues = [multiprocessing.Queue(6) for _ in range(workers)]
        self.turn = 0
        for i, queue in enumerate(self.queues):
            multiprocessing.Process(target=write_rows, args=(args.seed * 1000 + i, args.docs, args.tokenizer, length, queue), daemon=True).start()

    def batch(self, rows):
        parts = []
        while sum(len(p) for p in parts) < rows:
            parts.append(self.queues[self.turn].get())
            self.turn = (self.turn + 1) % len(self.queues)
        return torch.from_numpy(np.concatenate(parts)[:rows].astype(np.int64))


# ---- model: dense Qwen3 ----

class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight.to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def attention(q, k, v):
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    n = q.shape[2]
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + torch.full((n, n), -1e9).triu(1)
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        wide, narrow = s['heads'] * s['head_dim'], s['kv_heads'] * s['head_dim']
        self.attn_norm, self.ffn_norm = Norm(s['width'], s['eps']), Norm(s['width'], s['eps'])
        self.q_norm, self.k_norm = Norm(s['head_dim'], s['eps']), Norm(s['head_dim'], s['eps'])
        self.q, self.k, self.v = (nn.Linear(s['width'], n, bias=False) for n in (wide, narrow, narrow))
        self.o = nn.Linear(wide, s['width'], bias=False)
        self.gate, self.up = (nn.Linear(s['width'], s['ff'], bias=False) for _ in range(2))
        self.down = nn.Linear(s['ff'], s['width'], bias=False)

    def forward(self, x, cos, sin):
        s, (b, t, _) = self.s, x.shape
        y = self.attn_norm(x)
        q = rotate(self.q_norm(self.q(y).view(b, t, s['heads'], -1)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k(y).view(b, t, s['kv_heads'], -1)).transpose(1, 2), cos, sin)
        v = self.v(y).view(b, t, s['kv_heads'], -1).transpose(1, 2)
        share = s['heads'] // s['kv_heads']
        y = attention(q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1))
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, s, vocab):
        super().__init__()
        self.s = s
        self.embed = nn.Embedding(vocab, s['width'])
        self.blocks = nn.ModuleList(Block(s) for _ in range(s['layers']))
        self.norm = Norm(s['width'], s['eps'])
        nn.init.normal_(self.embed.weight, std=0.05)
        for block in self.blocks:
            for m in (block.q, block.k, block.v, block.gate, block.up):
                nn.init.normal_(m.weight, std=s['width'] ** -0.5)
            nn.init.normal_(block.o.weight, std=0.3 * s['width'] ** -0.5 / math.sqrt(2 * s['layers']))
            nn.init.normal_(block.down.weight, std=0.3 * s['ff'] ** -0.5 / math.sqrt(2 * s['layers']))
        half = s['head_dim'] // 2
        self.register_buffer('freqs', s['theta'] ** (-torch.arange(half).float() / half), persistent=False)

    def forward(self, tokens, positions):
        angles = positions[:, None, :, None].float() * self.freqs
        x = self.embed(tokens)
        if x.is_cuda:
            x = x.bfloat16()
        cos, sin = angles.cos(), angles.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.linear(self.norm(x), self.embed.weight.to(x.dtype))


def loss_of(logits, targets, weights):
    losses = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction='none')
    learned = (weights > 0.5).flatten().float()
    return (losses * weights.flatten()).sum() / weights.sum(), (losses * learned).sum() / learned.sum()


def positions_of(rows, length, context, r):
    """Half of the rows skip positions at up to three places, so that long distances are not new to the model."""
    out = np.tile(np.arange(length), (rows, 1))
    for row in out[::2]:
        room = context - length
        for at in sorted(r.sample(range(length), r.randrange(1, 4))):
            jump = int(room * r.random() ** 3)
            row[at:] += jump
            room -= jump
    return torch.from_numpy(out)


# ---- optimizer ----

class Muon:
    """Momentum whose update has all singular values near one; matrices of one shape are done together."""

    def __init__(self, params, momentum=0.95, decay=0.05):
        self.groups = {}
        for p in params:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.buffers = {shape: torch.zeros(len(ps), *shape, device=ps[0].device) for shape, ps in self.groups.items()}
        self.momentum, self.decay = momentum, decay

    @torch.no_grad()
    def step(self, lr):
        for shape, ps in self.groups.items():
            grad, buf = torch.stack([p.grad for p in ps]), self.buffers[shape]
            buf.mul_(self.momentum).add_(grad, alpha=1 - self.momentum)
            x = grad.lerp(buf, self.momentum)
            x = x.bfloat16() if x.is_cuda else x
            flip = shape[0] > shape[1]
            x = x.transpose(1, 2) if flip else x
            x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
            for _ in range(5):
                a = x @ x.transpose(1, 2)
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            x = (x.transpose(1, 2) if flip else x).float() * max(1.0, shape[0] / shape[1]) ** 0.5
            for p, update in zip(ps, x):
                p.mul_(1 - lr * self.decay).add_(update, alpha=-lr)


# ---- files ----

def save(model, tok, template, folder):
    os.makedirs(folder, exist_ok=True)
    state = {k: v.detach().float().cpu().numpy() for k, v in model.state_dict().items()}
    names = sorted(state)
    for i in range(2):  # two files, because what comes back from a lent machine is limited per file
        np.savez(os.path.join(folder, 'weights%d.npz' % i), **{k: state[k].astype(np.float16) for k in names[i::2]})
    gguf.write(os.path.join(folder, 'demo.gguf'), model.s, state, tok, open(template, encoding='utf-8').read())


def read_weights(folder):
    state = {}
    for i in range(2):
        state.update({k: torch.from_numpy(v.astype(np.float32)) for k, v in np.load(os.path.join(folder, 'weights%d.npz' % i)).items()})
    return state


# ---- training ----

def main():
    parser = argparse.ArgumentParser()
    for name in ('docs', 'tokenizer', 'template', 'out', 'from'):
        parser.add_argument('--' + name, dest=name if name != 'from' else 'start')
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--rows', type=int, default=32)
    parser.add_argument('--length', type=int, default=4096)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--lr', type=float, default=0.02)
    parser.add_argument('--tiny', action='store_true')
    parser.add_argument('--average', action='store_true')
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = 'cuda' if cuda else 'cpu'
    torch.manual_seed(args.seed)
    tok = Tokenizer(args.tokenizer)
    data = Data(args, args.length, max(1, os.cpu_count() - 2))
    model = Model(TINY if args.tiny else SHAPE, tok.size).to(device)
    if args.start:
        model.load_state_dict(read_weights(args.start))
    print('parameters', sum(p.numel() for p in model.parameters()), 'device', device, torch.__version__, flush=True)
    measure = loss_of
    if cuda:
        torch.set_float32_matmul_precision('high')
        for block in model.blocks:
            block.compile()
        measure = torch.compile(loss_of)
    matrices = [p for block in model.blocks for p in block.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0)
    r = random.Random(args.seed)
    start, step, seen, shown = None, 0, 0, 0.0
    while True:
        batch = data.batch(args.rows).to(device)
        now = time.time()
        start = start or now  # the clock starts with the first batch
        done = min(1.0, (now - start) / args.seconds)
        if done >= 1.0:
            break
        lr = min(1.0, (step + 1) / 60) * min(1.0, (1 - done) / 0.6)
        tokens, learned = batch & 0x7fff, (batch & NOT_LEARNED) == 0
        weights = torch.where(learned[:, 1:], 1.0, 0.1 * (1 - done))
        positions = positions_of(args.rows, args.length, model.s['context'], r).to(device)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=cuda):
            logits = model(tokens[:, :-1], positions)
        loss, shown_loss = measure(logits, tokens[:, 1:], weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for group in adam.param_groups:
            group['lr'] = lr * args.lr * 0.2
        muon.step(lr * args.lr)
        adam.step()
        model.zero_grad(set_to_none=True)
        step += 1
        seen += args.rows * args.length
        if step <= 3 or step % 50 == 0 or now - shown > 10:
            shown = now
            print('%5.0f s  step %d  %.1f M tokens  lr %.4f  loss %.4f' % (now - start, step, seen / 1e6, lr, shown_loss.item()), flush=True)
    if args.average:  # of the weights before and after: as good at short texts as the first, at long ones as the second
        before, after = read_weights(args.start), model.state_dict()
        model.load_state_dict({k: (before[k].to(device) + after[k]) / 2 for k in before})
    save(model, tok, args.template, args.out)
    print('saved after %d steps, %.1f M tokens' % (step, seen / 1e6), flush=True)


if __name__ == '__main__':
    main()
