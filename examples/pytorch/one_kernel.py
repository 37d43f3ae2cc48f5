# SPDX-License-Identifier: Apache-2.0
"""Graphs of one kind of kernel, over and over: which kinds slow which, by gsched.measure.

    python -m gsched.measure pairs --models examples/pytorch/one_kernel.py:gemm_h_b1,gelu_h_b1,stream_b1 ...

Each function takes a batch, which multiplies the sizes below, and returns (module, example_input), on
the host. Products in fp32 are by TF32 in the whole process.

  gemm_h        products of 1576 x 768 by 768 x 768 in fp16, as in a vision transformer
  gemm_h_small  products of 256 x 1024 by 1024 x 1024 in fp16
  gemm_tf       the products of gemm_h in fp32, by TF32
  conv_tf       convolutions of 8 images of 56 x 56 with 64 channels, by TF32
  gelu_h        an activation of 9.7 MB in fp16, of three kernels
  add_f         an addition to 4 MB of fp32, which stay in L2
  ln_h          layer normalisation of 1576 x 768 in fp16
  stream        an addition to 32 MB of fp32, read from DRAM and written to it
"""

import torch
from torch import nn
from torch.nn import functional

torch.backends.cuda.matmul.allow_tf32 = True


class Repeated(nn.Module):
    """A function of the module and its last output, so many times."""

    def __init__(self, function, times, weight=None):
        super().__init__()
        self.function = function
        self.times = times
        self.register_buffer("weight", weight)

    def forward(self, x):
        for _ in range(self.times):
            x = self.function(self, x)
        return x


def draw(*shape, dtype=torch.float32):
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.03).to(dtype)


def product(m, x):
    return x @ m.weight


def gemm_h(batch):
    return (Repeated(product, 60, draw(768, 768, dtype=torch.float16)),
            draw(1576 * batch, 768, dtype=torch.float16))


def gemm_h_small(batch):
    return (Repeated(product, 100, draw(1024, 1024, dtype=torch.float16)),
            draw(256 * batch, 1024, dtype=torch.float16))


def gemm_tf(batch):
    return Repeated(product, 40, draw(768, 768)), draw(1576 * batch, 768)


def conv_tf(batch):
    return (Repeated(lambda m, x: functional.conv2d(x, m.weight, padding=1), 20, draw(64, 64, 3, 3)),
            draw(8 * batch, 64, 56, 56))


def gelu_h(batch):
    return (Repeated(lambda m, x: x * torch.sigmoid(1.702 * x), 30),
            draw(1576 * batch, 3072, dtype=torch.float16))


def add_f(batch):
    return Repeated(lambda m, x: x + 1, 100), draw(1024 * batch, 1024)


def ln_h(batch):
    return (Repeated(lambda m, x: functional.layer_norm(x, (768,)), 100),
            draw(1576 * batch, 768, dtype=torch.float16))


def stream(batch):
    return Repeated(lambda m, x: x + 1, 10), draw(8 * batch, 1024, 1024)
