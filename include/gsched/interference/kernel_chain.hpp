// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// A kernel as a neighbour on the same SMs meets it. A copy or a set has no blocks.
struct chain_kernel {
  double us = 0;                  ///< alone, among the others of its graph
  double blocks = 0;              ///< of its grid
  double per_sm = 1;              ///< blocks that an SM holds
  double warps = 0;               ///< of one block
  double l2 = 0;                  ///< of the device's throughput that it takes: 0 to 1
  double dram = 0;                ///< the same of DRAM
  std::array<double, 4> shares{}; ///< of an SM's warps, registers, shared memory and block slots
                                  ///< that one block takes

  /// How often its blocks fill the device; 1 where they do not.
  [[nodiscard]] double waves(double sms) const noexcept {
    return std::max(1.0, blocks / (sms * per_sm));
  }
  /// The part of the SMs that has blocks of it.
  [[nodiscard]] double coverage(double sms) const noexcept { return std::min(1.0, blocks / sms); }
  /// Resident on such an SM.
  [[nodiscard]] double warps_per_sm(double sms) const noexcept {
    return std::clamp(blocks / sms, std::min(1.0, blocks), per_sm) * warps;
  }
};

/// A graph whose operations run one after the other, over and over.
struct kernel_chain {
  double sms = 1;                      ///< of the device
  double gap_us = 0;                   ///< between operations
  bool known = true;                   ///< false: a guess from counters of the whole graph
  std::vector<chain_kernel> kernels{}; ///< one at least; each takes some time

  [[nodiscard]] double replay_us() const noexcept {
    double sum = 0;
    for (const chain_kernel& k : kernels) sum += k.us + gap_us;
    return sum;
  }
};

/// Gives each kernel its part of what the counters say of the whole graph: by its time and by the
/// warps that it keeps resident, as many as an SM needs to keep memory busy.
///
/// Source   what an SM needs is taken from sim/detail/contention.hpp, which found it on other data.
inline void share_out(kernel_chain& chain, const bandwidth& mean) noexcept {
  constexpr double warps_to_ask = 16;
  const auto asking = [&](const chain_kernel& k) {
    return std::min(1.0, k.warps_per_sm(chain.sms) * k.coverage(chain.sms) / warps_to_ask);
  };
  double sum = 0;
  for (const chain_kernel& k : chain.kernels) sum += asking(k) * k.us;
  if (!(sum > 0)) return;
  const double scale = chain.replay_us() / sum;
  for (chain_kernel& k : chain.kernels) {
    k.l2 = std::min(1.0, mean.l2 * asking(k) * scale);
    k.dram = std::min(1.0, mean.dram * asking(k) * scale);
  }
}

/// The chain of a profile: its operations in the order of the capture, with the bandwidth that the
/// metrics of the same model and batch say.
///
/// Differs  branches of a graph are run one after the other. Measured one by one an operation takes
///          a little longer than in its graph, and a gap is before each; a profile that says what
///          the whole graph takes says how long that gap is.
/// Errors   bad_profile for a profile without operations.
/// Cost     O(operations).
[[nodiscard]] inline kernel_chain chain_of(const profile& p, const architecture_limits& sm,
                                           const solo_metrics& metrics) {
  constexpr double in_graph = 0.986; // of the time alone
  constexpr double usual_gap = 0.34;
  constexpr double least_us = 0.001;
  if (p.operations.empty())
    throw error(errc::bad_profile, p.full_name() + ": no operations, expected one");
  kernel_chain chain;
  chain.sms = std::max(1.0, static_cast<double>(p.sms.count()));
  double sum = 0;
  for (const profile_operation& o : p.operations) {
    const operation& op = o.work;
    chain_kernel k;
    k.us = std::max(least_us, in_graph * to_us(op.expected));
    sum += k.us;
    if (op.kind == operation_kind::kernel) {
      const block_allocation a = allocation_of(sm, op.launch);
      const std::uint32_t held =
          op.max_blocks_per_sm != 0 ? op.max_blocks_per_sm : max_blocks_per_sm(sm, op.launch);
      k.blocks = static_cast<double>(op.launch.blocks());
      k.per_sm = std::max(1u, held);
      k.warps = a.warps;
      const auto share = [&](double part, double whole) {
        return whole > 0 ? std::min(part / whole, 1 / k.per_sm) : 0;
      };
      k.shares = {share(a.warps, sm.max_warps), share(a.registers, sm.registers),
                  share(a.shared_bytes, sm.shared_bytes), share(1, sm.max_blocks)};
    }
    chain.kernels.push_back(k);
  }
  const auto n = static_cast<double>(chain.kernels.size());
  chain.gap_us = p.graph_replay ? std::max(0.0, (to_us(*p.graph_replay) - sum) / n) : usual_gap;
  share_out(chain, {metrics.l2, metrics.dram});
  return chain;
}

} // namespace gsched
