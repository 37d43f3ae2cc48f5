// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/duty_cycle.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// GPUs as they fill up with partitions and models: what planners build their plans with. Each step
/// is taken only if nobody on that GPU gets late by it, with the interference that it brings.
///
/// Units    partitions are counted in groups of SMs. Who takes a GPU's last group has what its
///          division left over as well, but is counted on for whole groups alone.
/// Cost     a step O(partitions of that GPU x find_duty_cycle).
/// Threads  one owner.
template <interference_model Interference>
class packing {
public:
  /// All of these outlive it.
  packing(const latency_table& t, std::span<const gpu_shape> shapes, const Interference& beside)
      : table_(t), interference_(beside), gpus_(shapes.size()) {
    for (std::size_t g = 0; g < shapes.size(); ++g) {
      gpus_[g].shape = shapes[g];
      gpus_[g].free = shapes[g].groups();
    }
  }

  [[nodiscard]] std::uint32_t gpus() const noexcept {
    return static_cast<std::uint32_t>(gpus_.size());
  }
  [[nodiscard]] const gpu_shape& shape(std::uint32_t gpu) const noexcept {
    return gpus_[gpu].shape;
  }
  [[nodiscard]] std::uint32_t free_groups(std::uint32_t gpu) const noexcept {
    return gpus_[gpu].free;
  }
  [[nodiscard]] std::uint32_t gpulets(std::uint32_t gpu) const noexcept {
    return static_cast<std::uint32_t>(gpus_[gpu].slots.size());
  }
  /// How much of its cycles a partition's batches take.
  [[nodiscard]] double occupancy(std::uint32_t gpu, std::uint32_t which) const noexcept {
    return gpus_[gpu].slots[which].occupancy;
  }

  /// A new partition of `groups` free groups, 1 or more, for part of a demand.
  [[nodiscard]] bool try_add(std::uint32_t gpu, std::uint32_t groups, const demand& part) {
    one_gpu& g = gpus_[gpu];
    if (groups == 0 || groups > g.free) return false;
    slot l;
    l.groups = groups;
    l.parts.push_back(part);
    g.free -= groups;
    g.slots.push_back(std::move(l));
    if (settle(g)) return true;
    g.slots.pop_back();
    g.free += groups;
    return false;
  }

  /// Part of a demand takes turns with who is on that partition; more of a model that is there
  /// joins it.
  [[nodiscard]] bool try_join(std::uint32_t gpu, std::uint32_t which, const demand& part) {
    one_gpu& g = gpus_[gpu];
    std::vector<demand> before = g.slots[which].parts;
    std::vector<demand>& parts = g.slots[which].parts;
    const auto same = std::find_if(parts.begin(), parts.end(),
                                   [&](const demand& d) { return d.model == part.model; });
    if (same != parts.end())
      same->rate += part.rate;
    else
      parts.push_back(part);
    if (settle(g)) return true;
    g.slots[which].parts = std::move(before);
    return false;
  }

  [[nodiscard]] partition_plan plan() const {
    partition_plan p;
    for (std::uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      const one_gpu& g = gpus_[gpu];
      for (std::size_t i = 0; i < g.slots.size(); ++i) p.gpulets.push_back(as_planned(g, gpu, i));
    }
    return p;
  }

private:
  struct slot {
    std::uint32_t groups = 0;
    std::vector<demand> parts;
    duty_cycle cycle;
    double occupancy = 0;
  };
  struct one_gpu {
    gpu_shape shape;
    std::uint32_t free = 0;
    std::vector<slot> slots;
  };
  static constexpr int most_rounds = 8;

  [[nodiscard]] static gpulet as_planned(const one_gpu& g, std::uint32_t gpu, std::size_t i) {
    const slot& l = g.slots[i];
    gpulet out;
    out.gpu = gpu;
    out.sms = g.shape.of_groups(l.groups);
    if (g.free == 0 && i + 1 == g.slots.size() && l.groups < g.shape.groups())
      out.sms += g.shape.rest();
    out.cycle = l.cycle.length;
    for (std::size_t p = 0; p < l.parts.size(); ++p)
      out.portions.push_back({l.parts[p].model, l.parts[p].rate,
                              p < l.cycle.batches.size() ? l.cycle.batches[p] : 1u});
    return out;
  }

  /// Finds cycles for all partitions of a GPU; false, and all is as it was, if there are none. What
  /// they do to each other depends on their batches and these on that: so until nothing changes.
  [[nodiscard]] bool settle(one_gpu& g) const {
    std::vector<std::pair<duty_cycle, double>> before;
    for (const slot& l : g.slots) before.emplace_back(l.cycle, l.occupancy);
    for (int round = 0; round < most_rounds; ++round) {
      std::vector<gpulet> all;
      for (std::size_t i = 0; i < g.slots.size(); ++i) all.push_back(as_planned(g, 0, i));
      bool changed = false, late = false;
      for (std::size_t i = 0; i < g.slots.size() && !late; ++i) {
        slot& l = g.slots[i];
        std::vector<double> factors;
        for (const demand& d : l.parts)
          factors.push_back(interference_(std::span<const gpulet>(all), i, d.model));
        std::optional<duty_cycle> found =
            find_duty_cycle(table_, g.shape.of_groups(l.groups), l.parts, factors);
        late = !found;
        if (late) break;
        duration busy{};
        for (std::size_t p = 0; p < l.parts.size(); ++p)
          busy += planned_latency(table_, l.parts[p].model, found->batches[p],
                                  g.shape.of_groups(l.groups), factors[p]);
        changed |= found->batches != l.cycle.batches || found->length != l.cycle.length;
        l.cycle = std::move(*found);
        l.occupancy =
            static_cast<double>(busy.count()) / static_cast<double>(l.cycle.length.count());
      }
      if (!late && !changed) return true;
      if (late) break;
    }
    for (std::size_t i = 0; i < g.slots.size(); ++i)
      std::tie(g.slots[i].cycle, g.slots[i].occupancy) = std::move(before[i]);
    return false;
  }

  const latency_table& table_;
  const Interference& interference_;
  std::vector<one_gpu> gpus_;
};

} // namespace gsched
