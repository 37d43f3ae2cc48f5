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
#include <cmath>
#include <cstddef>
#include <cstdint>
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
    most_ = std::max(calm, largest(here_));
    closeness_ = closeness(here_);
  }

  /// The partitions after the last step at which no ratio exceeds `most_`; as planned if there is
  /// none.
  [[nodiscard]] std::vector<gpulet> grown() {
    std::vector<gpulet> last(planned_.begin(), planned_.end());
    while (try_grow())
      if (largest(here_) <= most_) last = here_;
    return last;
  }

private:
  static constexpr double calm = 0.5;        ///< a ratio that every model may reach
  static constexpr double least_gain = 1e-6; ///< less is rounding
  static constexpr double same_gain = 1e-9; ///< so is a relative difference of two gains below this

  /// Makes the step with the largest gain for each SM: of one partition or, where none has a gain,
  /// of two at once, as one alone would slow the other beyond its SLO. False if there is none.
  [[nodiscard]] bool try_grow() {
    double best = 0;
    std::vector<gpulet> to;
    const auto has_gain = [&](std::vector<gpulet>& then, double more_sms) {
      if (!settle_cycles(table_, then, parts_, beside_)) return false;
      const double gain = closeness_ - closeness(then);
      if (gain < least_gain) return false;
      if (gain / more_sms > best * (1 + same_gain)) {
        best = gain / more_sms;
        to = std::move(then);
      }
      return true;
    };
    for (std::size_t i = 0; i < here_.size(); ++i)
      for (sm_count larger = next_size(here_, i, here_[i].sms); larger.count() > 0;
           larger = next_size(here_, i, larger)) {
        std::vector<gpulet> then = here_;
        resize(then, i, larger);
        if (has_gain(then, larger.count() - here_[i].sms.count())) break;
      }
    if (to.empty())
      for (std::size_t i = 0; i < here_.size(); ++i) try_with(i, has_gain);
    if (to.empty()) return false;
    here_ = std::move(to);
    closeness_ = closeness(here_);
    return true;
  }

  /// Asks for the gain of this partition at its next size with each later one at its next size.
  template <class F>
  void try_with(std::size_t i, F has_gain) const {
    const sm_count first = next_size(here_, i, here_[i].sms);
    if (first.count() == 0) return;
    std::vector<gpulet> one = here_;
    resize(one, i, first);
    for (std::size_t k = i + 1; k < one.size(); ++k) {
      const sm_count second = next_size(one, k, one[k].sms);
      if (second.count() == 0 || share_sms(one[k], one[i])) continue;
      std::vector<gpulet> then = one;
      resize(then, k, second);
      has_gain(then, first.count() - here_[i].sms.count() + second.count() - one[k].sms.count());
    }
  }

  /// Whether a partition has the SMs of an earlier one, and grows with that.
  [[nodiscard]] bool is_beside_earlier(std::size_t i) const noexcept {
    return std::any_of(here_.begin(), here_.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const gpulet& g) { return share_sms(g, here_[i]); });
  }

  /// The next larger size of a partition beside the others; 0: none, or it grows with an earlier
  /// one.
  [[nodiscard]] sm_count next_size(std::vector<gpulet> then, std::size_t i, sm_count from) const {
    if (is_beside_earlier(i)) return sm_count{0};
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

  /// Calls f(latency, SLO) for each model of each partition, in ns.
  template <class F>
  void for_each_latency(std::span<const gpulet> all, F f) const {
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t p = 0; p < all[i].portions.size(); ++p) {
        const portion& of = all[i].portions[p];
        const duration time =
            planned_latency(table_, of.model, of.batch, all[i].sms, beside_(all, i, of.model));
        f(static_cast<double>((all[i].cycle + time).count()),
          static_cast<double>(parts_[i][p].slo.count()));
      }
  }
  /// The largest ratio of latency to SLO.
  [[nodiscard]] double largest(std::span<const gpulet> all) const {
    double most = 0;
    for_each_latency(all,
                     [&](double latency, double slo) { most = std::max(most, latency / slo); });
    return most;
  }
  /// The logarithm of the product of latency / slack. A slack below 1 ns counts as 1 ns.
  [[nodiscard]] double closeness(std::span<const gpulet> all) const {
    double sum = 0;
    for_each_latency(all, [&](double latency, double slo) {
      sum += std::log(latency / std::max(1.0, slo - latency));
    });
    return sum;
  }

  const latency_table& table_;
  const gpu_shape& shape_;
  std::span<const gpulet> planned_;
  std::span<const std::vector<model_demand>> parts_; ///< by partition, then portion
  const Interference& beside_;
  std::vector<gpulet> here_;
  double most_ = 0;      ///< the largest ratio of latency to SLO that is allowed
  double closeness_ = 0; ///< of here_
};

} // namespace detail

/// A plan whose partitions also use the groups that `plan` leaves idle on their GPUs. Partitions
/// keep their order, models, rates and regions. They only grow, those of a region together; cycles
/// and batches are computed again.
///
/// The promised latency of a model on a partition is its cycle and batch; the slack is the SLO less
/// this latency. The steps minimise the product of latency / slack over all models of all
/// partitions of the GPU: far from the SLOs a latency that halves counts the same for each model,
/// and near an SLO the slack decides. A step makes one partition larger by the fewest groups that
/// lower the product under interference; where no partition has such a step, two grow at once, each
/// to its next size. The step with the largest fall of its logarithm for each SM is made, until
/// there is none. The last group with its remainder is given last.
///
/// A faster partition slows its neighbours more. All SLOs hold after each step. The result is the
/// plan after the last step at which no ratio of latency to SLO exceeds the largest one of that GPU
/// as planned, or 1/2 if that is more. So some groups can stay idle. A GPU without a partition
/// stays empty.
///
/// `demands` give the SLO of each model of the plan, `shapes` the GPUs.
///
/// Source   gsched's own.
/// Order    fall of the logarithm for each SM, falling; then the order of the partitions.
///          Differences of a millionth, and of a billionth of a fall, count as rounding.
/// Errors   none. The caller owes: faults_of finds no fault in `plan` with `beside`, except for
///          rates; each model of the plan is in `demands`.
/// Cost     O(idle groups x partitions) settled cycles of a GPU, times the groups of a step, and
///          times the partitions where two grow. Five models on an H200: 0.3 ms where one grows at
///          a time.
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
