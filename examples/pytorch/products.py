# SPDX-License-Identifier: Apache-2.0
"""Matrix products of single modules, for gsched.measure: which kernel runs depends on the size.

    python -m gsched.measure probes --models examples/pytorch/products.py:product_1024,product_2048 \\
        --batches 1 --probes shared --out mine

Each function takes a batch, of which there is one, and returns (module, example_input): torch.mm of two
square matrices in fp32.
"""

import torch
from torch import nn


class Product(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.by = nn.Parameter(torch.randn(size, size), requires_grad=False)

    def forward(self, x):
        return torch.mm(x, self.by)


def product_1024(_):
    return Product(1024), torch.randn(1024, 1024)


def product_2048(_):
    return Product(2048), torch.randn(2048, 2048)


def product_4096(_):
    return Product(4096), torch.randn(4096, 4096)
