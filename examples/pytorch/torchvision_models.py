# SPDX-License-Identifier: Apache-2.0
"""Models of torchvision with random weights in fp32, by their names there: for gsched.measure.

    python -m gsched.measure all --models examples/pytorch/torchvision_models.py:swin_s_b8,mc3_18_b1 ...

Images are of 224 x 224 pixels, those of EfficientNet-B1 to B7 of the size that each was made for, those
of networks for segmentation of 520 x 520. Videos are 16 frames of 112 x 112, of MViT and S3D of 224 x 224.
"""

import re

SIDES = {"efficientnet_b1": 240, "efficientnet_b2": 288, "efficientnet_b3": 300, "efficientnet_b4": 380,
         "efficientnet_b5": 456, "efficientnet_b6": 528, "efficientnet_b7": 600, "inception_v3": 299,
         "mvit_v1_b": 224, "mvit_v2_s": 224, "s3d": 224}
SIDES_OF_KIND = {"video": 112, "segmentation": 520}


def make(name, seed=0):
    """(module, example_input) of NAME_bBATCH, on the host; the same weights for the same seed."""
    import torch
    import torchvision

    known = torchvision.models.list_models()
    found = re.fullmatch(r"(.+)_b([1-9][0-9]{0,3})", name) # "efficientnet_b3_b8" is of batch 8
    model, batch = (found[1], int(found[2])) if found and found[1] in known else (name, 1)
    if model not in known:
        raise ValueError(f'model "{name}", expected a name of torchvision.models.list_models() and a '
                         "batch, as in resnet50_b8")
    kind = torchvision.models.get_model_builder(model).__module__.split(".")[2] # of torchvision.models.KIND
    backbone = {"weights_backbone": None} if kind == "segmentation" else {} # or its weights are downloaded
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = torchvision.models.get_model(model, weights=None, **backbone)
    side = SIDES.get(model, SIDES_OF_KIND.get(kind, 224))
    shape = (batch, 3, 16, side, side) if kind == "video" else (batch, 3, side, side)
    return module.eval().requires_grad_(False), torch.randn(
        shape, generator=torch.Generator().manual_seed(seed))
