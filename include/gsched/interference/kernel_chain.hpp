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

/// A kernel of a chain. A copy or a memset has no blocks.
struct chain_kernel {
  double us = 0;                  ///< latency alone, within its graph
  double blocks = 0;              ///< of the grid
  double per_sm = 1;              ///< blocks that an SM holds
  double warps = 0;               ///< of one block
  double l2 = 0;                  ///< part of the device's L2 throughput: 0 to 1
  double dram = 0;                ///< part of the device's DRAM throughput: 0 to 1
  std::array<double, 4> shares{}; ///< parts of an SM's warps, registers, shared memory and block
                                  ///< slots that one block takes

  /// The number of waves of its blocks, at least 1.
  [[nodiscard]] double waves(double sms) const noexcept {
    return std::max(1.0, blocks / (sms * per_sm));
  }
  /// The part of the SMs that has at least one of its blocks.
  [[nodiscard]] double coverage(double sms) const noexcept { return std::min(1.0, blocks / sms); }
  /// Its resident warps on such an SM.
  [[nodiscard]] double warps_per_sm(double sms) const noexcept {
    return std::clamp(blocks / sms, std::min(1.0, blocks), per_sm) * warps;
  }
};

/// A graph as a sequence of operations that is replayed without a pause.
struct kernel_chain {
  double sms = 1;                      ///< of the device
  double gap_us = 0;                   ///< between operations
  bool known = true;                   ///< false: derived from counters of the whole graph
  std::vector<chain_kernel> kernels{}; ///< at least one; each has a latency above 0

  [[nodiscard]] double replay_us() const noexcept {
    double sum = 0;
    for (const chain_kernel& k : kernels) sum += k.us + gap_us;
    return sum;
  }
};

/// Distributes the throughput of a whole graph over its kernels, in proportion to their latency and
/// their resident warps, up to the warps that keep memory busy.
///
/// Source   the number of warps is that of contention_law of sim/, fitted on other data.
/// Cost     O(kernels).
inline void distribute_bandwidth(kernel_chain& chain, const bandwidth& mean) noexcept {
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

/// The chain of a profile: its operations in capture order, with the throughput that the metrics of
/// the same model and batch give.
///
/// Differs  from the graph: branches run one after the other. An operation measured alone takes a
///          little longer than in its graph, and a gap precedes each; the replay latency of the
///          whole graph, if the profile has it, gives the length of that gap.
/// Errors   bad_profile for a profile without operations.
/// Cost     O(operations).
[[nodiscard]] inline kernel_chain chain_of(const profile& p, const architecture_limits& sm,
                                           const solo_metrics& metrics) {
  constexpr double in_graph = 0.986; // latency in a graph over latency alone
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
  distribute_bandwidth(chain, {metrics.l2, metrics.dram});
  return chain;
}

} // namespace gsched
