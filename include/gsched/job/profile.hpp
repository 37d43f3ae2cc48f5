// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// A node of a captured graph: its operation and what only the profile records.
struct profile_operation {
  std::vector<std::uint32_t> after; ///< earlier operations that it depends on
  std::string symbol;               ///< mangled; kernels only
  std::string name;
  std::uint64_t local_bytes = 0;             ///< local memory a thread; kernels only
  operation work{};                          ///< to_program() assigns its kernel id
  std::optional<kernel_counters> counters{}; ///< if measured; kernels only
  /// How far the rounds differed whose median `counters` are: the largest less the smallest of each
  std::optional<kernel_counters> counters_spread{};

  bool operator==(const profile_operation& o) const {
    const operation& a = work;
    const operation& b = o.work;
    return std::tie(after, symbol, name, local_bytes, counters, counters_spread) ==
               std::tie(o.after, o.symbol, o.name, o.local_bytes, o.counters, o.counters_spread) &&
           std::tie(a.kind, a.direction, a.max_blocks_per_sm, a.bytes, a.launch, a.expected) ==
               std::tie(b.kind, b.direction, b.max_blocks_per_sm, b.bytes, b.launch, b.expected) &&
           std::vector(a.by_sms.begin(), a.by_sms.end()) ==
               std::vector(b.by_sms.begin(), b.by_sms.end());
  }
};

/// One forward pass of a model at one batch size, captured as a graph and measured.
///
/// Units    work.expected is the time alone on all `sms` SMs.
struct profile {
  std::string model;
  std::uint32_t batch = 1;
  std::string dtype;
  std::string device;
  sm_count sms{};
  byte_count input{};  ///< bytes that a request copies to the device
  byte_count output{}; ///< bytes that a request copies back
  /// time of one replay of the whole graph, with gaps and overlaps
  std::optional<duration> graph_replay;
  /// the same on fewer SMs, by rising SMs; none without graph_replay
  std::vector<scaling_point> graph_replay_by_sms;
  bool durations_measured = true; ///< false: the times of the operations are estimates
  std::vector<profile_operation> operations;

  bool operator==(const profile&) const = default;

  [[nodiscard]] std::string full_name() const { return model + "_b" + std::to_string(batch); }

  /// The sum of the operations' times. It differs from graph_replay.
  [[nodiscard]] duration total() const noexcept {
    duration sum{};
    for (const profile_operation& op : operations) sum += op.work.expected;
    return sum;
  }
};

namespace detail {

[[nodiscard]] inline std::string operation_place(const profile& p, std::size_t i) {
  return p.full_name() + ": operation " + std::to_string(i);
}

} // namespace detail

/// Refuses a profile whose operations are not in an executable order.
///
/// Errors   dependency_cycle: an operation depends on itself or on a later one; every cycle
///          contains such an operation. bad_profile: an operation depends on one that does not
///          exist.
inline void check_order(const profile& p) {
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    for (const std::uint32_t a : p.operations[i].after) {
      if (a < i) continue;
      const std::string where = detail::operation_place(p, i) + " waits for ";
      if (a == i) throw error(errc::dependency_cycle, where + "itself, expected earlier ones");
      if (a < p.operations.size())
        throw error(errc::dependency_cycle,
                    where + std::to_string(a) + ", which is later, expected earlier ones");
      throw error(errc::bad_profile, where + std::to_string(a) + ", but there are " +
                                         std::to_string(p.operations.size()) +
                                         ", expected earlier ones");
    }
  }
}

/// Refuses a profile with a kernel that the device cannot run. blocks_per_sm(launch_shape) returns
/// how many blocks of a kernel fit on an SM: the occupancy calculator, bound to a device's limits.
///
/// Errors   does_not_fit, with the first operation for which that is zero.
template <class BlocksPerSm>
void check_fits(const profile& p, BlocksPerSm&& blocks_per_sm) {
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    const operation& op = p.operations[i].work;
    if (op.kind != operation_kind::kernel || blocks_per_sm(op.launch) > 0) continue;
    const launch_shape& l = op.launch;
    throw error(errc::does_not_fit,
                detail::operation_place(p, i) + ": a block of " +
                    std::to_string(l.threads_per_block()) + " threads, " +
                    std::to_string(l.registers_per_thread) + " registers each and " +
                    std::to_string(std::uint64_t{l.static_shared_bytes} + l.dynamic_shared_bytes) +
                    " bytes of shared memory, expected one that fits on an SM of the device");
  }
}

/// Converts a profile to a program: its operations in the order of the capture.
///
/// Differs  a kernel id stands for a symbol and a launch shape: the same function at another size
///          is another kernel for the estimators, because its time differs.
/// Errors   as check_order; bad_profile if there are no operations.
/// Cost     O(n log n) of n operations.
[[nodiscard]] inline program to_program(const profile& p) {
  check_order(p);
  using key = std::pair<std::string_view, std::array<std::uint32_t, 10>>;
  std::map<key, std::uint32_t> kernels;
  std::vector<operation> work;
  work.reserve(p.operations.size());
  std::vector<std::optional<kernel_counters>> counters;
  counters.reserve(p.operations.size());
  for (const profile_operation& op : p.operations) {
    work.push_back(op.work);
    counters.push_back(op.counters);
    if (op.work.kind != operation_kind::kernel) continue;
    const launch_shape& l = op.work.launch;
    const key k{op.symbol,
                {l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z,
                 l.registers_per_thread, l.static_shared_bytes, l.dynamic_shared_bytes,
                 l.cluster_blocks}};
    const auto next = static_cast<std::uint32_t>(kernels.size());
    work.back().kernel = kernel_id{kernels.try_emplace(k, next).first->second};
  }
  program made(p.full_name(), std::move(work), std::move(counters));
  if (p.graph_replay) {
    std::vector<scaling_point> replays = p.graph_replay_by_sms;
    while (!replays.empty() && replays.back().sms >= p.sms) replays.pop_back();
    replays.push_back({p.sms, *p.graph_replay});
    made.set_replays(std::move(replays));
  }
  return made;
}

} // namespace gsched
