#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# checks_test.sh CMAKE SOURCE CXX PYTHON: the checks of layers, umbrellas, sources, includes and of each header alone
# find what they are there to find.
set -euo pipefail
cmake=$1 source=$2 cxx=$3
python=$("$4" -c 'import sys; print(sys.executable)') # itself: a shim before it takes ten times as long
tree=$(mktemp -d)
trees=$(mktemp -d) # that includes.py is yet to read, the Nth with what it must say in N.text
trap 'rm -rf "$tree" "$trees"' EXIT
failed=0 waiting=0

fresh() { # a tree that keeps every rule
  local f
  rm -rf "$tree"
  mkdir -p "$tree"/include/gsched/{core,job,notify,policy,dispatch,workload,serving,sim/detail,io} \
    "$tree"/cuda/{include/gsched/cuda/detail,tools/include/gsched/cuda_tools,tools/src,c/src} \
    "$tree"/cuda/src/{graph,preempt,device} "$tree"/{tools/demo/cuda,examples}
  for f in core/a job/a notify/a policy/{a,b} dispatch/a workload/a serving/a sim/detail/a io/a; do
    header "$f" '<cstdint>'
  done
  header policy/a '<gsched/policy/b.hpp>' '<gsched/job/a.hpp>' '<gsched/core/a.hpp>'
  header sim/a '<gsched/dispatch/a.hpp>' '<gsched/sim/detail/a.hpp>'
  for f in sim workload serving io; do header $f "<gsched/$f/a.hpp>"; done
  header gsched '<gsched/core/a.hpp>' '<gsched/job/a.hpp>' '<gsched/notify/a.hpp>' \
    '<gsched/policy/a.hpp>' '<gsched/dispatch/a.hpp>'
  at=cuda/include header cuda/a '<cuda_runtime.h>' '<gsched/policy/a.hpp>' '<gsched/serving/a.hpp>' \
    '<gsched/cuda/detail/a.hpp>'
  at=cuda/include header cuda/detail/a '<cstdint>'
  at=cuda/tools/include header cuda_tools/a '<gsched/cuda/a.hpp>'
  unit cuda/src/a '<cuda.h>'
  unit cuda/src/graph/a '<gsched/cuda/a.hpp>' '"a.hpp"'
  unit cuda/src/preempt/a '"graph/a.hpp"' '"preempt/a.hpp"'
  unit cuda/src/device/a '"preempt/a.hpp"' '"a.hpp"'
  unit cuda/tools/src/a '"graph/a.hpp"' '<gsched/cuda_tools/a.hpp>'
  unit cuda/c/src/a '<gsched/dispatch/a.hpp>'
  unit tools/demo '<gsched/sim.hpp>' '"demo/part.hpp"'
  unit tools/demo/part '<gsched/io/a.hpp>'
  unit tools/demo/cuda/gpu '<gsched/cuda_tools/a.hpp>' '<cuda.h>'
  unit examples/short '<gsched/gsched.hpp>'
}

includes() { printf '#include %s\n' "$@"; }
header() { # header PATH INCLUDED...
  { printf '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n// %s: no other file has these bytes\n' "$1"
    includes "${@:2}"; } >"$tree/${at:-include}/gsched/$1.hpp"
}
unit() { # unit PATH INCLUDED...
  { echo '// SPDX-License-Identifier: Apache-2.0'; includes "${@:2}"; } >"$tree/$1.cpp"
}

