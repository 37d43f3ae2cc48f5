// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace gsched {

/// Assumptions about the kernels of a graph without a profile.
///
/// Source   idle_us: see mean_use. The other values were chosen on a coarse grid against the
///          slow-downs of the same networks, so their accuracy there says little; the optimum is
///          flat.
struct stand_in_law {
  double idle_us = mean_use::idle_us; ///< time of each kernel without a warp on an SM
  double gap_us = 0.3;
  double floor_us = 1.8; ///< least time of a kernel
  double wave_us = 12;   ///< time of one wave of blocks
  double uneven = 1.4;   ///< 0: equal kernels; 1: times above the floor are exponential
  double per_sm = 8;     ///< blocks of an SM
  double warps = 4;      ///< warps of a block
  double most_kernels = 20000;
};

/// A chain of assumed kernels for a graph of which only counters of the whole graph are known. The
/// number of kernels follows from the idle time of the SMs. Their times vary as those of networks
/// do, and a longer kernel has more blocks. `place` is empty for all SMs.
///
/// Order    long and short kernels are mixed evenly. Equal arguments give equal chains.
/// Cost     O(n log n) of n kernels.
[[nodiscard]] inline kernel_chain stand_in_chain(const solo_metrics& m, sm_count device,
                                                 const std::optional<chain_place>& place = {},
                                                 const stand_in_law& law = {}) {
  const double us = std::max(0.001, to_us(m.solo));
  const double n = std::clamp(std::round((1 - m.active) * us / law.idle_us), 1.0, law.most_kernels);
  kernel_chain chain;
  chain.known = false;
  chain.factors = m.factors;
  chain.lost = m.lost;
  chain.at_start = m.at_start;
  const double all = std::max(1.0, static_cast<double>(device.count()));
  chain.sms = place ? std::clamp<double>(place->sms.count(), 1, all) : all;
  chain.gap_us = std::min(law.gap_us, 0.2 * us / n);
  const double mean = us / n - chain.gap_us;
  const double floor = std::min(law.floor_us, 0.8 * mean);

  const auto count = static_cast<std::size_t>(n);
  std::vector<double> over(count); // relative times above the floor, rising
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double below = (static_cast<double>(i) + 0.5) / n;
    over[i] = std::pow(-std::log(1 - below), law.uneven);
    sum += over[i];
  }
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  const auto spread = [](std::size_t i) { // multiples of the golden ratio are spread evenly
    const double turns = 0.6180339887498949 * static_cast<double>(i + 1);
    return turns - std::floor(turns);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return spread(a) < spread(b); });
  for (const std::size_t i : order) {
    chain_kernel k;
    const double work = over[i] * (mean - floor) * n / sum;
    k.us = floor + work;
    k.per_sm = law.per_sm;
    k.blocks = std::max(1.0, work / law.wave_us * all * law.per_sm);
    k.warps = law.warps;
    k.shares.fill(1 / law.per_sm);
    chain.kernels.push_back(k);
  }
  std::vector<double> alone_us;
  for (chain_kernel& k : chain.kernels) {
    alone_us.push_back(k.us);
    if (place && place->solo > duration::zero())
      k.us *= std::max(0.1, (to_us(place->solo) - chain.gap_us * n) / (us - chain.gap_us * n));
  }
  distribute_demand(chain, m, alone_us, all);
  return chain;
}

} // namespace gsched
