// SPDX-License-Identifier: Apache-2.0
#include "measure/session.hpp"

#include "measure/other_work.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

namespace measure {

using namespace gsched;

steps::steps(session& s, part_report& report, std::size_t all, double until)
    : session_(s), report_(report), all_(all), until_(until), begun_(s.now()),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

steps::~steps() {
  report_.left_out = all_ - done_;
  if (terminal_ && session_.how.progress) std::fputs("\r\x1b[K", stderr);
}

bool steps::begin(const std::string& what, std::chrono::seconds most) {
  const double now = session_.now();
  if (now >= until_) return false;
  session_.dog.step(report_.name + ", " + what, most);
  constexpr double between_lines = 10; // seconds, of a log
  if (!session_.how.quiet && (terminal_ ? session_.how.progress : now - shown_ >= between_lines)) {
    shown_ = now;
    const auto left =
        static_cast<long>(std::ceil(seconds_left(done_, all_, now - begun_, until_ - now)));
    fmt::print(stderr, "{}measure: {} {} of {}, {}:{:02} left: {}{}", terminal_ ? "\r\x1b[K" : "",
               report_.name, done_ + 1, all_, left / 60, left % 60, what, terminal_ ? "" : "\n");
    std::fflush(stderr);
  }
  ++done_;
  return true;
}

std::string find_other_work(const cuda::gpu& gpu, common::step_watchdog& dog) {
  constexpr int kernels = 8;
  constexpr double seconds = 0.3; // many turns of processes, which are of some milliseconds
  dog.step("looking whether the GPU is idle", std::chrono::seconds{60});
  operation each;
  each.launch.grid = {gpu.sms.count(), 1, 1};
  each.launch.block = {256, 1, 1};
  each.expected = std::chrono::microseconds{100};
  const cuda::program chain =
      cuda::make_stand_in(program("calibrating", std::vector<operation>(kernels, each)));
  const cuda::placed_graph placed(chain, nullptr);

  using clock = std::chrono::steady_clock;
  const auto since = [](clock::time_point t) {
    return std::chrono::duration<double>(clock::now() - t).count();
  };
  cuda::replayer replays;
  std::vector<double> times;
  for (const auto begun = clock::now(); since(begun) < seconds / 2;) replays.alone(placed, times);
  const cuda::replay_times t = cuda::summarize(std::move(times));
  if (std::string line = uneven_replays(gpu.name, t); !line.empty()) return line;

  std::size_t count = 0;
  double took = 0;
  for (const auto begun = clock::now(); took < seconds / 2; took = since(begun), ++count) {
    placed.launch(nullptr);
    cuda::check(cudaStreamSynchronize(nullptr), "looking whether the GPU is idle");
  }
  const double each_us = 1e6 * took / static_cast<double>(count);
  return late_replays(gpu.name, t, each_us, count);
}

} // namespace measure
