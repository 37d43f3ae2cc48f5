// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/start_loss.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/occupancy/shared_split.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gsched {

/// A kernel of a chain. A copy or a memset has no blocks.
struct chain_kernel {
  double us = 0;                  ///< latency alone, within its graph
  double blocks = 0;              ///< of the grid
  double per_sm = 1;              ///< blocks that an SM holds
  double warps = 0;               ///< of one block
  double fixed = 0;               ///< part of a block's time that other blocks do not change
  std::array<double, 4> shares{}; ///< parts of an SM's warps, registers, shared memory and block
                                  ///< slots that one block takes
  double least_split = 0;         ///< part of an SM's memory that has to be shared memory
  double set_split = 0;           ///< that it makes shared memory of an SM without blocks
  demand takes{};                 ///< alone, on the SMs of its chain
  double early = 0;               ///< see ends_early
  double resident = 0;            ///< blocks on an SM, see dispatched_blocks; 0: all that fit
  double common_work = 0;         ///< see common_work_of

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
  double sms = 1;          ///< on which it runs
  double gap_us = 0;       ///< between operations
  bool known = true;       ///< false: derived from counters of the whole graph
  corun_factors factors{}; ///< beside graphs on other SMs
  l2_loss lost{};          ///< beside any; the usual one if not known, but what warps wait for is
  start_loss at_start{};   ///< beside graphs on other SMs; of each kernel an estimate if not known
  bool endless = false; ///< a probe: one kernel that started first, with the largest split of the
                        ///< SMs' memory for shared memory, and never ends
  std::vector<chain_kernel> kernels{}; ///< at least one; each has a latency above 0
  /// For each operation the earlier ones that it waits for; empty: each waits for the one before.
  std::vector<std::vector<std::uint32_t>> after{};

  [[nodiscard]] bool has_branches() const noexcept { return !after.empty(); }
  /// Whether it is known what warps of its kernels wait for.
  [[nodiscard]] bool has_waits() const noexcept {
    return std::any_of(kernels.begin(), kernels.end(),
                       [](const chain_kernel& k) { return k.takes.waits != warp_waits{}; });
  }

  [[nodiscard]] double replay_us() const noexcept {
    double sum = 0;
    for (const chain_kernel& k : kernels) sum += k.us + gap_us;
    return sum;
  }
};

/// The demands of a chain, averaged over the time of a replay and over its SMs.
[[nodiscard]] inline demand mean_demand(const kernel_chain& chain) noexcept {
  demand mean;
  const double whole = chain.replay_us();
  double hits = 0;
  for (const chain_kernel& k : chain.kernels) {
    const double part = k.us / whole;
    for (std::size_t r = 0; r < resources; ++r)
      mean.use[r] += k.takes.use[r] * part * (r < resources_on_sm ? k.coverage(chain.sms) : 1);
    hits += k.takes.kept * k.takes.of(resource::l2) * part;
  }
  const double l2 = mean.of(resource::l2);
  mean.kept = l2 > 0 ? std::min(1.0, hits / l2) : 0;
  return mean;
}

/// Distributes the mean demand of a whole graph over its kernels, in proportion to their latency
/// and their resident warps, up to the warps that keep memory busy. `alone_us` are the times of the
/// kernels on all SMs of the device, `device`, where the metrics were counted.
///
/// Source   the number of warps is that of contention_law of sim/, fitted on other data.
/// Cost     O(kernels).
inline void distribute_demand(kernel_chain& chain, const solo_metrics& m,
                              std::span<const double> alone_us, double device) noexcept {
  constexpr double warps_to_ask = 16;
  const auto asking = [&](const chain_kernel& k) {
    return std::min(1.0, k.warps_per_sm(device) * k.coverage(device) / warps_to_ask);
  };
  double sum = 0;
  for (std::size_t i = 0; i < chain.kernels.size(); ++i)
    sum += asking(chain.kernels[i]) * alone_us[i];
  if (!(sum > 0)) return;
  for (std::size_t i = 0; i < chain.kernels.size(); ++i) {
    chain_kernel& k = chain.kernels[i];
    const double rate = asking(k) * (to_us(m.solo) / sum) * (alone_us[i] / k.us);
    const double on_its_sms = rate * device / (chain.sms * std::max(1e-3, k.coverage(chain.sms)));
    const auto part = [](double x) { return std::clamp(x, 0.0, 1.0); };
    k.takes.of(resource::issue) = part(m.ipc / 4 * on_its_sms);
    k.takes.of(resource::l1) = part(m.l1 * on_its_sms);
    k.takes.of(resource::l2) = part(m.l2 * rate);
    k.takes.of(resource::dram) = part(m.dram * rate);
    k.takes.kept = m.kept;
  }
}

