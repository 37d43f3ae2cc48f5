# SPDX-License-Identifier: Apache-2.0
"""Networks of transformers other than decode steps, with random weights in fp16: for gsched.measure.

    python -m gsched.measure all --models examples/pytorch/transformer_models.py:wav2vec2_b1,roberta_large_b8 ...

Each function takes a batch and returns (module, example_input), on the host.

  distilbert      DistilBERT base, 128 tokens
  roberta_large   RoBERTa large, 256 tokens
  t5_encoder      encoder of T5 base, 256 tokens
  pythia_410m     GPT-NeoX as in Pythia 410M: all logits of 256 tokens
  whisper_small   encoder of Whisper small, 30 s of sound
  wav2vec2        wav2vec 2.0 base, 4 s of sound
  clip_vision     image encoder of CLIP ViT-B/16, 224 x 224 pixels
  segformer       SegFormer-B2 without its head, 512 x 512 pixels
  dinov2          DINOv2 ViT-S/14, 224 x 224 pixels
  opt_125m        OPT 125M: all logits of 256 tokens
  hubert          HuBERT base, 4 s of sound
  albert          ALBERT base, 256 tokens
  electra         ELECTRA small, 256 tokens
  convnext_v2     ConvNeXt V2 tiny, 224 x 224 pixels
  mobilevit       MobileViT small without its head, 256 x 256 pixels
"""

import torch
from torch import nn

import transformers

TYPE = torch.float16


class First(nn.Module):
    """The first output of a network, without the names that transformers gives to outputs."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x, return_dict=False)[0]


def made(kind, config, example, attention="sdpa"):
    config._attn_implementation = attention
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = kind(config)
    return First(network).to(TYPE).eval().requires_grad_(False), example


def tokens(batch, length, kinds):
    return torch.randint(3, kinds, (batch, length), generator=torch.Generator().manual_seed(0))


def signal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(TYPE)


def distilbert(batch):
    return made(transformers.DistilBertModel, transformers.DistilBertConfig(), tokens(batch, 128, 30522))


def roberta_large(batch):
    config = transformers.RobertaConfig(
        vocab_size=50265, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=4096, max_position_embeddings=514, type_vocab_size=1)
    return made(transformers.RobertaModel, config, tokens(batch, 256, 50265))


def t5_encoder(batch):
    config = transformers.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12, use_cache=False)
    return made(transformers.T5EncoderModel, config, tokens(batch, 256, 32128))


def pythia_410m(batch):
    config = transformers.GPTNeoXConfig(
        vocab_size=50304, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=4096, use_cache=False)
    return made(transformers.GPTNeoXForCausalLM, config, tokens(batch, 256, 50304))


def whisper_small(batch):
    config = transformers.WhisperConfig(
        d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072,
        decoder_layers=1, decoder_attention_heads=12, decoder_ffn_dim=3072)
    return made(lambda c: transformers.WhisperModel(c).encoder, config, signal(batch, 80, 3000))


def wav2vec2(batch):
    return made(transformers.Wav2Vec2Model, transformers.Wav2Vec2Config(), signal(batch, 64000))


def clip_vision(batch):
    config = transformers.CLIPVisionConfig(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
        patch_size=16)
    return made(transformers.CLIPVisionModel, config, signal(batch, 3, 224, 224))


def segformer(batch):
    config = transformers.SegformerConfig(depths=[3, 4, 6, 3], hidden_sizes=[64, 128, 320, 512])
    return made(transformers.SegformerModel, config, signal(batch, 3, 512, 512))


def dinov2(batch):
    config = transformers.Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=224, patch_size=14)
    return made(transformers.Dinov2Model, config, signal(batch, 3, 224, 224))


def opt_125m(batch):
    config = transformers.OPTConfig(
        vocab_size=50272, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, ffn_dim=3072,
        use_cache=False)
    return made(transformers.OPTForCausalLM, config, tokens(batch, 256, 50272))


def hubert(batch):
    return made(transformers.HubertModel, transformers.HubertConfig(), signal(batch, 64000))


def albert(batch):
    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    return made(transformers.AlbertModel, config, tokens(batch, 256, 30000))


def electra(batch):
    return made(transformers.ElectraModel, transformers.ElectraConfig(), tokens(batch, 256, 30522))


def convnext_v2(batch):
    return made(transformers.ConvNextV2Model, transformers.ConvNextV2Config(), signal(batch, 3, 224, 224), "eager")


def mobilevit(batch):
    return made(transformers.MobileViTModel, transformers.MobileViTConfig(), signal(batch, 3, 256, 256), "eager")
