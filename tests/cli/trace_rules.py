# SPDX-License-Identifier: Apache-2.0
"""Checks that a file is a trace as ui.perfetto.dev opens it: trace_rules.py FILE REQUESTS RUN...

REQUESTS: what each run has. Every request has a client and one end; slices of a track do not overlap.
"""
import collections
import json
import os
import sys

ENDS = {"finished", "missed", "cancelled", "rejected", "failed"}


def main():
    path, requests, runs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    assert os.path.getsize(path) <= 10_000_000, os.path.getsize(path)
    with open(path, encoding="utf-8") as f:
        document = json.load(f)
    processes, tracks, slices, spans = {}, {}, collections.defaultdict(list), {}
    ends, counters = collections.Counter(), collections.Counter()
    for e in document["traceEvents"]:
        assert isinstance(e["name"], str) and isinstance(e["pid"], int), e
        if e["ph"] == "M":
            if e["name"] == "process_name":
                processes[e["pid"]] = e["args"]["name"]
            elif e["name"] == "thread_name":
                tracks[e["pid"], e["tid"]] = e["args"]["name"]
            continue
        assert e["ts"] >= 0 and (e["pid"], e["tid"]) in tracks, e
        if e["ph"] == "X":
            slices[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
        elif e["ph"] == "b":
            key = e["cat"], e["id"], e["name"]
            assert key not in spans, e
            spans[key] = e
        elif e["ph"] == "e":
            begin = spans.pop((e["cat"], e["id"], e["name"]))
            assert begin["ts"] <= e["ts"], (begin, e)
            if "requests" in e["cat"]:
                assert begin["args"]["client"] >= 0 and e["args"]["end"] in ENDS, (begin, e)
                assert begin["args"].get("deadline_us", 1) > 0, begin
                ends[processes[e["pid"]]] += 1
        elif e["ph"] == "C":
            assert isinstance(e["args"]["value"], (int, float)), e
            counters[processes[e["pid"]]] += 1
        else:
            assert e["ph"] == "i", e
    assert not spans, spans
    assert list(processes.values()) == runs, processes
    for name in runs:
        assert ends[name] == requests or not requests and ends[name] > 0, (name, ends[name])
        assert counters[name] <= 512, (name, counters[name])
        mine = [t for (pid, _), t in tracks.items() if processes[pid] == name]
        assert len(mine) == len(set(mine)) <= 48, mine
    for track, of in slices.items():
        of.sort()
        for (_, end), (begin, _) in zip(of, of[1:]):
            assert end <= begin + 0.0015, (tracks[track], end, begin)


if __name__ == "__main__":
    main()
