# SPDX-License-Identifier: Apache-2.0
"""Models with random weights, ready to be captured, in fp32: ten, and more that are bigger.

The first eight are those of table 2 of the Paella paper (SOSP 2023, doi:10.1145/3600006.3613163),
as torchvision has them; DenseNet is DenseNet-121. All of them classify images and have no
data-dependent control flow, so each is captured whole. BERT (base) and GPT-2 (small) come from
transformers' configurations and read 128 tokens; GPT-2 answers with the last token's logits.

Differs   the attention masks of BERT (all tokens see one another) and GPT-2 (causal) are tensors
          made once, where transformers would work them out in every forward pass, and differently
          while it is captured: so eager and captured runs launch the same kernels.

A name may end in _bN, for batches of N: "resnet50_b8"; without it the batch is 1.
"""

import re

TABLE_2 = ("resnet18", "mobilenet_v2", "resnet34", "squeezenet1_1", "resnet50", "densenet121",
           "googlenet", "inception_v3")
NAMES = TABLE_2 + ("bert_base", "gpt2")
BIGGER = ("resnet152", "vgg16", "vgg19")
PARTITIONED = ("lenet", "ssdlite_mobilenet")  # and these that the table of partitions has
TOKENS = 128


def parts(name):
    """(model, batch) of a name; a ValueError in one line."""
    found = re.fullmatch(r"(.+?)(?:_b([1-9][0-9]{0,3}))?", name)
    if not found or found.group(1) not in NAMES + BIGGER + PARTITIONED:
        raise ValueError(f'model "{name}", expected one of '
                         f'{", ".join(NAMES + BIGGER + PARTITIONED)}, with or without a batch, as '
                         "in resnet50_b8")
    return found.group(1), int(found.group(2) or 1)


def known(name):
    """The name as it is used here, without _b1; a ValueError in one line."""
    model, batch = parts(name)
    return model if batch == 1 else f"{model}_b{batch}"


def make(name, seed=0):
    """(module, example_input), on the host; the same weights for the same seed."""
    import torch

    model, _ = parts(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _transformer(model) if model in ("bert_base", "gpt2") else _vision(model)
    return module.eval().requires_grad_(False), draw(name, torch.Generator().manual_seed(seed))


def draw(name, generator):
    """A random input of the model on the host."""
    import torch

    model, batch = parts(name)
    if model in ("bert_base", "gpt2"):
        words = 30522 if model == "bert_base" else 50257
        return torch.randint(0, words, (batch, TOKENS), generator=generator)
    side = {"inception_v3": 299, "ssdlite_mobilenet": 320, "lenet": 28}.get(model, 224)
    return torch.randn((batch, 1 if model == "lenet" else 3, side, side), generator=generator)


def _vision(name):
    if name == "lenet":
        return _lenet()
    import torchvision

    if name == "ssdlite_mobilenet":
        return _detector(torchvision.models.detection.ssdlite320_mobilenet_v3_large(
            weights=None, weights_backbone=None))
    # The heads that help training are left out, and the slow way to draw initial weights.
    more = {"googlenet": {"aux_logits": False, "init_weights": False},
            "inception_v3": {"aux_logits": False, "init_weights": False}}
    return getattr(torchvision.models, name)(weights=None, **more.get(name, {}))


def _lenet():
    """LeNet-5 with ReLU and maxima, for images of 28 x 28."""
    from torch import nn

    def convolution(before, after, padding):
        return nn.Conv2d(before, after, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)

    return nn.Sequential(*convolution(1, 6, 2), *convolution(6, 16, 0), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def _detector(whole):
    """What a detector computes for each image: boxes and their classes, before those that overlap
    are sorted out, which depends on the data."""
    import torch

    class Boxes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = whole.backbone, whole.head

        def forward(self, images):
            found = self.head(list(self.backbone(images).values()))
            return found["bbox_regression"], found["cls_logits"]

    return Boxes()


def _transformer(name):
    import torch

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            from transformers import BertConfig, BertModel

            self.bert = BertModel(BertConfig())
            self.register_buffer("mask", torch.zeros((1, 1, TOKENS, TOKENS)), persistent=False)

        def forward(self, tokens):
            out = self.bert(input_ids=tokens, attention_mask=self.mask)
            return out.last_hidden_state, out.pooler_output

    class Gpt2(torch.nn.Module):
        def __init__(self):
            super().__init__()
            from transformers import GPT2Config, GPT2Model

            config = GPT2Config(use_cache=False)
            self.gpt2 = GPT2Model(config)
            self.head = torch.nn.Linear(config.n_embd, config.vocab_size, bias=False)
            self.head.weight = self.gpt2.wte.weight
            seen = torch.full((TOKENS, TOKENS), torch.finfo(torch.float32).min).triu(1)
            self.register_buffer("mask", seen[None, None].contiguous(), persistent=False)

        def forward(self, tokens):
            out = self.gpt2(input_ids=tokens, attention_mask=self.mask, use_cache=False)
            return self.head(out.last_hidden_state[:, -1])

    return Bert() if name == "bert_base" else Gpt2()