expect() { # expect CHECK TEXT: the check fails and says TEXT; without TEXT it passes. Takes the tree for includes
  local out rc=0
  if [ "$1" = includes ]; then
    waiting=$((waiting + 1))
    mv "$tree" "$trees/$waiting"
    printf '%s' "${2:-}" >"$trees/$waiting.text"
    return
  fi
  out=$("$cmake" -DINCLUDE="$tree/include" -DSOURCE="$tree" -DCXX="$cxx" -DWORK="$tree/work" \
    -P "$source/cmake/$1.cmake" 2>&1) || rc=$?
  if [ $# = 1 ] && [ $rc = 0 ]; then return; fi
  if [ $# = 2 ] && [ $rc != 0 ] && [[ $out == *"$2"* ]]; then return; fi
  echo "$1: expected ${2:-success}, exit code $rc and: $out"
  failed=1
}

fresh; expect layers; expect sources; expect umbrella; expect includes

# Ranks
fresh; header job/a '<gsched/notify/a.hpp>'
expect layers 'job/ (rank 1) includes notify/ (rank 1)'
fresh; header core/a '<gsched/job/a.hpp>'
expect layers 'core/ (rank 0) includes job/ (rank 1)'
fresh; printf '#  include   <gsched/sim/a.hpp> // why\n' >>"$tree/include/gsched/policy/a.hpp"
expect layers 'policy/ (rank 2) includes sim/ (rank 6)'
fresh; header workload/a '<gsched/dispatch/a.hpp>'
expect layers 'workload/ (rank 5) includes dispatch/ (rank 5)'
fresh; header sim/a '<gsched/serving/a.hpp>'
expect layers 'sim/ (rank 6) includes serving/ (rank 6)'
fresh; header sim/a '<gsched/io/a.hpp>'
expect layers 'sim/ (rank 6) includes io/ (rank 7)'
fresh; at=cuda/include header cuda/a '<gsched/dispatch/a.hpp>'
expect layers 'cuda/ (rank 5) includes dispatch/ (rank 5)'
fresh; at=cuda/include header cuda/a '<gsched/cuda_tools/a.hpp>'
expect layers 'cuda/ (rank 5) includes cuda_tools/ (rank 6)'
fresh; at=cuda/tools/include header cuda_tools/a '<gsched/sim/a.hpp>'
expect layers 'cuda_tools/ (rank 6) includes sim/ (rank 6)'
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
fresh; header io/a '<gsched/attic/a.hpp>'
expect layers 'includes attic/, which has no rank'
fresh; rm -r "$tree"/include "$tree"/cuda; expect layers 'no header'

# The CUDA parts' sources
fresh; unit cuda/src/graph/a '"preempt/a.hpp"'
expect layers 'cuda/src/graph (rank 1) includes preempt/ (rank 2)'
fresh; unit cuda/src/a '"graph/a.hpp"'
expect layers 'cuda/src/ (rank 0) includes graph/ (rank 1)'
fresh; mkdir "$tree/cuda/src/attic"; unit cuda/src/attic/a '<cstdint>'
expect layers 'attic/a.cpp: its folder has no rank'
fresh; unit cuda/src/device/a '<gsched/dispatch/a.hpp>'
expect layers 'cuda/ (rank 5) includes dispatch/ (rank 5)'
fresh; unit cuda/src/device/a '<gsched/cuda_tools/a.hpp>'
expect layers 'cuda/ (rank 5) includes cuda_tools/ (rank 6)'
fresh; unit cuda/tools/src/a '<gsched/sim/a.hpp>'
expect layers 'cuda_tools/ (rank 6) includes sim/ (rank 6)'

# detail/ is included by its own folder alone
for f in dispatch io; do
  fresh; header $f/a '<gsched/sim/detail/a.hpp>'
  expect layers "of another folder's detail/"
done
fresh; at=cuda/tools/include header cuda_tools/a '<gsched/cuda/detail/a.hpp>'
expect layers "of another folder's detail/"
for f in cuda/tools/src/a cuda/c/src/a tools/demo tools/demo/part tools/demo/cuda/gpu examples/short; do
  fresh; unit $f '<gsched/cuda/detail/a.hpp>'
  expect layers "$f.cpp: includes cuda/detail/a.hpp, of another folder's detail/"
done

# Programs
fresh; unit tools/demo '<gsched/cuda/a.hpp>'; expect layers 'demo.cpp: includes CUDA'
fresh; unit tools/demo/part '<cuda_runtime.h>'; expect layers 'part.cpp: includes CUDA'
fresh; unit examples/short '"short/part.hpp"'; expect layers 'short.cpp: an example is one file'

# Umbrellas
fresh; header attic '<gsched/core/a.hpp>'; expect layers 'attic.hpp: is no umbrella'
fresh; header sim '<gsched/sim/a.hpp>' '<gsched/sim/detail/a.hpp>'
expect layers 'an umbrella, includes detail/'
fresh; header sim '<gsched/sim/a.hpp>' '<gsched/io/a.hpp>'
expect layers 'an umbrella of another part'
fresh; header gsched '<gsched/sim/a.hpp>'; expect layers 'an umbrella of another part'
fresh; header sim '<gsched/sim/a.hpp>' '<vector>'; expect layers 'an umbrella, with'
fresh; header sim/b '<cstdint>'; expect umbrella 'sim.hpp lacks'
fresh; header policy/c '<cstdint>'; expect umbrella 'gsched.hpp lacks'
fresh; header policy/a '<gsched/policy/b.hpp>' '<gsched/sim/a.hpp>'
expect umbrella 'gsched.hpp includes'
fresh; header policy/b '<iostream>'; expect umbrella 'gsched.hpp includes'
fresh; header sim/detail/a '<regex>'; expect umbrella 'sim.hpp includes'
fresh; rm "$tree/include/gsched/sim.hpp"; expect umbrella 'sim/ has no umbrella'

# Sources
fresh; echo '#pragma once' >"$tree/include/gsched/core/a.hpp"
expect sources 'core/a.hpp: its first line'
fresh; sed -i 2d "$tree/include/gsched/core/a.hpp"; expect sources 'core/a.hpp: no #pragma once'
fresh; mkdir "$tree/python"; printf '#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n' >"$tree/python/a.py"
expect sources; echo 'import sys' >"$tree/python/a.py"; expect sources 'python/a.py: its first line'
fresh; echo 'int x;' >"$tree/tools/demo.cpp"; expect sources 'tools/demo.cpp: its first line'

# Includes: each is a header's code, and what is wrong in its first line
code() { # code TEXT: core/a.hpp, which includes <cstdint>, with this text
  fresh; printf '%s\n' "$1" >>"$tree/include/gsched/core/a.hpp"
}
lacking() { # lacking TEXT USE HEADER: the check asks for the header, and for nothing where it is included
  code "$1"; expect includes "include/gsched/core/a.hpp:5: $2, expected #include <$3>"
  code "$1"; echo "#include <$3>" >>"$tree/include/gsched/core/a.hpp"; expect includes
}
lacking 'inline void f(int* x) { std::sort(x, x + 2); }' std::sort algorithm
lacking 'std::size_t n;' std::size_t cstddef
lacking 'int f(::std::pair<int, int>);' std::pair utility
lacking 'using std::exchange;' std::exchange utility
lacking 'const auto least = 1ms + std::chrono::hours{1};' std::chrono chrono
lacking 'bool b = std::ranges::equal(x, y);' std::ranges::equal algorithm
lacking 'bi::list<int> x;' boost::intrusive::list boost/intrusive/list.hpp
lacking 'boost::intrusive::set<int> x;' boost::intrusive::set boost/intrusive/set.hpp
lacking 'nlohmann::ordered_json x;' nlohmann::ordered_json nlohmann/json.hpp
lacking 'void f(int n) { assert(n > 0); }' assert cassert
lacking 'struct a { auto operator<=>(const a&) const = default; };' '<=>' compare
lacking 'int* f(void* p) { return new (p) int; }' 'new (address)' new
lacking 'void f() { for (int n : {1, 2}) g(n); }' 'for (... : {...})' initializer_list
lacking "int n = 1'000'000; auto m = std::min(n, 2); char c = 'x';" std::min algorithm
code 'std::gone x;'; expect includes 'a.hpp:5: std::gone, not known: add it to tests/house/std_names.txt'
code 'bi::gone x;'; expect includes 'a.hpp:5: boost::intrusive::gone, not known'
code '/* #include <vector> */ std::vector<int> x;'; expect includes 'std::vector, expected #include <vector>'
code 'extern std::uint32_t n; // by std::sort'; expect includes
code '/* std::sort'$'\n'' std::find */ const char* s = "std::copy\" std::count";'; expect includes
code "const char* s = R\"x(\" std::copy)x\"; char c = '\"'; // std::map \""; expect includes
code 'int f(int sort) { return my::std::sort(sort) + x.size_t + y->assert; }'; expect includes
code 'std::hash<int> h; auto x = std::begin(y);'
echo '#include <string>' >>"$tree/include/gsched/core/a.hpp"; expect includes # it has both
for f in cuda/include/gsched/cuda/a.hpp cuda/src/a.hpp tools/demo/a.hpp tests/a.cuh bench/a.hpp examples/a.hpp; do
  fresh; mkdir -p "$(dirname "$tree/$f")"; echo 'std::string s;' >"$tree/$f"; expect includes "$f:1: std::string"
done
fresh; rm -r "$tree"/*; expect includes '0 headers'
"$python" - "$source/tests/house/includes.py" "$trees" "$waiting" <<'PY' || failed=1
import contextlib, io, pathlib, runpy, sys
sys.dont_write_bytecode = True
check, trees, waiting = runpy.run_path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
failed = waiting == 0
for n in range(1, waiting + 1):
    text, out = (trees / f"{n}.text").read_text(), io.StringIO()
    sys.argv[1:] = [str(trees / str(n))]
    with contextlib.redirect_stdout(out):
        rc = int(check["main"]())
    if rc != (text != "") or text not in out.getvalue():
        print(f"includes: expected {text or 'success'}, exit code {rc} and: {out.getvalue()}")
        failed = True
sys.exit(failed)
PY

# Each header alone: none is in a chain behind a header that it does not include
chains() { # chains [TEXT]: a chain does not compile, by TEXT; without it all do, and have each header once
  local out rc=0 sources have all
  rm -rf "$tree/chains"
  "$python" "$source/tests/house/header_chains.py" "$tree/chains" "$tree/include"
  mapfile -t sources < <(grep -rl '#include' "$tree/chains") # the others hold a comment
  out=$("$cxx" -std=c++20 -fsyntax-only -I"$tree/include" "${sources[@]}" 2>&1) || rc=1
  have=$(grep -rhoP '#include <\K[^>]+' "$tree/chains" | sort)
  all=$(cd "$tree/include" && find . -name '*.hpp' -printf '%P\n' | sort)
  if [ "$have" = "$all" ] && if [ $# = 0 ]; then [ $rc = 0 ]; else [ $rc = 1 ] && [[ $out == *"$1"* ]]; fi; then return; fi
  echo "chains: expected ${1:-success}, compiler: $rc, and $out, headers: $have"
  failed=1
}
users() { # of core/a's type in every folder, where policy/a alone has it by way of another
  local f
  fresh; echo 'struct of_core {};' >>"$tree/include/gsched/core/a.hpp"
  header job/a '<gsched/core/a.hpp>'; header policy/a '<gsched/job/a.hpp>'; header dispatch/a '<gsched/core/a.hpp>'
  for f in job policy dispatch; do echo "of_core of_$f(of_core);" >>"$tree/include/gsched/$f/a.hpp"; done
}
fresh; chains
users; chains
[ "$(grep -rl '#include' "$tree/chains" | wc -l)" -lt "$(find "$tree/include" -name '*.hpp' | wc -l)" ] ||
  { echo 'chains: each header is one of its own'; failed=1; }
for f in job policy dispatch; do # gsched.hpp includes it behind core/a
  users; sed -i /#include/d "$tree/include/gsched/$f/a.hpp"; chains "gsched/$f/a.hpp"
done
users; sed -i /#include/d "$tree/include/gsched/job/a.hpp"; chains "gsched/policy/a.hpp"
users; header job/a '<gsched/core/a.hpp>' '<memory>'
printf '%s\n' 'of_core of_job(of_core);' 'struct late;' 'inline void drop(late* p) { std::unique_ptr<late> x(p); }' \
  >>"$tree/include/gsched/job/a.hpp"
echo 'struct late {};' >>"$tree/include/gsched/policy/a.hpp"
chains 'late' # which is found at the end of a source
users; header core/a '<gsched/job/a.hpp>'; echo 'struct of_core {};' >>"$tree/include/gsched/core/a.hpp"
chains 'gsched/job/a.hpp' # a circle: job/a is the first that is read

exit $failed
