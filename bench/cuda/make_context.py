#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a context on a GPU and ends: graphs of other processes run at one speed after it
(docs/research/cliff.md).  make_context.py [GPU]"""
import ctypes
import sys

try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit("make_context: no libcuda.so.1, expected NVIDIA's driver")
device, context = ctypes.c_int(), ctypes.c_void_p()
for call, code in (("cuInit", cuda.cuInit(0)),
                   ("cuDeviceGet", cuda.cuDeviceGet(ctypes.byref(device), int((sys.argv + ["0"])[1]))),
                   ("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)),
                   ("cuDevicePrimaryCtxRelease", cuda.cuDevicePrimaryCtxRelease_v2(device))):
    if code != 0:
        sys.exit(f"make_context: {call} gave {code}, expected 0")
