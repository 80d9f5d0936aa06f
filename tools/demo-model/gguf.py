"""Writes a GGUF file: metadata, then tensors. Matrices are q8_0 (blocks of 32 bytes with an fp16 scale), vectors f32."""
import struct

import numpy as np

from tokenizer import SPECIALS, visible

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGN = 32
NAMES = {'attn_norm': 'attn_norm', 'ffn_norm': 'ffn_norm', 'q_norm': 'attn_q_norm', 'k_norm': 'attn_k_norm', 'q': 'attn_q', 'k': 'attn_k', 'v': 'attn_v', 'o': 'attn_output', 'gate': 'ffn_gate', 'up': 'ffn_up', 'down': 'ffn_down'}


def text(value):
    raw = value.encode()
    return struct.pack('<Q', len(raw)) + raw


def pack(kind, value):
    return {U32: lambda: struct.pack('<I', value), I32: lambda: struct.pack('<i', value), F32: lambda: struct.pack('<f', value), BOOL: lambda: struct.pack('<?', value), STRING: lambda: text(value)}[kind]()


def key(name, kind, value, of=None):
    if kind == ARRAY:
        return text(name) + struct.pack('<IIQ', ARRAY, of, len(value)) + b''.join(pack(of, v) for v in value)
    return text(name) + struct.pack('<I', kind) + pack(kind, value)


def q8_0(values):
    blocks = values.astype(np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(1) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    quants = np.rint(blocks * inverse[:, None]).astype(np.int8)
    out = np.empty((len(blocks), 34), np.uint8)
    out[:, :2] = scale.astype(np.float16).view(np.uint8).reshape(-1, 2)
    out[:, 2:] = quants.view(np.uint8)
    return out.tobytes()


def tensor_name(name):
    if name == 'embed.weight':
        return 'token_embd.weight'
    if name == 'norm.weight':
        return 'output_norm.weight'
    _, layer, part, _ = name.split('.')
    return 'blk.%s.%s.weight' % (layer, NAMES[part])


def metadata(shape, tok, template):
    chars = visible()
    show = lambda raw: ''.join(chars[b] for b in raw)
    end = tok.special['<|endoftext|>']
    types = [1] * len(tok.tokens) + [3 if s.startswith('<|') else 4 for s in SPECIALS]
    a = 'qwen3.'
    return [
        key('general.architecture', STRING, 'qwen3'), key('general.name', STRING, 'hearth-demo'), key('general.file_type', U32, 7), key('general.quantization_version', U32, 2),
        key('general.description', STRING, 'a small model that knows hearth, trained on text written for it'), key('general.license', STRING, 'mit'),
        key(a + 'block_count', U32, shape['layers']), key(a + 'context_length', U32, shape['context']), key(a + 'embedding_length', U32, shape['width']), key(a + 'feed_forward_length', U32, shape['ff']),
        key(a + 'attention.head_count', U32, shape['heads']), key(a + 'attention.head_count_kv', U32, shape['kv_heads']), key(a + 'attention.key_length', U32, shape['head_dim']), key(a + 'attention.value_length', U32, shape['head_dim']),
        key(a + 'attention.layer_norm_rms_epsilon', F32, shape['eps']), key(a + 'rope.freq_base', F32, shape['theta']),
        key('tokenizer.ggml.model', STRING, 'gpt2'), key('tokenizer.ggml.pre', STRING, 'qwen2'), key('tokenizer.ggml.tokens', ARRAY, [show(t) for t in tok.tokens] + SPECIALS, STRING),
        key('tokenizer.ggml.token_type', ARRAY, types, I32), key('tokenizer.ggml.merges', ARRAY, [show(x) + ' ' + show(y) for x, y in tok.merges], STRING),
        key('tokenizer.ggml.bos_token_id', U32, end), key('tokenizer.ggml.eos_token_id', U32, tok.special['<|im_end|>']), key('tokenizer.ggml.padding_token_id', U32, end), key('tokenizer.ggml.add_bos_token', BOOL, False),
        key('tokenizer.chat_template', STRING, template),
    ]


def write(path, shape, state, tok, template):
    keys = metadata(shape, tok, template)
    tensors, offset = [], 0
    infos = b''
    for name in sorted(state):
        value = state[name]
        wide = value.ndim == 2
        raw = q8_0(value) if wide else value.astype(np.float32).tobytes()
        infos += text(tensor_name(name)) + struct.pack('<I', value.ndim) + b''.join(struct.pack('<Q', n) for n in reversed(value.shape)) + struct.pack('<IQ', 8 if wide else 0, offset)
        raw += b'\0' * (-len(raw) % ALIGN)
        tensors.append(raw)
        offset += len(raw)
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(keys)) + b''.join(keys) + infos
    with open(path, 'wb') as f:
        f.write(head + b'\0' * (-len(head) % ALIGN))
        for raw in tensors:
            f.write(raw)
