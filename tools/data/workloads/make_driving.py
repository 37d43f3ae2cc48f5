#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes driving.csv, the real-time requests of an imagined car's perception. Nothing in it was
measured or taken from a real system: it imitates how such requests are spread.

  camera    30 frames a second, each a few ms late and not quite evenly; one in a hundred is lost.
            A frame asks for obstacle detection, and 2 to 4 ms later for lane detection.
  lidar     10 sweeps a second. A sweep asks for segmentation; 5 to 9 ms later the objects that it
            found are tracked by one to three requests for prediction, close together.
  lights    near a crossing, some 40% of the time in stretches of seconds, every third frame also
            asks for traffic light detection, as one to three crops that come together.

  make_driving.py [--seconds 10] [--seed 1] > driving.csv
"""
import argparse
import random


def requests(seconds, r):
    yield from camera(seconds, r)
    for sweep in range(int(seconds * 10)):
        at = sweep / 10 + 0.013 + r.gauss(0, 0.0008)
        yield at, "lidar"
        at += r.uniform(0.005, 0.009)
        for _ in range(r.randint(1, 3)):
            yield at, "prediction"
            at += r.uniform(0.0001, 0.0006)


def camera(seconds, r):
    crossing, until = False, r.expovariate(1 / 2)
    for frame in range(int(seconds * 30)):
        at = frame / 30 + 0.004 + abs(r.gauss(0, 0.002))
        while at > until:
            crossing = not crossing
            until += r.expovariate(1 / (2 if crossing else 3))
        if r.random() < 0.01:
            continue
        yield at, "obstacles"
        yield at + r.uniform(0.002, 0.004), "lanes"
        if crossing and frame % 3 == 0:
            for _ in range(r.randint(1, 3)):
                yield at + 0.001 + r.uniform(0, 0.0003), "lights"


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--seconds", type=float, default=10)
    a.add_argument("--seed", type=int, default=1)
    a = a.parse_args()
    print("time_us,model")
    for at, client in sorted(requests(a.seconds, random.Random(a.seed))):
        print(f"{at * 1e6:.0f},{client}")


main()
