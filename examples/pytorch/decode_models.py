# SPDX-License-Identifier: Apache-2.0
"""Decode steps of language models of transformers, with random weights in bf16: for gsched.measure.

    python -m gsched.measure all --models examples/pytorch/decode_models.py:llama_8b,gemma_1b --batches 1,8 ...

Each function takes a batch and returns (module, example_input): the module reads one token of each
sequence after a prompt and returns the logits of the next one.

  llama_8b      Llama 3.1 8B after a prompt of 1,000 tokens
  llama_8b_16k  the same after 16,384 tokens
  gemma_1b      Gemma 3 1B after a prompt of 1,000 tokens
  qwen_7b       Qwen2 7B after a prompt of 1,000 tokens
  mistral_7b    Mistral 7B after a prompt of 1,000 tokens
  phi_3_mini    Phi-3 mini (3.8B) after a prompt of 1,000 tokens

Differs   transformers' static cache counts its entries, so each replay of a graph would change its
          position. This cache writes at one position, so all replays do the same work. The prompt's
          keys and values are zeros: decoding takes the same time for any.
"""

import torch
from torch import nn

import transformers
from transformers.cache_utils import Cache

TYPE = torch.bfloat16
weights = {}  # of models that several batches share


class FixedCache(Cache):
    """Keys and values of a prompt of `length` tokens and of the token after it."""

    def __init__(self, config, batch, length, device):
        heads = config.num_key_value_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.length = length
        self.position = torch.tensor([length], device=device)
        shape = (batch, heads, length + 1, size)
        self.keys = [torch.zeros(shape, device=device, dtype=TYPE)
                     for _ in range(config.num_hidden_layers)]
        self.values = [torch.zeros_like(k) for k in self.keys]

    def update(self, key_states, value_states, layer_idx, *_, **__):
        k, v = self.keys[layer_idx], self.values[layer_idx]
        k.index_copy_(2, self.position, key_states)
        v.index_copy_(2, self.position, value_states)
        return k, v

    def get_seq_length(self, *_, **__):
        return self.length

    def get_mask_sizes(self, *_, **__):
        return self.length + 1, 0

    def get_max_cache_shape(self, *_, **__):
        return self.length + 1

    def __len__(self):
        return len(self.keys)


class Decode(nn.Module):
    def __init__(self, model, config, batch, length):
        super().__init__()
        device = next(model.parameters()).device
        self.model = model
        self.cache = FixedCache(config, batch, length, device)
        self.position = torch.full((batch, 1), length, device=device)

    def forward(self, tokens):
        return self.model(input_ids=tokens, position_ids=self.position,
                          cache_position=self.cache.position, past_key_values=self.cache,
                          use_cache=True).logits


def made(name, kind, config):
    """The model of a configuration, with weights that all its batches share."""
    if name not in weights:
        config._attn_implementation = "sdpa"
        before = torch.get_default_dtype()
        torch.set_default_dtype(TYPE)
        try:
            with torch.device("cuda"):
                torch.manual_seed(0)
                weights[name] = kind(config).eval().requires_grad_(False)
        finally:
            torch.set_default_dtype(before)
    return weights[name]


def step(name, kind, config, batch, length):
    model = made(name, kind, config)
    tokens = torch.arange(1, batch + 1).reshape(batch, 1)
    return Decode(model, config, batch, length), tokens


def llama_config():
    return transformers.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, max_position_embeddings=131072,
        rope_theta=500000.0)


def llama_8b(batch):
    return step("llama", transformers.LlamaForCausalLM, llama_config(), batch, 1000)


def llama_8b_16k(batch):
    return step("llama", transformers.LlamaForCausalLM, llama_config(), batch, 16384)


def gemma_1b(batch):
    config = transformers.Gemma3TextConfig(
        hidden_size=1152, intermediate_size=6912, num_hidden_layers=26, num_attention_heads=4,
        num_key_value_heads=1, head_dim=256, vocab_size=262144, max_position_embeddings=32768)
    return step("gemma", transformers.Gemma3ForCausalLM, config, batch, 1000)


def qwen_7b(batch):
    config = transformers.Qwen2Config(
        hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
        num_key_value_heads=4, vocab_size=152064, max_position_embeddings=32768,
        rope_theta=1000000.0)
    return step("qwen", transformers.Qwen2ForCausalLM, config, batch, 1000)


def mistral_7b(batch):
    config = transformers.MistralConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=32768, max_position_embeddings=32768,
        rope_theta=1000000.0, sliding_window=None)
    return step("mistral", transformers.MistralForCausalLM, config, batch, 1000)


def phi_3_mini(batch):
    config = transformers.Phi3Config(
        hidden_size=3072, intermediate_size=8192, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=32, vocab_size=32064, max_position_embeddings=4096)
    return step("phi", transformers.Phi3ForCausalLM, config, batch, 1000)
