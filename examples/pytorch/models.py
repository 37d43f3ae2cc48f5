# SPDX-License-Identifier: Apache-2.0
"""Models with random weights that can be captured, in fp32 unless their names contain bf16.

The first eight are those of table 2 of the Paella paper (SOSP 2023, doi:10.1145/3600006.3613163),
from torchvision; DenseNet is DenseNet-121. All of them classify images and have no
data-dependent control flow, so each is captured whole. BERT (base) and GPT-2 (small) come from
transformers' configurations and read 128 tokens; GPT-2 returns the last token's logits.

Differs   the attention masks of BERT (all tokens see one another) and GPT-2 (causal) are tensors
          made once. transformers computes them in every forward pass, and differently during a
          capture; this way eager and captured runs launch the same kernels.

Of the others, vit_base is ViT-B/16 in plain torch; attention and products are eight attentions of 16
heads with 2,048 tokens of 128 elements, and eight products of N rows with matrices of 8,192 squared;
one_kernel adds one to 16 numbers, so that its latency beside other work is when its kernel starts;
llama_decode is a step of llm.py's model with a cache of its own. resnet50_train is not a module but a
training step, which training() makes.

A name may end in _bN, for batches of N: "resnet50_b8"; without it the batch is 1.
"""

import re

TABLE_2 = ("resnet18", "mobilenet_v2", "resnet34", "squeezenet1_1", "resnet50", "densenet121",
           "googlenet", "inception_v3")
NAMES = TABLE_2 + ("bert_base", "gpt2")
BIGGER = ("resnet152", "vgg16", "vgg19")
PARTITIONED = ("lenet", "ssdlite_mobilenet")  # and these that the table of partitions has
OTHERS = ("resnext50", "swin_t", "convnext_tiny", "r3d_18", "vit_base", "vit_base_bf16", "attention",
          "products", "llama_decode", "one_kernel")
TRAINED = ("resnet50_train",)
TWENTY = NAMES + BIGGER + OTHERS[:6] + ("llama_decode",)  # whole networks of many kernels
KNOWN = NAMES + BIGGER + PARTITIONED + OTHERS + TRAINED
TOKENS = 128
POSITION, CACHED = 511, 1024  # of llama_decode: where it is, and what its cache holds


def parts(name):
    """(model, batch) of a name; a ValueError in one line."""
    found = re.fullmatch(r"(.+?)(?:_b([1-9][0-9]{0,3}))?", name)
    if not found or found.group(1) not in KNOWN:
        raise ValueError(f'model "{name}", expected one of {", ".join(KNOWN)}, with or without a '
                         "batch, as in resnet50_b8")
    return found.group(1), int(found.group(2) or 1)


def known(name):
    """The name as it is used here, without _b1; a ValueError in one line."""
    model, batch = parts(name)
    return model if batch == 1 else f"{model}_b{batch}"


def pair(text):
    """(real-time, best-effort) of text like resnet18+resnet50_b8; a ValueError in one line."""
    names = tuple(known(name) for name in text.split("+"))
    if len(names) != 2:
        raise ValueError("--pairs: expected pairs like resnet18+resnet50_b8")
    return names


def keeps_state(name):
    """Whether it writes tensors of its own, so that it can have one instance only."""
    return parts(name)[0] in ("llama_decode",) + TRAINED


