// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/profiling.hpp>

#include <cstdio>

// Names the GPU, or says in one line why there is none: both are a package that links and runs.
int main() {
  try {
    gsched::cuda::profiling_options how;
    std::printf("%s\n", gsched::cuda::find_gpu(0).name.c_str());
    if (how.replays < 0) static_cast<void>(gsched::cuda::profile_graph(nullptr, how));
  } catch (const gsched::error& e) {
    std::printf("%s\n", e.what());
    return e.code() == gsched::errc::no_device ? 0 : 1;
  }
}
