// SPDX-License-Identifier: Apache-2.0
#include "measure/session.hpp"

#include <gsched/cuda_tools/other_work.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

namespace measure {

using namespace gsched;

steps::steps(session& s, part_report& report, std::size_t all, double until)
    : session_(s), report_(report), all_(all), until_(until), begun_(s.now()), looked_(begun_),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

void steps::note_other_work(const std::string& when) {
  constexpr std::size_t most = 3; // lines of a part
  const std::string line = look_for_other_work(session_.gpu, session_.dog);
  if (line.empty()) return;
  if (found_++ < most) report_.notes.push_back(when + ", " + line);
  if (!session_.how.busy) ++report_.disturbed;
}

steps::~steps() {
  report_.left_out = all_ - done_;
  if (terminal_ && session_.how.progress) std::fputs("\r\x1b[K", stderr);
}

bool steps::begin(const std::string& what, std::chrono::seconds most) {
  const double now = session_.now();
  if (now >= until_) return false;
  if (now - looked_ >= between_looks) {
    note_other_work("before " + what);
    looked_ = session_.now();
  }
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

std::string look_for_other_work(const cuda::gpu& gpu, common::step_watchdog& dog) {
  dog.step("looking whether the GPU is idle", std::chrono::seconds{60});
  return cuda::find_other_work(gpu);
}

} // namespace measure
