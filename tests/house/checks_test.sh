#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of layers and sources find what they are there to find.
set -euo pipefail
cmake=$1 scripts=$2
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

fresh() { # a tree that keeps every rule
  rm -rf "$tree"
  mkdir -p "$tree"/{include/gsched/{core,job,notify,policy,dispatch,sim,cuda},examples/demo}
  for f in core/a job/a notify/a policy/a dispatch/a sim/a cuda/a; do
    header "$f" '<cstdint>'
  done
  header policy/a '<gsched/policy/b.hpp>' '<gsched/job/a.hpp>' '<gsched/core/a.hpp>'
  header sim/a '<gsched/dispatch/a.hpp>'
  header gsched '<gsched/sim/a.hpp>'
  header cuda/a '<cuda_runtime.h>' '<gsched/policy/a.hpp>'
  echo '// SPDX-License-Identifier: Apache-2.0' | tee "$tree"/examples/{demo,demo/part}.cpp >/dev/null
}

header() { # header PATH INCLUDED...
  { printf '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n'
    printf '#include %s\n' "${@:2}"; } >"$tree/include/gsched/$1.hpp"
}


expect() { # expect CHECK TEXT: the check fails and says TEXT; without TEXT it passes
  local out rc=0
  out=$("$cmake" -DINCLUDE="$tree/include" -DSOURCE="$tree" -P "$scripts/$1.cmake" 2>&1) || rc=$?
  if [ $# = 1 ] && [ $rc = 0 ]; then return; fi
  if [ $# = 2 ] && [ $rc != 0 ] && [[ $out == *"$2"* ]]; then return; fi
  echo "$1: expected ${2:-success}, exit code $rc and: $out"
  failed=1
}

fresh; expect layers; expect sources

fresh; header job/a '<gsched/notify/a.hpp>'
expect layers 'job/ (rank 1) includes notify/ (rank 1)'
fresh; header core/a '<gsched/job/a.hpp>'
expect layers 'core/ (rank 0) includes job/ (rank 1)'
fresh; printf '#  include   <gsched/sim/a.hpp> // why\n' >>"$tree/include/gsched/policy/a.hpp"
expect layers 'policy/ (rank 2) includes sim/ (rank 6)'
fresh; header cuda/a '<gsched/dispatch/a.hpp>'
expect layers 'cuda/ (rank 5) includes dispatch/ (rank 5)'
fresh; header dispatch/a '<cuda_runtime.h>'
expect layers 'dispatch/a.hpp: includes CUDA'
fresh; header notify/a '<cuda/atomic>'
expect layers 'notify/a.hpp: includes CUDA'
fresh; header sim/a '<gsched/gsched.hpp>'
expect layers 'sim/a.hpp: includes all'
fresh; header job/a '"a.hpp"'
expect layers 'job/a.hpp: includes by quotes'
fresh; mkdir "$tree/include/gsched/attic"; header attic/a '<cstdint>'
expect layers 'attic/a.hpp: its folder has no rank'
fresh; rm -r "$tree/include"; expect layers 'no header'

fresh; echo '#pragma once' >"$tree/include/gsched/core/a.hpp"
expect sources 'core/a.hpp: its first line'
fresh; sed -i 2d "$tree/include/gsched/core/a.hpp"; expect sources 'core/a.hpp: no #pragma once'
fresh; mkdir "$tree/python"; printf '#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n' >"$tree/python/a.py"
expect sources; echo 'import sys' >"$tree/python/a.py"; expect sources 'python/a.py: its first line'

exit $failed
