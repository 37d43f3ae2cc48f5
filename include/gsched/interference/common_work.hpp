// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>

#include <algorithm>
#include <cmath>

namespace gsched {

/// Of a persistent kernel, whose blocks, one on an SM, take their work from a common queue: its
/// time on fewer SMs is as their number to the power of minus this. There its time grows by no more
/// than the number of its blocks over that of the SMs; if each block has work of its own, it needs
/// another wave, and twice the time, unless fewer blocks share a full DRAM: such kernels are taken
/// for persistent ones. 0 of all other kernels, and of those that were not measured on fewer SMs
/// than they have blocks: on half and on three quarters of `device`, say.
///
/// Source   gsched's own. On 96 of the 132 SMs of an H200, kernels of PyTorch's graphs with 132
///          blocks take 1.0 to 1.4 times as long where there are more tiles than blocks, as in most
///          products and convolutions for the tensor cores of an H100 and in attention, and 1.5 to
///          1.9 times if not.
/// Units    `per_sm`: blocks that an SM holds. The result is 0, or from 0.05 to 1.
/// Cost     O(points measured).
[[nodiscard]] inline double common_work_of(const operation& op, double per_sm,
                                           double device) noexcept {
  constexpr double few = 0.4; // part of the SMs, on fewer of which all kernels need several waves
  constexpr double least = 0.05;
  const auto blocks = static_cast<double>(op.launch.blocks());
  if (op.kind != operation_kind::kernel || per_sm != 1 || blocks > device) return 0;
  double power = 0;
  for (const scaling_point& p : op.by_sms) { // by rising SMs
    const double sms = p.sms.count();
    if (sms < few * device || sms >= blocks) continue;
    const double slower = std::max(1.0, to_us(p.time) / std::max(1e-3, to_us(op.expected)));
    if (slower > blocks / sms) return 0;
    if (!(power > 0)) power = std::max(least, std::log(slower) / std::log(blocks / sms));
  }
  return power;
}

} // namespace gsched
