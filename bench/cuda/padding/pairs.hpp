// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/run.hpp"
#include "padding/subjects.hpp"
#include "padding/timeline.hpp"

#include "experiment.hpp"

#include <gsched/core/quantity.hpp>

#include <cstdint>

namespace padding {

/// What all parts of the experiment share.
struct bench {
  const run_options& how;
  subjects& all;
  timeline& time;
  experiment::watchdog& dog;
  gsched::sm_count sms{};
  double peak_gbps = 0; ///< what the fastest copy moves, reads and writes together
};

/// Rate at which the fastest copy of the subjects moves bytes.
[[nodiscard]] double peak_of(const subjects& all);

/// How blocks of a guest are chosen for a real-time kernel. All by rule 1.
enum class selection {
  paper,  ///< rule 2 as the paper has it: the real-time kernel's own level; all places
  needed, ///< rule 2 with the level that it needs; all places
  apart   ///< as many as SMs that it leaves idle, so that none shares one
};

/// Of a guest beside a real-time kernel; 0: not selected.
///
/// The level of both together is that of the very kernel that runs them: block sizes differ, so it
/// can be less than the lower one of theirs.
[[nodiscard]] std::uint32_t blocks_for(selection by, const subjects& all, std::size_t real_time,
                                       std::size_t guest, gsched::sm_count sms);
/// The third rule: what both move together, in the real-time kernel's time, is no more than a share
/// of what the GPU can.
[[nodiscard]] bool bandwidth_allows(const subject& real_time, const subject& guest,
                                    std::uint32_t blocks, double most_gbps);

/// Proxies without guests, and function pointers, beside plain kernels.
void measure_overhead(const bench& b, results& out);
/// Every pair that is selected, beside the real-time kernel alone.
void measure_pairs(const bench& b, results& out);

} // namespace padding
