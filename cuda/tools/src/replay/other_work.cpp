// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/other_work.hpp>

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replaying.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

std::string find_other_work(const gpu& on) {
  constexpr int kernels = 8;
  constexpr double seconds = 0.3;
  operation each;
  each.launch.grid = {on.sms.count(), 1, 1};
  each.launch.block = {256, 1, 1};
  each.expected = std::chrono::microseconds{100};
  const program chain =
      make_stand_in(gsched::program("calibrating", std::vector<operation>(kernels, each)));
  const placed_graph placed(chain, nullptr);

  using clock = std::chrono::steady_clock;
  const auto since = [](clock::time_point t) {
    return std::chrono::duration<double>(clock::now() - t).count();
  };
  replayer replays;
  std::vector<double> times;
  for (const auto begun = clock::now(); since(begun) < seconds / 2;) replays.alone(placed, times);
  const replay_times t = summarize(std::move(times));
  if (std::string line = uneven_replays(on.name, t); !line.empty()) return line;

  std::size_t count = 0;
  double took = 0;
  for (const auto begun = clock::now(); took < seconds / 2; took = since(begun), ++count) {
    placed.launch(nullptr);
    check(cudaStreamSynchronize(nullptr), "looking whether the GPU is idle");
  }
  return late_replays(on.name, t, 1e6 * took / static_cast<double>(count), count);
}

} // namespace gsched::cuda