def make(name, seed=0):
    """(module, example_input), on the host but for llama_decode; the same weights for the same
    seed."""
    import torch

    model, _ = parts(name)
    makers = {"bert_base": _transformer, "gpt2": _transformer, "vit_base": _vit,
              "vit_base_bf16": _vit, "attention": _plain, "products": _plain, "one_kernel": _plain,
              "llama_decode": lambda _: _llama(seed)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = makers.get(model, _vision)(model)
    if model in ("vit_base_bf16", "attention", "products"):
        module = module.to(torch.bfloat16)
    return module.eval().requires_grad_(False), draw(name, torch.Generator().manual_seed(seed))


def training(name, seed=0, gpu=0):
    """(step, example, written): a training step on the GPU that changes its weights in place, its
    arguments, and all tensors that it writes. Needs gsched.capture(..., training=True)."""
    import torch
    import torchvision

    _, batch = parts(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = torchvision.models.resnet50(weights=None).to(torch.device("cuda", gpu)).train()
    torch.backends.cudnn.deterministic = True # or two runs of one graph would differ
    random = torch.Generator().manual_seed(seed)
    example = (torch.randn((batch, 3, 224, 224), generator=random),
               torch.randint(0, 1000, (batch,), generator=random))
    step, written = descent(net)
    return step, example, written


def descent(net):
    """(step, written): a step of gradient descent with momentum that trains a classifier, and all
    tensors that it writes, except gradients, which each step makes anew."""
    import torch
    import torch.nn.functional as F

    weights = list(net.parameters())
    optimizer = torch.optim.SGD(weights, lr=1e-3, momentum=0.9)
    for weight in weights: # as the first step would make it, so that it is known before
        optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)

    def step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    momenta = [optimizer.state[weight]["momentum_buffer"] for weight in weights]
    return step, weights + momenta + list(net.buffers())


def draw(name, generator):
    """A random input of the model on the host."""
    import torch

    model, batch = parts(name)
    if model in ("bert_base", "gpt2"):
        words = 30522 if model == "bert_base" else 50257
        return torch.randint(0, words, (batch, TOKENS), generator=generator)
    if model == "llama_decode":
        import llm

        return llm.decode_inputs(POSITION, generator)
    shape = {"attention": (batch, 16, 2048, 128), "products": (batch, 8192),
             "r3d_18": (batch, 3, 16, 112, 112), "vit_base_bf16": (batch, 3, 224, 224),
             "one_kernel": (batch, 16)}.get(model)
    if shape is not None:
        values = torch.randn(shape, generator=generator)
        return values if model in ("r3d_18", "one_kernel") else values.to(torch.bfloat16)
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
    if name == "r3d_18":
        return torchvision.models.video.r3d_18(weights=None)
    made = getattr(torchvision.models, {"resnext50": "resnext50_32x4d"}.get(name, name))
    return made(weights=None, **more.get(name, {}))


def _lenet():
    """LeNet-5 with ReLU and maxima, for images of 28 x 28."""
    from torch import nn

    def convolution(before, after, padding):
        return nn.Conv2d(before, after, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)

    return nn.Sequential(*convolution(1, 6, 2), *convolution(6, 16, 0), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def _detector(whole):
    """The part of a detector before non-maximum suppression, which depends on the data: boxes and their
    classes for each image."""
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


def _vit(_):
    """ViT-B/16 for images of 224 x 224, with torch's own choice of attention."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    width, heads, patches = 768, 12, 196

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                     nn.Linear(4 * width, width))

        def forward(self, x):
            count, tokens, _ = x.shape
            q, k, v = self.qkv(self.norm(x)).view(count, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = x + self.out(y)
            return x + self.mlp(self.norm_mlp(x))

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, stride=16)
            self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            self.places = nn.Parameter(torch.randn(1, patches + 1, width) * 0.02)
            self.blocks = nn.Sequential(*(Block() for _ in range(12)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, images):
            x = self.patches(images).flatten(2).transpose(1, 2)
            x = torch.cat((self.first.expand(len(images), -1, -1), x), dim=1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return Vit()


def _plain(name):
    """Eight attentions or eight products, one after the other; or one sum."""
    import torch
    import torch.nn.functional as F

    class Attention(torch.nn.Module):
        def forward(self, x):
            for _ in range(8):
                x = F.scaled_dot_product_attention(x, x, x)
            return x

    class Products(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix = torch.nn.Linear(8192, 8192, bias=False)

        def forward(self, x):
            for _ in range(8):
                x = self.matrix(x)
            return x

    class OneKernel(torch.nn.Module):
        def forward(self, x):
            return x + 1

    return {"attention": Attention, "products": Products, "one_kernel": OneKernel}[name]()


def _llama(seed):
    import llm

    model = llm.Llama(seed)
    return llm.Decode(model, llm.Cache(model, CACHED, seed))
