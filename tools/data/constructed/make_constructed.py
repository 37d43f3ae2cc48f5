#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the profiles in this folder. Nothing in them was measured: grids, blocks and registers are
those that such kernels usually have, and times follow from the work and a plausible rate of an H200.
They are for asking what the simulator predicts, not for stating what a GPU does. Kernels that compute take
as much longer on fewer SMs as they have more waves of blocks.

  attention_bf16       scaled dot products, batch 16, 16 heads, 2048 tokens of 128, bfloat16: a kernel
                       of 4096 blocks, two an SM, 1.2 ms
  products_bf16        4096 rows times 8192 x 8192, bfloat16: a kernel of 1024 blocks, one an SM, 0.8 ms
  products_persistent  the same by 132 blocks that stay until the product is done, as libraries have
                       it: on fewer than 132 SMs some blocks come in a second wave
  vit_b16_fp32_b32     ViT-B/16, 32 images, fp32: twelve layers of products of 0.15 to 0.6 ms
  r3d_18_b8            R3D-18, 8 clips: convolutions of 0.1 to 0.5 ms
  resnext50_b1         a real-time model: the kernels of profiles/resnet50_b1.json, their times scaled
                       so that all of them take 0.83 ms

  make_constructed.py [--check]   writes the files, or says whether they are as they would be written
"""
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SMS = 132


def kernel(name, blocks, threads, us, registers=128, shared=0, resident=None, waves=False):
    """One that waits for the one before. `waves`: its time on fewer SMs is given, in whole waves."""
    by_threads = 2048 // threads
    by_registers = 65536 // (registers * threads)
    by_shared = 233472 // (shared + 1024)
    held = min(32, by_threads, by_registers, by_shared)
    if resident is not None:
        assert held == resident, (name, held)
    op = {"kind": "kernel", "symbol": name, "name": name, "grid": [blocks, 1, 1], "block": [threads, 1, 1],
          "registers_per_thread": registers, "static_shared_bytes": 0, "dynamic_shared_bytes": shared,
          "local_bytes": 0, "cluster_blocks": 1, "max_blocks_per_sm": held, "duration_us": us}
    if waves:
        def count(sms):
            return math.ceil(blocks / (held * sms))
        op["duration_us_by_sms"] = {str(n): round(us * count(n) / count(SMS), 3) for n in (84, 100, 116, 124)}
    return op


def product(name, rows, columns, depth, rate):
    """fp32 by blocks of 128 x 128; `rate`: operations a microsecond."""
    blocks = math.ceil(rows / 128) * math.ceil(columns / 128)
    return kernel(name, blocks, 256, round(2 * rows * columns * depth / rate, 1), 128, 33792, waves=True)


def elementwise(name, elements, reads_and_writes):
    bytes_moved = 4 * elements * reads_and_writes
    return kernel(name, math.ceil(elements / 1024), 256, round(max(3.0, bytes_moved / 3.2e6), 1), 32)


def vit():
    tokens, width, rate = 32 * 197, 768, 5e7
    ops = [product("patches", 32 * 196, width, 768, rate)]
    for _ in range(12):
        ops += [elementwise("layer_norm", tokens * width, 2),
                product("query_key_value", tokens, 3 * width, width, rate),
                kernel("attention", 32 * 12 * 4, 128, 160.0, 168, 49152, waves=True),
                product("projection", tokens, width, width, rate),
                elementwise("add", tokens * width, 3),
                elementwise("layer_norm", tokens * width, 2),
                product("up", tokens, 4 * width, width, rate),
                elementwise("gelu", tokens * 4 * width, 2),
                product("down", tokens, width, 4 * width, rate),
                elementwise("add", tokens * width, 3)]
    return ops + [elementwise("layer_norm", tokens * width, 2), product("head", 32, 1000, width, rate / 8)]


def r3d():
    ops = []
    # Positions (frames, height, width) and channels of the four stages, 8 clips each.
    for stage, (positions, channels, us) in enumerate(
            [(16 * 56 * 56, 64, 420.0), (8 * 28 * 28, 128, 240.0), (4 * 14 * 14, 256, 160.0), (2 * 7 * 7, 512, 110.0)]):
        if stage == 0:
            ops += [kernel("stem", 8 * positions // 128, 256, 480.0, 128, 65536, waves=True), elementwise("norm", 8 * positions * 64, 2)]
        blocks = max(64, 8 * positions * channels // (128 * 64))
        for _ in range(2):
            for _ in range(2):
                ops += [kernel("convolution", blocks, 256, us, 128, 65536, waves=True), elementwise("norm", 8 * positions * channels, 2)]
            ops.append(elementwise("add", 8 * positions * channels, 3))
    return ops + [elementwise("pool", 8 * 512 * 98, 1), product("head", 8, 400, 512, 1e6)]


def resnext():
    source = json.loads((HERE.parent / "profiles" / "resnet50_b1.json").read_text())
    ops = source["operations"]
    gaps = 0.34 * (len(ops) - 1)
    scale = (828 - gaps) / 0.986 / sum(op["duration_us"] for op in ops)
    for op in ops:
        op.pop("counters", None)  # of other kernels
        for word in ("symbol", "name"):
            if word in op:
                op[word] = "network"
        op["duration_us"] = round(op["duration_us"] * scale, 3)
        for n, us in op.get("duration_us_by_sms", {}).items():
            op["duration_us_by_sms"][n] = round(us * scale, 3)
    return ops


def models():
    attention = kernel("attention", 4096, 128, 1200.0, 240, 98304, 2, True)
    tiled = kernel("product", 1024, 384, 800.0, 168, 204800, 1, True)
    persistent = kernel("product", 132, 384, 800.0, 168, 204800, 1, True)
    return {"attention_bf16": ("bfloat16", 16, [attention] * 8), "products_bf16": ("bfloat16", 1, [tiled] * 8),
            "products_persistent": ("bfloat16", 1, [persistent] * 8), "vit_b16_fp32_b32": ("float32", 32, vit()),
            "r3d_18_b8": ("float32", 8, r3d()), "resnext50_b1": ("float32", 1, resnext())}


def text(name, dtype, batch, ops):
    lines = [json.dumps({**op, "after": op.get("after", [i - 1] if i else [])}) for i, op in enumerate(ops)]
    head = {"model": f"{name} (constructed)", "batch": batch, "dtype": dtype, "device": "constructed, not measured",
            "sm_count": SMS, "input_bytes": 0, "output_bytes": 0, "durations_measured": False}
    return json.dumps(head)[:-1] + ', "operations": [\n' + ",\n".join(lines) + "\n]}\n"


def main():
    stale = []
    for name, (dtype, batch, ops) in models().items():
        path, new = HERE / f"{name}.json", text(name, dtype, batch, ops)
        if sys.argv[1:] == ["--check"]:
            stale += [path.name] if not path.exists() or path.read_text() != new else []
        else:
            path.write_text(new)
    if stale:
        sys.exit(f"make_constructed: {', '.join(stale)} not as written, expected make_constructed.py to be run")


if __name__ == "__main__":
    main()
