// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gsched {

/// What kernels are like where nobody has looked at them.
///
/// Source   idle_us: on 15 chains of five networks on one H200, the time in which SMs have no warp
///          is 2.0 to 2.7 us a kernel, and 3.6 in two of them. The others were chosen by hand on a
///          coarse grid against the slow-downs of the same networks, so what they reach there says
///          little; the optimum is flat.
struct stand_in_law {
  double idle_us = 2.25; ///< of each kernel, with no warp on an SM
  double gap_us = 0.3;
  double floor_us = 1.8; ///< of each kernel, however little it does
  double wave_us = 12;   ///< of work in one filling of the device
  double uneven = 1.4;   ///< 0: all kernels alike; 1: times over the floor fall off exponentially
  double per_sm = 8;     ///< blocks that an SM holds
  double warps = 4;      ///< of a block
  double most_kernels = 20000;
};

/// A chain of made-up kernels for a graph of which only the counters are known: as many as the time
/// in which SMs had nothing to do makes likely, of times that vary as those of networks do, each as
/// wide as its time.
///
/// Order    long and short ones are mixed evenly, the same way always.
/// Cost     O(n log n) of n kernels.
[[nodiscard]] inline kernel_chain stand_in_chain(const solo_metrics& m, sm_count device,
                                                 const stand_in_law& law = {}) {
  const double us = std::max(0.001, to_us(m.solo));
  const double n = std::clamp(std::round((1 - m.active) * us / law.idle_us), 1.0, law.most_kernels);
  kernel_chain chain;
  chain.known = false;
  chain.sms = std::max(1.0, static_cast<double>(device.count()));
  chain.gap_us = std::min(law.gap_us, 0.2 * us / n);
  const double mean = us / n - chain.gap_us;
  const double floor = std::min(law.floor_us, 0.8 * mean);

  const auto count = static_cast<std::size_t>(n);
  std::vector<double> over(count); // the floor, rising
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double below = (static_cast<double>(i) + 0.5) / n;
    over[i] = std::pow(-std::log(1 - below), law.uneven);
    sum += over[i];
  }
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  const auto place = [](std::size_t i) { // multiples of the golden section lie evenly
    const double turns = 0.6180339887498949 * static_cast<double>(i + 1);
    return turns - std::floor(turns);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  for (const std::size_t i : order) {
    chain_kernel k;
    const double work = over[i] * (mean - floor) * n / sum;
    k.us = floor + work;
    k.per_sm = law.per_sm;
    k.blocks = std::max(1.0, work / law.wave_us * chain.sms * law.per_sm);
    k.warps = law.warps;
    k.shares.fill(1 / law.per_sm);
    chain.kernels.push_back(k);
  }
  share_out(chain, {m.l2, m.dram});
  return chain;
}

} // namespace gsched
