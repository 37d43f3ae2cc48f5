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

/// What all parts of the experiment share.
struct bench {
  const run_options& how;
  subjects& all;
  timeline& time;
  experiment::watchdog& dog;
  double peak_gbps = 0; ///< what the fastest copy moves, reads and writes together
  gsched::quiet_options quiet{};
};

/// Rate at which the fastest copy of the subjects moves bytes.
[[nodiscard]] double peak_of(const subjects& all);

/// How blocks of a guest are chosen for a real-time kernel. All by rule 1.
enum class selection {
  paper,  ///< rule 2 as the paper has it: the real-time kernel's own level; all places
  needed, ///< rule 2 with the level that it needs; all places
  apart,  ///< as many as SMs that it leaves idle, so that none shares one
  quiet   ///< the library's: these, and no more bytes than the GPU moves beside
};
inline constexpr std::array every_selection{selection::paper, selection::needed, selection::apart,
                                            selection::quiet};

/// Of a guest beside a real-time kernel; 0: not selected.
///
/// The level of both together is that of the very kernel that runs them: block sizes differ, so it
/// can be less than the lower one of theirs.
[[nodiscard]] std::uint32_t blocks_for(selection by, const bench& b, std::size_t real_time,
                                       std::size_t guest);

/// A guest with so many blocks beside a real-time kernel, who selects that, and what it took.
struct pair {
  std::size_t real = 0, guest = 0;
  std::uint32_t blocks = 0;
  std::array<bool, every_selection.size()> by{};
  bool bandwidth = false; ///< both move no more than may be
  bool kept = true;       ///< after a trial, if the library selects it
  double trial = 0;       ///< slow-down in that
  timeline::figures alone{}, proxy{}, padded{};

  [[nodiscard]] bool of(selection s) const { return by[static_cast<std::size_t>(s)]; }
  [[nodiscard]] double part_percent() const { return 100 * (padded.part_us / alone.part_us - 1); }
  [[nodiscard]] double whole_percent() const {
    return 100 * (padded.whole_us / alone.whole_us - 1);
  }
  /// Beside the faster one of the plain kernel and the proxy without guests.
  [[nodiscard]] double of_best_percent() const {
    return 100 * (padded.part_us / std::min(alone.part_us, proxy.part_us) - 1);
  }
};

/// Prints and saves what each selection does to real-time kernels, and its worst pairs.
void report_pairs(const bench& b, const std::vector<pair>& done, std::size_t all, results& out);

/// Proxies without guests, and function pointers, beside plain kernels.
void measure_overhead(const bench& b, results& out);
/// Every pair that is selected, beside the real-time kernel alone.
void measure_pairs(const bench& b, results& out);

} // namespace padding
