// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// A plan that also uses the GPUs that `plan` leaves empty: partitions move there. Those of a
/// region move together. Each empty GPU in turn gets, of the GPU with the fewest idle SMs that has
/// more than one to give, the largest that it can make. Partitions keep their order and all but the
/// GPU. Where there is none, it gets a partition of that size for one of the models of the
/// partition with the most, which then has it to itself: that with the highest rate. Such
/// partitions stand last.
///
/// `shapes` are the GPUs. A GPU that can make none of the partitions, or for which no model is
/// left, stays empty.
///
/// Source   gsched's own.
/// Order    idle SMs rising, then by GPU; SMs falling, then the order of the partitions. Models
///          falling, then the order of the partitions.
/// Errors   none. The caller owes: faults_of finds no fault in `plan`. It then finds none in the
///          result, by an interference model that expects no more of fewer neighbours.
/// Cost     O(empty GPUs x partitions^2).
/// Threads  any.
[[nodiscard]] inline partition_plan with_idle_gpus(const partition_plan& plan,
                                                   std::span<const gpu_shape> shapes) {
  struct place {
    std::uint32_t idle; ///< SMs of its GPU
    std::uint32_t gpu;
    std::uint32_t sms;
    std::size_t first; ///< of its partitions
  };
  partition_plan spread = plan;
  const auto is_beside = [](const gpulet& a, const gpulet& b) {
    return a.gpu == b.gpu && share_sms(a, b);
  };
  const auto places = [&] {
    std::vector<place> all;
    const std::vector<std::vector<gpulet>> gpus = by_gpu(spread);
    for (std::size_t i = 0; i < spread.gpulets.size(); ++i) {
      const gpulet& g = spread.gpulets[i];
      const std::vector<sm_count> sizes = occupied_sizes(gpus[g.gpu]);
      if (sizes.size() < 2) continue; // its only one
      if (std::any_of(all.begin(), all.end(),
                      [&](const place& p) { return is_beside(spread.gpulets[p.first], g); }))
        continue;
      std::uint32_t idle = shapes[g.gpu].sms.count();
      for (const sm_count s : sizes) idle -= std::min(idle, s.count());
      all.push_back({idle, g.gpu, g.sms.count(), i});
    }
    std::sort(all.begin(), all.end(), [](const place& a, const place& b) {
      return std::tuple(a.idle, a.gpu, b.sms, a.first) < std::tuple(b.idle, b.gpu, a.sms, b.first);
    });
    return all;
  };
  const auto try_move = [&](std::uint32_t to) {
    for (const place& p : places()) {
      if (!shapes[to].can_make(sm_count{p.sms})) continue;
      const gpulet moved = spread.gpulets[p.first];
      for (std::size_t i = 0; i < spread.gpulets.size(); ++i)
        if (i == p.first || is_beside(spread.gpulets[i], moved)) spread.gpulets[i].gpu = to;
      return true;
    }
    return false;
  };
  const auto try_split = [&](std::uint32_t to) {
    std::size_t from = 0, most = 1;
    for (std::size_t i = 0; i < spread.gpulets.size(); ++i)
      if (const gpulet& g = spread.gpulets[i];
          g.portions.size() > most && shapes[to].can_make(g.sms)) {
        from = i;
        most = g.portions.size();
      }
    if (most == 1) return;
    std::vector<portion>& models = spread.gpulets[from].portions;
    const auto busiest =
        std::max_element(models.begin(), models.end(),
                         [](const portion& a, const portion& b) { return a.rate < b.rate; });
    gpulet alone{to, spread.gpulets[from].sms, spread.gpulets[from].cycle, {*busiest}, 0};
    models.erase(busiest);
    spread.gpulets.push_back(std::move(alone));
  };
  for (std::uint32_t to = 0; to < shapes.size(); ++to) {
    if (std::any_of(spread.gpulets.begin(), spread.gpulets.end(),
                    [&](const gpulet& g) { return g.gpu == to; }))
      continue;
    if (!try_move(to)) try_split(to);
  }
  return spread;
}

} // namespace gsched
