// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/run.hpp"
#include "padding/subjects.hpp"
#include "padding/timeline.hpp"

#include "experiment.hpp"

#include <gsched/preempt/colocate/quiet.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace padding {

/// Shared by all parts of the experiment.
struct bench {
  const run_options& how;
  subjects& all;
  timeline& time;
  experiment::watchdog& dog;
  double peak_gbps = 0; ///< what the fastest copy moves, reads and writes together
  gsched::quiet_options quiet{};
};

/// The rate at which the fastest copy of the subjects moves bytes.
[[nodiscard]] double peak_of(const subjects& all);

/// The selections of a co-runner's blocks for a real-time kernel. All keep rule 1.
enum class selection {
  paper,  ///< rule 2 as in the paper: the real-time kernel's own level; all slots
  needed, ///< rule 2 with the needed level; all slots
  apart,  ///< as many blocks as SMs that it leaves idle, so that none is shared
  quiet   ///< the library's: these, limited by the GPU's memory rate
};
inline constexpr std::array every_selection{selection::paper, selection::needed, selection::apart,
                                            selection::quiet};

/// The number of blocks of a co-runner beside a real-time kernel; 0: not selected.
///
/// The level of both together is that of the actual kernel: block sizes differ, so it can be less
/// than the lower of their levels.
[[nodiscard]] std::uint32_t blocks_for(selection by, const bench& b, std::size_t real_time,
                                       std::size_t corunner);

/// A co-runner with that many blocks beside a real-time kernel, the selections that choose it, and
/// the measured times.
struct pair {
  std::size_t real = 0, corunner = 0;
  std::uint32_t blocks = 0;
  std::array<bool, every_selection.size()> by{};
  bool bandwidth = false; ///< both stay within the memory rate
  bool kept = true;       ///< after a trial, if the library selects it
  double trial = 0;       ///< slow-down in that
  timeline::figures alone{}, proxy{}, padded{};

  [[nodiscard]] bool of(selection s) const { return by[static_cast<std::size_t>(s)]; }
  [[nodiscard]] double part_percent() const { return 100 * (padded.part_us / alone.part_us - 1); }
  [[nodiscard]] double whole_percent() const {
    return 100 * (padded.whole_us / alone.whole_us - 1);
  }
  /// Relative to the faster of the plain kernel and the proxy without co-runners.
  [[nodiscard]] double of_best_percent() const {
    return 100 * (padded.part_us / std::min(alone.part_us, proxy.part_us) - 1);
  }
};

/// Prints and saves the effect of each selection on real-time kernels, and its worst pairs.
void report_pairs(const bench& b, const std::vector<pair>& done, std::size_t all, results& out);

/// Proxies without co-runners, and function pointers, relative to plain kernels.
void measure_overhead(const bench& b, results& out);
/// Every selected pair, relative to the real-time kernel alone.
void measure_pairs(const bench& b, results& out);

} // namespace padding
