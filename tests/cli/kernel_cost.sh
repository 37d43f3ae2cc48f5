# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of what a macro adds to kernels. Passes over them where there is no nvcc.

set -u
source_dir=${GSCHED_SOURCE_DIR:?}
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! [ -x "$nvcc" ]; then
  echo "no nvcc here: passed over"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export PYTHONPATH=$source_dir/tests/cli PYTHONDONTWRITEBYTECODE=1

compile() { # compile NAME ARGS...: one translation, within a time limit
  local name=$1
  shift
  timeout 250 "$nvcc" -std=c++20 -O3 -I"$source_dir/include" -I"$source_dir/cuda/include" "$@" \
    kernels.cu > "$name.log" 2>&1 || { echo "nvcc failed: $*"; cat "$name.log"; exit 1; }
}

translate() { # translate NAME OFF: kernels.cu as it is and plain, and as PTX under the macro OFF
  local arch
  for arch in 80 90; do
    compile $1.$arch -arch=sm_$arch -Xptxas -v -cubin -o $1.$arch.cubin &
    compile plain.$arch -arch=sm_$arch -Xptxas -v -DPLAIN -cubin -o plain.$arch.cubin &
    wait -n || exit 1
    wait -n || exit 1
    compile none.$arch -arch=sm_$arch -D$2 -ptx -o none.$arch.ptx
    compile plain_ptx.$arch -arch=sm_$arch -DPLAIN -ptx -o plain.$arch.ptx
  done
}
