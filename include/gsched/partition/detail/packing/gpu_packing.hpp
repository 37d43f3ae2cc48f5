// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/detail/packing/duty_cycle.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Whether the partition with the last group of a full GPU may need the group's remainder.
enum class remainder_use : bool { none, last_partition };

/// GPUs that planners fill with partitions and portions, step by step. A step succeeds only if
/// every portion on that GPU still meets its SLO, with the interference that the step adds.
///
/// Units    partitions are counted in groups of SMs. The partition with the GPU's last group also
///          gets the remainder; its duty cycle counts it only with remainder_use::last_partition.
/// Cost     a step O(partitions of that GPU x find_duty_cycle).
/// Threads  one owner. A copy is a value of its own.
template <interference_model Interference>
class gpu_packing {
public:
  /// All arguments outlive it.
  gpu_packing(const latency_table& t, std::span<const gpu_shape> shapes, const Interference& beside,
              remainder_use use = remainder_use::none)
      : table_(&t), interference_(&beside), use_(use), gpus_(shapes.size()) {
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
    return static_cast<std::uint32_t>(gpus_[gpu].partitions.size());
  }
  /// The part of a partition's cycle that its batches take.
  [[nodiscard]] double occupancy(std::uint32_t gpu, std::uint32_t which) const noexcept {
    return gpus_[gpu].partitions[which].occupancy;
  }

  /// The slow-down of a batch on a new partition of `groups` free groups, beside the partitions
  /// that the GPU has.
  [[nodiscard]] double slowdown_of_new(std::uint32_t gpu, std::uint32_t groups,
                                       const model_demand& part, std::uint32_t batch) const {
    if (std::is_same_v<Interference, no_interference> || gpus_[gpu].partitions.empty()) return 1;
    packed_gpu g = gpus_[gpu];
    packed_partition l;
    l.groups = groups;
    l.parts.push_back(part);
    l.cycle.batches.push_back(batch);
    g.free -= groups;
    g.partitions.push_back(std::move(l));
    std::vector<gpulet> all;
    for (std::size_t i = 0; i < g.partitions.size(); ++i) all.push_back(as_planned(g, gpu, i));
    return (*interference_)(std::span<const gpulet>(all), all.size() - 1, part.model);
  }

  /// Adds a partition of `groups` free groups, 1 or more, for part of a demand. Returns false and
  /// changes nothing if an SLO would be missed, if too few groups are free, or if the last group
  /// would be alone where the shape does not allow it.
  [[nodiscard]] bool try_add(std::uint32_t gpu, std::uint32_t groups, const model_demand& part) {
    packed_gpu& g = gpus_[gpu];
    if (groups == 0 || groups > g.free) return false;
    packed_partition l;
    l.groups = groups;
    l.parts.push_back(part);
    g.free -= groups;
    g.partitions.push_back(std::move(l));
    if ((g.free > 0 || with_last_group(g) < g.partitions.size()) && find_cycles(g)) return true;
    g.partitions.pop_back();
    g.free += groups;
    return false;
  }

  /// Adds a partition on the SMs of another one, for part of a demand: both then run at the same
  /// time. Returns false and changes nothing if an SLO would be missed.
  [[nodiscard]] bool try_share(std::uint32_t gpu, std::uint32_t which, const model_demand& part) {
    packed_gpu& g = gpus_[gpu];
    const std::uint32_t before = g.partitions[which].region;
    if (before == 0) g.partitions[which].region = which + 1;
    packed_partition l;
    l.groups = g.partitions[which].groups;
    l.region = g.partitions[which].region;
    l.parts.push_back(part);
    g.partitions.push_back(std::move(l));
    if (find_cycles(g)) return true;
    g.partitions.pop_back();
    g.partitions[which].region = before;
    return false;
  }

  /// Adds part of a demand to a partition, to the portion of the same model if there is one.
  /// Returns false and changes nothing if an SLO would be missed.
  [[nodiscard]] bool try_join(std::uint32_t gpu, std::uint32_t which, const model_demand& part) {
    packed_gpu& g = gpus_[gpu];
    std::vector<model_demand> before = g.partitions[which].parts;
    std::vector<model_demand>& parts = g.partitions[which].parts;
    const auto same = std::find_if(parts.begin(), parts.end(),
                                   [&](const model_demand& d) { return d.model == part.model; });
    if (same != parts.end())
      same->rate += part.rate;
    else
      parts.push_back(part);
    if (find_cycles(g)) return true;
    g.partitions[which].parts = std::move(before);
    return false;
  }

