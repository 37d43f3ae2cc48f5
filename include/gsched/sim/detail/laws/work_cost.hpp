// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/replay_law.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/sim/detail/blocks/sm_resources.hpp>
#include <gsched/sim/detail/laws/kernel_load.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gsched::sim {

/// The cost of one operation on a partition of one size. Blocks that start together end together,
/// after wave_ns if nothing else runs and the maximum number of blocks is resident.
struct work_cost {
  double wave_ns = 0;
  double resident = 1;      ///< largest number of resident blocks
  std::uint64_t blocks = 0; ///< 0: no kernel; it uses no SM resources
  block_need need{};
  kernel_load load{};
  std::uint32_t cluster = 1;
  bool keeps_dispatcher = false; ///< while it has blocks to place, see replay_law
  float makes_late_us = 0;       ///< likewise, each start on other SMs

  [[nodiscard]] bool fits() const noexcept { return blocks == 0 || need.per_sm > 0; }
};

/// The time for one partition size of an operation outside loaded programs, without a table:
/// measured points, log-log lines between them, and whole waves if there are none.
///
/// Differs  scaling_table follows the law below the smallest point and if nothing is measured.
class brief_scaling {
public:
  brief_scaling(const operation& op, sm_count device, std::uint32_t blocks_per_sm,
                const scaling_law& law) noexcept
      : op_(op), device_(device), per_sm_(std::max(blocks_per_sm, 1u)) {
    const auto ns = static_cast<double>(op.expected.count());
    floor_ =
        duration{static_cast<duration::rep>(std::min(law.floor_us * 1e3, law.floor_part * ns))};
  }

  [[nodiscard]] duration at(sm_count n) const noexcept {
    if (n >= device_ || op_.kind != operation_kind::kernel) return whole();
    if (op_.by_sms.empty()) return by_waves(n, device_, whole());
    double sms = device_.count();
    double ns = static_cast<double>(whole().count());
    for (std::size_t i = op_.by_sms.size(); i-- > 0;) {
      const double below = op_.by_sms[i].sms.count();
      const auto below_ns = static_cast<double>(op_.by_sms[i].time.count());
      if (!(below > 0 && below < sms && below_ns > 0 && ns > 0)) continue;
      if (n.count() >= below) {
        const double part = std::log(n.count() / below) / std::log(sms / below);
        return duration{std::llround(below_ns * std::pow(ns / below_ns, part))};
      }
      sms = below;
      ns = below_ns;
    }
    return by_waves(n, sm_count{static_cast<std::uint32_t>(sms)}, duration{std::llround(ns)});
  }
  [[nodiscard]] duration whole() const noexcept { return op_.expected; }
  [[nodiscard]] duration floor() const noexcept { return floor_; }
  [[nodiscard]] sm_count sms() const noexcept { return device_; }

private:
  duration by_waves(sm_count n, sm_count from, duration time) const noexcept {
    const auto waves = [this](sm_count s) {
      const std::uint64_t at_once = std::uint64_t{per_sm_} * std::max(s.count(), 1u);
      return static_cast<double>((std::max<std::uint64_t>(op_.launch.blocks(), 1) + at_once - 1) /
                                 at_once);
    };
    const double work = std::max(0.0, static_cast<double>((time - floor_).count()));
    return floor_ + duration{std::llround(work * waves(n) / waves(from))};
  }

  const operation& op_;
  sm_count device_;
  std::uint32_t per_sm_;
  duration floor_{};
};

/// The time of a copy or a memset: measured, or by its bytes.
[[nodiscard]] inline duration transfer_time(const operation& op, const preset& p) noexcept {
  if (op.expected > duration::zero()) return p.laws.graph.operation(op.expected);
  const copy_engines& e = p.copies;
  double rate = e.on_device_bytes_per_ns;
  duration start = e.on_device;
  if (op.kind == operation_kind::memcpy) {
    switch (op.direction) {
    case copy_direction::host_to_device:
      rate = e.to_device_bytes_per_ns;
      start = e.to_device;
      break;
    case copy_direction::device_to_host:
      rate = e.to_host_bytes_per_ns;
      start = e.to_host;
      break;
    default: rate /= 2; break; // each byte is read and written
    }
  }
  return start + duration{std::llround(static_cast<double>(op.bytes.count()) / rate)};
}

/// Whether it uses a copy engine; all other operations run on the SMs.
[[nodiscard]] inline bool uses_copy_engine(const operation& op) noexcept {
  return op.kind == operation_kind::memcpy && op.direction != copy_direction::device_to_device;
}

/// A kernel with more waves is simulated with this many longer waves: CUDA allows grids of 2^63
/// blocks, and one event for each wave would not end.
inline constexpr std::uint64_t most_waves = std::uint64_t{1} << 16;

/// The cost of an operation; `counters` may be null. `graph` is the law of its program on this
/// partition.
///
/// Order    a kernel alone takes the time of the scaling, adjusted by graph_law, in whatever number
///          of waves it runs.
template <class Scaling>
[[nodiscard]] work_cost cost_of(const operation& op, const kernel_counters* counters,
                                const Scaling& scaling, sm_count partition,
                                const resource_packer& packer, const preset& p,
                                const graph_law& graph) noexcept {
  work_cost c;
  if (op.kind != operation_kind::kernel) {
    c.wave_ns = static_cast<double>(transfer_time(op, p).count());
    c.load.fixed = 1;
    return c;
  }
  c.need = packer.need_of(op.launch, op.max_blocks_per_sm);
  c.blocks = std::max<std::uint64_t>(op.launch.blocks(), 1);
  c.cluster = std::max(op.launch.cluster_blocks, 1u);
  if (!c.fits()) return c;
  c.load = load_of(op, counters, scaling, partition, c.need.per_sm, p.laws.contention, p.laws.graph,
                   graph);
  const std::uint64_t n = partition.count();
  const std::uint64_t most = std::min(c.blocks, n * c.need.per_sm);
  c.resident = static_cast<double>(most);
  c.blocks = std::min(c.blocks, most * most_waves);
  auto waves = static_cast<double>(c.blocks / most);
  if (const std::uint64_t rest = c.blocks % most; rest != 0) {
    const auto last = static_cast<float>(rest);
    const float warps = c.load.warps * std::max(1.0f, last / static_cast<float>(n));
    const float running = last / static_cast<float>(most);
    const auto to_fill = static_cast<float>(p.laws.scaling.warps_to_fill);
    waves += p.laws.contended ? c.load.stretch(warps, running, to_fill) : 1.0f;
  }
  const duration alone = graph.operation(scaling.at(partition));
  c.wave_ns = static_cast<double>(alone.count()) / waves;
  if (!p.laws.contended || !(alone > duration::zero())) return c;
  const auto blocks = static_cast<double>(op.launch.blocks());
  const double use = replay_law::dispatch_use(blocks, to_us(alone));
  c.keeps_dispatcher = replay_law::keeps_dispatcher(use);
  if (c.blocks <= most) return c;
  const double per_sm = blocks / (to_us(alone) * static_cast<double>(n));
  c.load.dispatch = static_cast<float>(use);
  c.makes_late_us = static_cast<float>(replay_law::late_us(use, c.load.warps, per_sm));
  return c;
}

} // namespace gsched::sim