/// Whether a kernel of the profile has counters, so that its chain has demands.
[[nodiscard]] inline bool has_counters(const profile& p) noexcept {
  return std::any_of(p.operations.begin(), p.operations.end(),
                     [](const profile_operation& o) { return o.counters.has_value(); });
}

/// Where a chain runs: on `sms` of the device's SMs, with a measured latency there.
struct chain_place {
  sm_count sms{};
  duration solo{}; ///< of a replay alone on these SMs
};

namespace detail {

/// The time of an operation on so many SMs: between two measured points on a log-log line.
[[nodiscard]] inline double time_on(const operation& op, double sms, double device) noexcept {
  const double whole = to_us(op.expected);
  if (op.kind != operation_kind::kernel || op.by_sms.empty() || sms >= device) return whole;
  double last_sms = 0, last = 0;
  const auto to = [&](double at, double us) {
    const double part = std::log(sms / last_sms) / std::log(at / last_sms);
    return std::exp((1 - part) * std::log(last) + part * std::log(us));
  };
  for (const scaling_point& p : op.by_sms) {
    const double at = p.sms.count(), us = std::max(1e-3, to_us(p.time));
    if (sms <= at) return last_sms > 0 ? to(at, us) : us * at / sms;
    last_sms = at;
    last = us;
  }
  return last_sms < device ? to(device, std::max(1e-3, whole)) : whole;
}

/// The time on so many SMs of a kernel that on all of them takes as long as the dispatcher needs
/// for its blocks of one warp: as long as the dispatcher, or those SMs, need to start them. Empty
/// for others.
[[nodiscard]] inline std::optional<double> starting_us(const chain_kernel& k, double alone_us,
                                                       double sms) noexcept {
  if (k.warps > 1 || !replay_law::keeps_dispatcher(replay_law::dispatch_use(k.blocks, alone_us)))
    return std::nullopt;
  return alone_us * replay_law::starts_slower(sms);
}

/// Whether each operation waits for the one before it, and for no other.
[[nodiscard]] inline bool follow_one_another(const profile& p) noexcept {
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    const std::vector<std::uint32_t>& after = p.operations[i].after;
    if (i == 0 ? !after.empty() : after.size() != 1 || after[0] + 1 != i) return false;
  }
  return true;
}

/// The blocks of a kernel of several waves that an SM holds in the mean, by its counters, where the
/// dispatcher places them no faster than they end; or else 0.
[[nodiscard]] inline double dispatched_blocks(const kernel_counters& c, const chain_kernel& k,
                                              double max_warps, double device) noexcept {
  constexpr double most_use = 0.6;  // of the dispatcher, beyond which it may not keep up
  constexpr double most_part = 0.6; // of the blocks that would fit
  if (!(k.warps > 0) || !(c.warps_active > 0) || k.waves(device) <= 1) return 0;
  if (replay_law::dispatch_use(k.blocks, k.us) < most_use) return 0;
  const double held = std::round(c.warps_active * max_warps / k.warps);
  return held < most_part * k.per_sm ? std::max(1.0, held) : 0;
}

} // namespace detail

