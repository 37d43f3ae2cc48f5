# SPDX-License-Identifier: Apache-2.0
"""A language model in plain torch: Llama's layers with random weights in bf16 and a static cache.

16 layers, 2,048 wide, 32 heads, 8,192 wide in the MLP, 32,000 words. Modules with a cache of their own
are captured: `Decode` reads a token and its position, `Prefill` some tokens from a fixed position on.
Both return the logits of the last token. Modules of one `Llama` share its weights and nothing else; as
each writes its cache, each supports one instance.

Differs   transformers' static cache counts its entries, so each replay of a graph changes its
          position; here the position is an input, and equal inputs give equal outputs.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

LAYERS, WIDTH, HEADS, WITHIN, WORDS = 16, 2048, 32, 8192, 32000
HEAD = WIDTH // HEADS
TYPE = torch.bfloat16


def _norm(x, weight):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def _turned(x, cos, sin):
    """Rotary positions: rotates pairs of elements that are half the width apart."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Llama(nn.Module):
    """The weights, the same for the same seed, made on the GPU."""

    def __init__(self, seed=0, gpu=0, layers=LAYERS):
        super().__init__()
        device = torch.device("cuda", gpu)
        random = torch.Generator(device=device).manual_seed(seed)

        def weight(*shape):
            values = torch.randn(shape, generator=random, device=device, dtype=TYPE)
            return nn.Parameter(values.mul_(0.02), requires_grad=False)

        def ones():
            return nn.Parameter(torch.ones(WIDTH, device=device, dtype=TYPE), requires_grad=False)

        self.device, self.words, self.last_norm = device, weight(WORDS, WIDTH), ones()
        self.answer = weight(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.ParameterDict({
                "norm": ones(), "qkv": weight(3 * WIDTH, WIDTH), "out": weight(WIDTH, WIDTH),
                "norm_mlp": ones(), "gate": weight(WITHIN, WIDTH), "up": weight(WITHIN, WIDTH),
                "down": weight(WIDTH, WITHIN)}) for _ in range(layers))

    def rotations(self, length):
        """(cos, sin) of all positions."""
        steps = torch.arange(0, HEAD, 2, device=self.device, dtype=torch.float32)
        angles = torch.outer(torch.arange(length, device=self.device, dtype=torch.float32),
                             10000.0 ** (-steps / HEAD))
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(TYPE), angles.sin().to(TYPE)

    def forward(self, tokens, cos, sin, attend):
        """Logits of the last token. attend(layer, q, k, v) stores keys and values, and returns the attention."""
        x = F.embedding(tokens, self.words)
        count = tokens.shape[1]
        for i, layer in enumerate(self.layers):
            q, k, v = (part.view(1, count, HEADS, HEAD).transpose(1, 2) for part in
                       F.linear(_norm(x, layer["norm"]), layer["qkv"]).split(WIDTH, dim=-1))
            y = attend(i, _turned(q, cos, sin), _turned(k, cos, sin), v)
            x = x + F.linear(y.transpose(1, 2).reshape(1, count, WIDTH), layer["out"])
            y = _norm(x, layer["norm_mlp"])
            y = F.silu(F.linear(y, layer["gate"])) * F.linear(y, layer["up"])
            x = x + F.linear(y, layer["down"])
        return F.linear(_norm(x[:, -1], self.last_norm), self.answer)


class Cache(nn.Module):
    """Keys and values of one sequence, random to begin with, as after other tokens."""

    def __init__(self, llama, length, seed=0):
        super().__init__()
        random = torch.Generator(device=llama.device).manual_seed(seed + 1)
        shape = (len(llama.layers), 2, 1, HEADS, length, HEAD)
        self.length = length
        self.register_buffer("kept", torch.randn(shape, generator=random, device=llama.device,
                                                 dtype=TYPE), persistent=False)


class Decode(nn.Module):
    """One step: a token (1, 1) at a position (1,), both int64."""

    def __init__(self, llama, cache):
        super().__init__()
        self.llama, self.cache = llama, cache
        cos, sin = llama.rotations(cache.length)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.register_buffer("places", torch.arange(cache.length, device=llama.device),
                             persistent=False)

    def forward(self, token, position):
        seen = (self.places <= position)[None, None, None]

        def attend(i, q, k, v):
            keys, values = self.cache.kept[i]
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            # Not the attention that torch selects for one query: its bits sometimes differ when other
            # work runs beside it, with or without gsched.
            with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
                return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)

        return self.llama(token, self.cos.index_select(0, position),
                          self.sin.index_select(0, position), attend)


class Prefill(nn.Module):
    """`count` tokens (1, count) from position `first` on, which see all that the cache holds before
    them."""

    def __init__(self, llama, cache, count, first=0):
        super().__init__()
        self.llama, self.cache, self.first, self.end = llama, cache, first, first + count
        cos, sin = llama.rotations(self.end)
        self.register_buffer("cos", cos[first:].clone(), persistent=False)
        self.register_buffer("sin", sin[first:].clone(), persistent=False)
        seen = torch.ones((count, self.end), device=llama.device, dtype=torch.bool).tril(first)
        self.register_buffer("seen", seen[None, None] if first else None, persistent=False)

    def forward(self, tokens):
        def attend(i, q, k, v):
            keys, values = self.cache.kept[i]
            keys[:, :, self.first:self.end].copy_(k)
            values[:, :, self.first:self.end].copy_(v)
            if self.seen is None:
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return F.scaled_dot_product_attention(q, keys[:, :, :self.end],
                                                  values[:, :, :self.end], attn_mask=self.seen)

        return self.llama(tokens, self.cos, self.sin, attend)


def decode_inputs(position, generator):
    """(token, position), on the host."""
    return (torch.randint(0, WORDS, (1, 1), generator=generator), torch.tensor([position]))


def prefill_inputs(count, generator):
    """Tokens, on the host."""
    return torch.randint(0, WORDS, (1, count), generator=generator)
