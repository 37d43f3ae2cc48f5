// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/preempt/colocate/one_corunner.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/plan.hpp>
#include <gsched/preempt/colocate/program.hpp>
#include <gsched/sim/padded.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched::sim {

/// Pads real-time programs with best-effort programs for a simulated device: ordinary programs
/// whose padded kernels take the times that padded_kernels predicts.
///
/// Differs  one co-runner at a time, and only whole operations of it.
/// Cost     set-up: about 10 us a kernel.
/// Errors   those of estimated_pad_program and of padded_kernels.
/// Threads  one owner.
class program_padder {
public:
  explicit program_padder(const preset& p, level_rule rule = level_rule::own)
      : preset_(p), kernels_(p) {
    how_.sms = p.sms;
    how_.level = rule;
    how_.parts = 1;
  }

  /// Adds a program, which outlives the padder, and returns its index.
  [[nodiscard]] std::size_t add(const program& p) {
    models_.push_back({&p, estimated_pad_program(p, preset_.sm, preset_.sms)});
    return models_.size() - 1;
  }

  /// The co-runner's operations, from `from` on, that the whole real-time program can carry, within
  /// the limits of the two programs if there are any.
  [[nodiscard]] std::vector<pad_part> plan(std::size_t real_time, std::size_t corunner,
                                           std::uint32_t from, const pad_limits* limits = nullptr) {
    const pad_program& host = models_[real_time].kernels;
    const pad_program& other = models_[corunner].kernels;
    const auto level = [&](std::size_t i, std::uint32_t k) {
      const kernel_variant& a = host.variants(i).front();
      const kernel_variant& b = other.variants(k).front();
      return std::min({a.level, b.level, max_blocks_per_sm(preset_.sm, proxy_shape(a, b))});
    };
    return plan_one_corunner(host, other, from, how_, level, limits);
  }

  /// The real-time program with the first parts of a plan.
  [[nodiscard]] program make(std::size_t real_time, std::size_t corunner,
                             std::span<const pad_part> parts) {
    const program& host = *models_[real_time].of;
    const program& other = *models_[corunner].of;
    std::vector<operation> operations(host.operations().begin(), host.operations().end());
    std::vector<std::optional<kernel_counters>> counters;
    for (std::size_t i = 0; i < host.size(); ++i) counters.push_back(counters_of(host, i));
    for (const pad_part& p : parts) {
      const operation& alone = host.operations()[p.host_operation];
      const operation& carried = other.operations()[p.corunner_operation];
      const padded_work corunners[] = {{carried, demand_in(other, p.corunner_operation), p.blocks}};
      const auto blocks = static_cast<std::uint32_t>(alone.launch.blocks());
      const padded_times t =
          kernels_.predict({alone, demand_in(host, p.host_operation), blocks}, corunners, p.level);
      operation& both = operations[p.host_operation];
      both.launch = shape_of(alone.launch, carried.launch);
      both.launch.grid = {blocks + p.blocks, 1, 1};
      both.max_blocks_per_sm = p.level;
      both.expected = std::max(alone.expected, alone.expected + t.together - t.alone);
      both.by_sms.clear();
      both.kernel = no_kernel;
      counters[p.host_operation].reset(); // it is another kernel
    }
    const std::uint32_t from = parts.empty() ? 0 : parts.front().corunner_operation;
    program made(host.name() + " with " + other.name() + " from " + std::to_string(from),
                 std::move(operations), std::move(counters));
    made.keep_whole();
    return made;
  }

  /// The additional time of the padded program over the real-time program alone.
  [[nodiscard]] duration longer(std::size_t real_time, const program& padded) const noexcept {
    return padded.expected() - models_[real_time].of->expected();
  }

private:
  struct model {
    const program* of;
    pad_program kernels;
  };

  [[nodiscard]] static launch_shape shape_of(const launch_shape& a,
                                             const launch_shape& b) noexcept {
    return detail::shape_of(
        static_cast<std::uint32_t>(std::max(a.threads_per_block(), b.threads_per_block())),
        std::max(a.registers_per_thread, b.registers_per_thread),
        std::max(a.static_shared_bytes + a.dynamic_shared_bytes,
                 b.static_shared_bytes + b.dynamic_shared_bytes));
  }

  [[nodiscard]] static std::optional<kernel_counters> counters_of(const program& p, std::size_t i) {
    const kernel_counters* const c = p.counters(i);
    return c != nullptr ? std::optional(*c) : std::nullopt;
  }
  [[nodiscard]] std::optional<demand> demand_in(const program& p, std::size_t i) const {
    const kernel_counters* const c = p.counters(i);
    if (c == nullptr) return std::nullopt;
    const duration alone = preset_.laws.graph.operation(p.operations()[i].expected);
    return demand_of(*c, profiled_over(c->us, to_us(alone)));
  }

  preset preset_;
  padded_kernels kernels_;
  pad_options how_;
  std::deque<model> models_;
};

} // namespace gsched::sim