  [[nodiscard]] partition_plan plan() const {
    partition_plan p;
    for (std::uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      const packed_gpu& g = gpus_[gpu];
      for (std::size_t i = 0; i < g.partitions.size(); ++i)
        p.gpulets.push_back(as_planned(g, gpu, i));
    }
    return p;
  }

private:
  struct packed_partition {
    std::uint32_t groups = 0;
    std::uint32_t region = 0; ///< as gpulet has it
    std::vector<model_demand> parts;
    duty_cycle cycle;
    double occupancy = 0;
  };
  struct packed_gpu {
    gpu_shape shape;
    std::uint32_t free = 0;
    std::vector<packed_partition> partitions;
  };
  static constexpr int most_rounds = 8;

  /// The partition of a full GPU that has its last group: the last one that can. The number of
  /// partitions if none can.
  [[nodiscard]] static std::size_t with_last_group(const packed_gpu& g) noexcept {
    const bool any =
        g.shape.last_alone || g.shape.remainder().count() == 0 || g.shape.groups() == 1;
    for (std::size_t i = g.partitions.size(); i-- > 0;)
      if (any || g.partitions[i].groups > 1) return i;
    return g.partitions.size();
  }

  [[nodiscard]] static gpulet as_planned(const packed_gpu& g, std::uint32_t gpu, std::size_t i) {
    const packed_partition& l = g.partitions[i];
    gpulet out;
    out.gpu = gpu;
    out.sms = g.shape.of_groups(l.groups);
    if (g.free == 0 && l.groups < g.shape.groups()) {
      const std::size_t last = with_last_group(g);
      const bool has_last = last < g.partitions.size() &&
                            (i == last || (l.region != 0 && l.region == g.partitions[last].region));
      if (has_last) out.sms += g.shape.remainder();
    }
    out.region = l.region;
    out.cycle = l.cycle.length;
    for (std::size_t p = 0; p < l.parts.size(); ++p)
      out.portions.push_back({l.parts[p].model, l.parts[p].rate,
                              p < l.cycle.batches.size() ? l.cycle.batches[p] : 1u});
    return out;
  }

  /// Finds duty cycles for all partitions of a GPU. Returns false and changes nothing if there are
  /// none. Slow-downs depend on batches and batches on slow-downs, so it iterates to a fixed point.
  [[nodiscard]] bool find_cycles(packed_gpu& g) const {
    std::vector<std::pair<duty_cycle, double>> before;
    for (const packed_partition& l : g.partitions) before.emplace_back(l.cycle, l.occupancy);
    for (int round = 0; round < most_rounds; ++round) {
      std::vector<gpulet> all;
      for (std::size_t i = 0; i < g.partitions.size(); ++i) all.push_back(as_planned(g, 0, i));
      bool changed = false, late = false;
      for (std::size_t i = 0; i < g.partitions.size() && !late; ++i) {
        packed_partition& l = g.partitions[i];
        std::vector<double> factors;
        for (const model_demand& d : l.parts)
          factors.push_back((*interference_)(std::span<const gpulet>(all), i, d.model));
        const sm_count sms = use_ == remainder_use::none ? g.shape.of_groups(l.groups) : all[i].sms;
        std::optional<duty_cycle> found = find_duty_cycle(*table_, sms, l.parts, factors);
        late = !found;
        if (late) break;
        duration busy{};
        for (std::size_t p = 0; p < l.parts.size(); ++p)
          busy += planned_latency(*table_, l.parts[p].model, found->batches[p], sms, factors[p]);
        changed |= found->batches != l.cycle.batches || found->length != l.cycle.length;
        l.cycle = std::move(*found);
        l.occupancy =
            static_cast<double>(busy.count()) / static_cast<double>(l.cycle.length.count());
      }
      if (!late && !changed) return true;
      if (late) break;
    }
    for (std::size_t i = 0; i < g.partitions.size(); ++i)
      std::tie(g.partitions[i].cycle, g.partitions[i].occupancy) = std::move(before[i]);
    return false;
  }

  const latency_table* table_;
  const Interference* interference_;
  remainder_use use_;
  std::vector<packed_gpu> gpus_;
};

} // namespace gsched::detail