/// The chain of a profile: its operations in capture order. A kernel takes what its counters say; a
/// profile without counters takes what the metrics of the same model and batch say of the whole
/// graph, whose factors and loss are theirs in any case. `place` is empty for all SMs.
///
/// Differs  from the graph: without other graphs on its SMs, branches run one after the other. An
///          operation measured alone takes a little longer than in its graph, and a gap precedes
///          each; the replay latency of the whole graph, if the profile has it, gives the length of
///          that gap. On a part of the SMs all kernels are scaled so that the replay takes the
///          measured time, but those whose time is that of starting their blocks.
/// Errors   bad_profile for a profile without operations.
/// Cost     O(operations).
[[nodiscard]] inline kernel_chain chain_of(const profile& p, const architecture_limits& sm,
                                           const solo_metrics& metrics,
                                           const std::optional<chain_place>& place = {}) {
  constexpr double in_graph = 0.986; // latency in a graph over latency alone
  constexpr double usual_gap = 0.34;
  constexpr double least_us = 0.001;
  constexpr double least_scale = 0.3;
  constexpr double floor_us = 1.82, floor_part = 0.8; // as scaling_law of sim/: of each wave
  constexpr double most_fixed = 0.9;
  if (p.operations.empty())
    throw error(errc::bad_profile, p.full_name() + ": no operations, expected one");
  kernel_chain chain;
  const double device = std::max(1.0, static_cast<double>(p.sms.count()));
  chain.sms = place ? std::clamp<double>(place->sms.count(), 1, device) : device;
  chain.factors = metrics.factors;
  chain.lost = metrics.lost;
  chain.at_start = metrics.at_start;
  std::vector<double> alone_us;
  double whole = 0, here = 0;
  const bool counted = has_counters(p);
  if (!detail::follow_one_another(p))
    for (const profile_operation& o : p.operations) chain.after.push_back(o.after);
  for (const profile_operation& o : p.operations) {
    const operation& op = o.work;
    chain_kernel k;
    alone_us.push_back(std::max(least_us, in_graph * to_us(op.expected)));
    k.us = std::max(least_us, in_graph * detail::time_on(op, chain.sms, device));
    whole += alone_us.back();
    here += k.us;
    if (op.kind == operation_kind::kernel) {
      const block_allocation a = allocation_of(sm, op.launch);
      const std::uint32_t held =
          op.max_blocks_per_sm != 0 ? op.max_blocks_per_sm : max_blocks_per_sm(sm, op.launch);
      k.blocks = static_cast<double>(op.launch.blocks());
      k.per_sm = std::max(1u, held);
      k.warps = a.warps;
      const auto share = [&](double part, double of) {
        return of > 0 ? std::min(part / of, 1 / k.per_sm) : 0;
      };
      k.shares = {share(a.warps, sm.max_warps), share(a.registers, sm.registers),
                  share(a.shared_bytes, sm.shared_bytes), share(1, sm.max_blocks)};
      const shared_split split = shared_split_of(sm, op.launch, held);
      k.least_split = static_cast<double>(split.least) / sm.shared_bytes;
      k.set_split = static_cast<double>(split.set) / sm.shared_bytes;
    }
    chain.kernels.push_back(k);
  }
  const auto n = static_cast<double>(chain.kernels.size());
  chain.gap_us = p.graph_replay ? std::max(0.0, (to_us(*p.graph_replay) - whole) / n) : usual_gap;
  if (place && place->solo > duration::zero()) {
    double kernels_us = to_us(place->solo) - chain.gap_us * n;
    std::vector<std::optional<double>> known(chain.kernels.size());
    for (std::size_t i = 0; i < chain.kernels.size(); ++i) {
      known[i] = detail::starting_us(chain.kernels[i], alone_us[i], chain.sms);
      if (!known[i]) continue;
      kernels_us -= *known[i];
      here -= chain.kernels[i].us;
    }
    const double scale = here > 0 ? std::max(least_scale, kernels_us / here) : 1;
    for (std::size_t i = 0; i < chain.kernels.size(); ++i)
      chain.kernels[i].us = known[i] ? *known[i] : chain.kernels[i].us * scale;
  }
  for (chain_kernel& k : chain.kernels)
    if (k.blocks > 0)
      k.fixed = std::min(most_fixed,
                         std::min(floor_us / k.us, floor_part) * std::ceil(k.waves(chain.sms)));
  if (!counted) {
    distribute_demand(chain, metrics, alone_us, device);
    return chain;
  }
  for (std::size_t i = 0; i < chain.kernels.size(); ++i) {
    const std::optional<kernel_counters>& c = p.operations[i].counters;
    if (!c) continue;
    chain_kernel& k = chain.kernels[i];
    k.early = ends_early(*c, k.coverage(device));
    k.resident = detail::dispatched_blocks(*c, k, sm.max_warps, device);
    k.common_work = c->common_work;
    k.takes = on_fewer_sms(demand_of(*c, profiled_over(c->us, alone_us[i])), k.us / alone_us[i],
                           device * k.coverage(device) / (chain.sms * k.coverage(chain.sms)));
    if (!(k.warps > 0)) continue;
    const launch_shape& launch = p.operations[i].work.launch;
    const double bytes =
        static_cast<double>(launch.static_shared_bytes) + launch.dynamic_shared_bytes;
    const double on_sm = c->warps_active * sm.max_warps / k.warps; // blocks
    const double sms = device * k.coverage(device);
    k.takes.buffer_us = buffer_us_of(*c, bytes * on_sm, sms);
    k.takes.access_cycles =
        std::max(k.takes.access_cycles, buffered_access_cycles(*c, bytes * on_sm, sms));
  }
  return chain;
}

} // namespace gsched
