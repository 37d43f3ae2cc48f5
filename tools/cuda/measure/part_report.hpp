// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace measure {

/// What a part of the run has done, in rows of its tables.
struct part_report {
  std::string name;
  std::size_t measured = 0;
  std::size_t kept = 0;      ///< were there before
  std::size_t left_out = 0;  ///< for lack of time, in steps of the part
  std::size_t failed = 0;    ///< rows or graphs that are left out after an error
  std::size_t disturbed = 0; ///< how often other work was found on the GPU, without --busy
  double seconds = 0;
  double widest = 0; ///< of the spreads of its rows, relative to the median
  std::string widest_row;
  std::vector<std::string> notes; ///< what could not be measured, and why

  void spread(double s, const std::string& row) {
    if (s <= widest) return;
    widest = s;
    widest_row = row;
  }

  /// After an error. What this GPU or the graph cannot have by its kind is only noted.
  void leave_out(const std::string& what, const std::string& error) {
    notes.push_back(what + " left out: " + error);
    ++failed;
  }
};

/// Of a run that is incomplete: what is there is good, but not all that was asked for is there.
inline constexpr int incomplete_status = 4;

/// One line that counts what is missing; empty if all is there.
[[nodiscard]] inline std::string what_is_missing(std::span<const part_report> parts) {
  std::size_t steps = 0;
  std::size_t failed = 0;
  std::size_t disturbed = 0;
  for (const part_report& r : parts) {
    steps += r.left_out;
    failed += r.failed;
    disturbed += r.disturbed;
  }
  std::string all;
  const auto add = [&](std::size_t n, const char* of) {
    if (n > 0) all += fmt::format("{}{} {}", all.empty() ? "" : ", ", n, of);
  };
  add(steps, "steps left by --minutes");
  add(failed, "rows or graphs left out by errors");
  add(disturbed, "times the GPU was in use, so that rows may be wrong");
  return all.empty() ? all : "incomplete: " + all + ", expected none";
}

} // namespace measure
