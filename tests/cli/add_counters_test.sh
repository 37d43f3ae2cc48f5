#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/data/measured/add_counters.py: a profile without waits gets those counted of the same kernels, byte for byte as
# if it had been counted with them, and so with persistent kernels; nothing is written where any profile is of other
# kernels or has them.
program=add_counters
# shellcheck source=tests/cli/expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
bin=$data/measured/add_counters.py

counted=$data/measured/h100_blind/profiles
edit() { # edit FROM TO EXPRESSION: a profile changed line by line, `line` by an expression of Python
  python3 -c 'import re, sys
for line in open(sys.argv[1]): sys.stdout.write(eval(sys.argv[2]))' "$1" "$3" >"$2"
}
without_waits() { # without_waits GRAPH: as it was before they were counted
  edit "new/$1.json" "old/$1.json" 're.sub(r",\"waits\":\{[^}]*\}", "", line)'
}
mkdir new old other
cp "$counted"/vgg19_b1.json "$counted"/resnet34_b8.json new
without_waits vgg19_b1
without_waits resnet34_b8
expect 'the profiles to have no waits at first' bash -c '! grep -q waits old/*.json'

serves waits new old
expect 'it to say how many' grep -qx '2 profiles' out
for graph in vgg19_b1 resnet34_b8; do
  expect "$graph as it was counted" cmp "$counted/$graph.json" "old/$graph.json"
done
refuses 'has waits or no counters' waits new old

without_waits vgg19_b1 # while resnet34 has them
cp old/vgg19_b1.json before
refuses 'resnet34_b8.json: operation' waits new old
expect 'nothing to be written where one profile is refused' cmp before old/vgg19_b1.json
rm old/resnet34_b8.json
edit new/vgg19_b1.json other/vgg19_b1.json 'line.replace("\"grid\":[", "\"grid\":[1", 1)'
refuses 'other kernels than those counted' waits other old
edit new/vgg19_b1.json other/vgg19_b1.json 'line.replace("NVIDIA H100", "NVIDIA H1", 1)'
refuses 'device is NVIDIA H1 80GB HBM3 where counted' waits other old
rm other/vgg19_b1.json
refuses 'no profile of a graph' waits other old
serves waits new old
expect 'a profile that was refused before to be taken' cmp "$counted/vgg19_b1.json" old/vgg19_b1.json

graph=regnet_x_1_6gf_b32
counted=$data/measured/gallery/profiles
rm -f new/* old/*
cp "$counted/$graph.json" new
edit "new/$graph.json" "old/$graph.json" 're.sub(r",\"common_work\":[0-9.]*", "", line)'
expect 'the profile to have no persistent kernels at first' bash -c '! grep -q common_work old/*.json'
serves common_work new old
expect "$graph as it was counted" cmp "$counted/$graph.json" "old/$graph.json"
refuses 'has common_work or no counters' common_work new old
refuses 'field used, expected waits or common_work' used new old

serves --help
expect 'help that shows both folders' grep -q 'new/profiles tools/data/measured' out
finish
