// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/detail/packing/settled_cycles.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

namespace detail {

/// The plan of one GPU, to which with_idle_groups gives the GPU's idle groups.
template <interference_model Interference>
class growing_gpu {
public:
  growing_gpu(const latency_table& t, const gpu_shape& shape, std::span<const gpulet> planned,
              std::span<const std::vector<model_demand>> parts, const Interference& beside)
      : table_(t), shape_(shape), planned_(planned), parts_(parts), beside_(beside),
        here_(planned.begin(), planned.end()) {
    const double before = largest(here_);
    const std::optional<double> settled = settle_cycles(table_, here_, parts_, beside_);
    if (!settled || *settled > before) here_.assign(planned.begin(), planned.end());
    planned_worst_ = largest(here_);
  }

  /// The partitions after all steps that help; as planned if there is none.
  [[nodiscard]] std::vector<gpulet> grown() {
    if (!grow_one()) return {planned_.begin(), planned_.end()};
    while (grow_one()) continue;
    return here_;
  }

private:
  /// Gives groups to the first partition that gains by it, the one with the least slack first.
  [[nodiscard]] bool grow_one() {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < here_.size(); ++i) order.emplace_back(-tightness(here_, i), i);
    std::sort(order.begin(), order.end());
    for (const auto& [slack, i] : order)
      for (sm_count larger = next_size(i, here_[i].sms); larger.count() > 0;
           larger = next_size(i, larger)) {
        std::vector<gpulet> then = here_;
        resize(then, i, larger);
        const std::optional<double> worst = settle_cycles(table_, then, parts_, beside_);
        if (!worst || *worst > planned_worst_ || !(tightness(then, i) < -slack)) continue;
        here_ = std::move(then);
        return true;
      }
    return false;
  }

  /// The next larger size of a partition beside the others; 0: none.
  [[nodiscard]] sm_count next_size(std::size_t i, sm_count from) const {
    std::vector<gpulet> then = here_;
    for (const sm_count step : {shape_.group, shape_.last_group()}) {
      if (step.count() == 0) continue;
      resize(then, i, from + step);
      if (shape_.can_make(occupied_sizes(then))) return from + step;
    }
    return sm_count{0};
  }
  /// Sets the size of a partition, and of those on its SMs.
  static void resize(std::span<gpulet> all, std::size_t i, sm_count sms) noexcept {
    for (std::size_t j = 0; j < all.size(); ++j)
      if (j == i || share_sms(all[j], all[i])) all[j].sms = sms;
  }

  /// The largest ratio of latency to SLO on a partition.
  [[nodiscard]] double tightness(std::span<const gpulet> all, std::size_t i) const {
    double most = 0;
    for (std::size_t p = 0; p < all[i].portions.size(); ++p) {
      const portion& of = all[i].portions[p];
      const duration time =
          planned_latency(table_, of.model, of.batch, all[i].sms, beside_(all, i, of.model));
      most = std::max(most, static_cast<double>((all[i].cycle + time).count()) /
                                static_cast<double>(parts_[i][p].slo.count()));
    }
    return most;
  }

  [[nodiscard]] double largest(std::span<const gpulet> all) const {
    double most = 0;
    for (std::size_t i = 0; i < all.size(); ++i) most = std::max(most, tightness(all, i));
    return most;
  }

  const latency_table& table_;
  const gpu_shape& shape_;
  std::span<const gpulet> planned_;
  std::span<const std::vector<model_demand>> parts_; ///< by partition, then portion
  const Interference& beside_;
  std::vector<gpulet> here_;
  double planned_worst_ = 0; ///< the largest ratio of latency to SLO before any step
};

} // namespace detail

/// A plan whose partitions also use the groups that `plan` leaves idle on their GPUs. Partitions
/// keep their order, models, rates and regions. They only grow, those of a region together; cycles
/// and batches are computed again.
///
/// The partition with the least slack, that is with the largest ratio of promised latency (cycle
/// and batch) to SLO, grows by the fewest groups that lower this ratio; then again the one with the
/// least slack. A step is made only if all SLOs hold under interference and no ratio on that GPU
/// exceeds the largest one as planned: a faster partition slows its neighbours more. So some groups
/// can stay idle. The last group with its remainder is given last. A GPU without a partition stays empty.
///
/// `demands` give the SLO of each model of the plan, `shapes` the GPUs.
///
/// Source   gsched's own.
/// Order    slack rising, then the order of the partitions.
/// Errors   none. The caller owes: faults_of finds no fault in `plan` with `beside`, except for
///          rates; each model of the plan is in `demands`.
/// Cost     O(idle groups x partitions) settled cycles of a GPU; 16 groups: under a millisecond.
/// Threads  any.
template <interference_model Interference = no_interference>
[[nodiscard]] partition_plan
with_idle_groups(const partition_plan& plan, std::span<const model_demand> demands,
                 const latency_table& t, std::span<const gpu_shape> shapes,
                 const Interference& beside = {}) {
  partition_plan grown = plan;
  for (std::uint32_t gpu = 0; gpu < shapes.size(); ++gpu) {
    std::vector<std::size_t> which; // indices into the plan
    std::vector<gpulet> here;
    std::vector<std::vector<model_demand>> parts; // as growing_gpu has them
    for (std::size_t i = 0; i < plan.gpulets.size(); ++i) {
      const gpulet& g = plan.gpulets[i];
      if (g.gpu != gpu) continue;
      which.push_back(i);
      here.push_back(g);
      parts.emplace_back();
      for (const portion& p : g.portions)
        for (const model_demand& d : demands)
          if (d.model == p.model) parts.back().push_back({p.model, p.rate, d.slo});
    }
    if (here.empty()) continue;
    here = detail::growing_gpu(t, shapes[gpu], here, parts, beside).grown();
    for (std::size_t i = 0; i < which.size(); ++i) grown.gpulets[which[i]] = std::move(here[i]);
  }
  return grown;
}

} // namespace gsched
