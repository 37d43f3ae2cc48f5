#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes profiles of models on this GPU: every operation of the captured graph, with the resources that
it needs on an SM and its time alone. serve_mix and the simulator read them.
"""

import argparse
import os
import sys

import checkout # the package of this checkout
import gsched
import models
import workload


def main():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default=",".join(models.NAMES), help="default: all ten")
    p.add_argument("--out", metavar="DIR", default="profiles",
                   help="MODEL_bBATCH.json goes there; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    a = p.parse_args()
    try:
        a.models = [models.known(m) for m in a.models.split(",")]
    except ValueError as e:
        p.error(str(e))
    try:
        gsched.load_library()
        os.makedirs(a.out, exist_ok=True)
        for name in a.models:
            module, example = models.make(name, a.seed)
            model, batch = models.parts(name)
            captured = gsched.capture(module, example, instances=1, name=model, gpu=a.gpu)
            path = os.path.join(a.out, f"{model}_b{batch}.json")
            captured.profile(path, batch=batch)
            print(path, flush=True)
            del captured, module, example
    except (gsched.GschedError, ImportError, OSError) as e:
        print(f"profile_models: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
