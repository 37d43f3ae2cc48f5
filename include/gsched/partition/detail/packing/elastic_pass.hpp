// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity_curves.hpp>
#include <gsched/partition/detail/packing/duty_cycle.hpp>
#include <gsched/partition/detail/packing/gpu_packing.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/partition/planner.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Options of one pass.
struct elastic_options {
  std::span<const std::size_t> order{}; ///< of the demands: indices
  double tolerance = 0.02; ///< sizes within this part of the best rate per group count as equal
  bool whole_gpus_first = false; ///< a demand that fills empty GPUs gets them before anything else
  sm_sharing sharing = sm_sharing::never;
};

/// One greedy pass of elastic_planner, which documents the algorithm.
///
/// Cost     O(partitions x GPUs x groups), plus duty cycles where models share a partition.
/// Threads  one owner.
template <interference_model Interference>
class elastic_pass {
public:
  /// `curves` are of the same demands. All arguments outlive it.
  elastic_pass(const latency_table& t, std::span<const model_demand> demands,
               std::span<const gpu_shape> shapes, const Interference& beside,
               const capacity_curves& curves, const elastic_options& options)
      : table_(t), demands_(demands), curves_(curves), options_(options), beside_(&beside),
        gpus_(t, shapes, beside, remainder_use::last_partition), placed_(shapes.size()) {
    for (std::size_t k = 0; k < curves.kinds(); ++k) {
      const std::uint32_t groups = curves.shape(k).groups();
      const std::span<const std::size_t> order = options_.order;
      std::vector<double>& most = later_.emplace_back((order.size() + 1) * groups, 0.0);
      for (std::size_t at = order.size(); at-- > 0;)
        for (std::uint32_t n = 1; n <= groups; ++n)
          most[at * groups + n - 1] = std::max(most[(at + 1) * groups + n - 1],
                                               use(k, order[at], n, demands[order[at]].rate));
    }
  }

  [[nodiscard]] std::optional<partition_plan> run() {
    for (at_ = 0; at_ < options_.order.size(); ++at_) {
      const std::size_t d = options_.order[at_];
      for (double served = 0; !is_served(demands_[d].rate, served);) {
        const double more = place_some(d, demands_[d].rate - served);
        if (!(more > 0)) return std::nullopt;
        served += more;
      }
    }
    return gpus_.plan();
  }
  /// After a run without a plan: the place in the order of the demand that found no room.
  [[nodiscard]] std::size_t failed_at() const noexcept { return at_; }

private:
  static constexpr bool alone = std::is_same_v<Interference, no_interference>;
  static constexpr double most_more = 0.08, least_more = 0.005; ///< extra rate, part of the own
  static constexpr double reduced = 0.9; ///< part of a rate tried where neighbours would be late
  static constexpr double least_shared = 0.02;  ///< of a demand, on the SMs of another partition
  static constexpr double reduced_shared = 0.7; ///< from one rate that is tried there to the next
  static constexpr std::uint32_t most_sharers = 2; ///< beside the first partition of a region

  /// A free range of groups for a partition.
  struct choice {
    double waste = 0; ///< groups
    std::uint32_t left = 0, groups = 0, gpu = 0;
  };
  /// A partition that was placed.
  struct placed_partition {
    std::uint32_t groups = 0;
    double load = 0; ///< the busy part of its time is at least that, without a remainder
    std::vector<model_demand> parts{};
    std::vector<double> slowdowns{}; ///< assumed, by part
    std::uint32_t sharers = 0;       ///< other partitions on its SMs
  };

  /// Places a part of a demand's rate and returns that part; 0 if no placement is possible.
  [[nodiscard]] double place_some(std::size_t d, double wanted) {
    if (options_.whole_gpus_first)
      if (const double more = fill_gpu(d, wanted); more > 0) return more;
    if (!alone)
      if (const double more = raise_own(d, wanted); more > 0) return more;
    std::vector<choice> choices = fits(d, wanted);
    const std::vector<choice> rests = largest();
    choices.insert(choices.end(), rests.begin(), rests.end());
    if (choices.empty()) return options_.sharing == sm_sharing::never ? 0 : share(d, wanted);
    if (const model_demand part = part_on(d, wanted, choices[0]); part.rate > 0 && join(d, part))
      return part.rate;
    if (options_.sharing == sm_sharing::first)
      if (const double more = share(d, wanted); more > 0) return more;
    for (const choice& c : choices)
      if (const double more = add(d, part_on(d, wanted, c), c); more > 0) return more;
    if (const double more = alone ? 0 : place_smaller(d, wanted, rests); more > 0) return more;
    return options_.sharing == sm_sharing::last ? share(d, wanted) : 0;
  }

  /// Adds a partition on the SMs of another one where that serves most of the rate. Returns the
  /// added rate.
  [[nodiscard]] double share(std::size_t d, double wanted) {
    if (!predicts(demands_[d].model)) return 0;
    double most = 0;
    std::optional<gpu_packing<Interference>> best;
    std::pair<std::uint32_t, std::uint32_t> at;
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g)
      for (std::uint32_t i = 0; i < placed_[g].size(); ++i) {
        const placed_partition& p = placed_[g][i];
        if (p.sharers >= most_sharers ||
            !std::all_of(p.parts.begin(), p.parts.end(),
                         [&](const model_demand& o) { return predicts(o.model); }))
          continue;
        model_demand part = demands_[d];
        part.rate = std::min(wanted, curves_.solo_rate(curves_.kind_of(g), d, p.groups));
        for (; part.rate > std::max(most, least_shared * demands_[d].rate);
             part.rate *= reduced_shared) {
          gpu_packing<Interference> then = gpus_;
          if (!then.try_share(g, i, part)) continue;
          most = part.rate;
          best = std::move(then);
          at = {g, i};
          break;
        }
      }
    if (!best) return 0;
    gpus_ = std::move(*best);
    const auto [g, i] = at;
    model_demand part = demands_[d];
    part.rate = most;
    placed_partition added = with({placed_[g][i].groups}, g, d, part);
    added.sharers = most_sharers; // others join the first partition of the region
    ++placed_[g][i].sharers;
    placed_[g].push_back(std::move(added));
    return most;
  }
  [[nodiscard]] bool predicts(std::size_t model) const {
    return predicts_shared_sms(*beside_, model);
  }

  /// Places a partition on an empty GPU, all of which it fills. Returns the added rate.
  [[nodiscard]] double fill_gpu(std::size_t d, double wanted) {
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g) {
      const std::size_t k = curves_.kind_of(g);
      const choice all{0, 0, curves_.shape(k).groups(), g};
      if (gpus_.gpulets(g) > 0 || wanted < curves_.rate(k, d, all.groups)) continue;
      if (const double more = add(d, part_on(d, wanted, all), all); more > 0) return more;
    }
    return 0;
  }

  /// Raises the rate of the demand's own partitions on full GPUs, where the actual neighbours slow
  /// them less than assumed. Returns the added rate.
  [[nodiscard]] double raise_own(std::size_t d, double wanted) {
    double all = 0;
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g)
      for (std::uint32_t i = 0; i < placed_[g].size() && gpus_.free_groups(g) == 0; ++i) {
        placed_partition& p = placed_[g][i];
        if (p.parts.size() > 1 || p.parts[0].model != demands_[d].model) continue;
        for (double more = most_more * p.parts[0].rate; more > least_more * p.parts[0].rate;
             more /= 2) {
          model_demand part = demands_[d];
          part.rate = std::min(more, wanted - all);
          if (!(part.rate > 0)) return all;
          if (!gpus_.try_join(g, i, part)) continue;
          p = with(p, g, d, part);
          all += part.rate;
        }
      }
    return all;
  }

  /// Placements of the smallest sufficient size, or of an efficient size, least waste first. One
  /// that fills a GPU can be a group smaller, thanks to the remainder.
  [[nodiscard]] std::vector<choice> fits(std::size_t d, double wanted) const {
    std::vector<choice> all;
    for (std::size_t k = 0; k < curves_.kinds(); ++k) {
      const std::uint32_t efficient = curves_.efficient(k, d);
      if (efficient == 0) continue;
      const std::uint32_t required = curves_.required(k, d, wanted);
      const double enough = curves_.rate(k, d, efficient) / efficient * (1 - options_.tolerance);
      const std::vector<double> waste = wasted_groups(k, d, wanted);
      for (std::uint32_t g = 0; g < gpus_.gpus(); ++g) {
        if (curves_.kind_of(g) != k) continue;
        const std::uint32_t free = gpus_.free_groups(g);
        if (free > 0 && free + 1 == required && curves_.filling_rate(k, d, free) >= wanted)
          all.push_back({-waste[free], 0, free, g});
        for (std::uint32_t n = 1; n <= free; ++n) {
          if (required <= efficient ? n != required
                                    : n > required || curves_.rate(k, d, n) / n < enough)
            continue;
          all.push_back({waste[free - n] - waste[free], free - n, n, g});
        }
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const choice& a, const choice& b) {
      return std::pair(a.waste, a.left) < std::pair(b.waste, b.left);
    });
    return all;
  }

  /// The whole free range of each GPU, the largest first.
  [[nodiscard]] std::vector<choice> largest() const {
    std::vector<choice> all;
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g)
      if (gpus_.free_groups(g) > 0) all.push_back({0, 0, gpus_.free_groups(g), g});
    std::stable_sort(all.begin(), all.end(),
                     [](const choice& a, const choice& b) { return a.groups > b.groups; });
    return all;
  }

  /// Places a partition where larger ones would make existing partitions miss an SLO: tries falling
  /// sizes, each also at a reduced rate.
  [[nodiscard]] double place_smaller(std::size_t d, double wanted, std::span<const choice> rests) {
    for (choice c : rests)
      for (; c.groups > 0; --c.groups) {
        model_demand part = part_on(d, wanted, c);
        if (const double more = add(d, part, c); more > 0) return more;
        part.rate *= reduced;
        if (const double more = add(d, part, c); more > 0) return more;
      }
    return 0;
  }

  /// The part of a demand that a partition of the choice's size serves.
  [[nodiscard]] model_demand part_on(std::size_t d, double wanted, const choice& c) const noexcept {
    model_demand part = demands_[d];
    const std::size_t k = curves_.kind_of(c.gpu);
    const bool fills = c.groups == gpus_.free_groups(c.gpu);
    part.rate = std::min(wanted, fills ? curves_.filling_rate(k, d, c.groups)
                                       : curves_.rate(k, d, c.groups));
    return part;
  }

  [[nodiscard]] double add(std::size_t d, const model_demand& part, const choice& c) {
    if (!(part.rate > 0) || !gpus_.try_add(c.gpu, c.groups, part)) return 0;
    placed_[c.gpu].push_back(with({c.groups}, c.gpu, d, part));
    return part.rate;
  }

  /// Adds a part of a demand to the first partition where all SLOs hold, with the actual and with
  /// the assumed slow-downs.
  [[nodiscard]] bool join(std::size_t d, const model_demand& part) {
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g)
      for (std::uint32_t i = 0; i < placed_[g].size(); ++i) {
        if (placed_[g][i].load + load_of(g, d, placed_[g][i].groups, part.rate) > 1) continue;
        placed_partition then = with(placed_[g][i], g, d, part);
        if (!alone && gpus_.free_groups(g) > 0 &&
            !find_duty_cycle(table_, gpus_.shape(g).of_groups(then.groups), then.parts,
                             then.slowdowns))
          continue;
        if (!gpus_.try_join(g, i, part)) continue;
        placed_[g][i] = std::move(then);
        return true;
      }
    return false;
  }

  [[nodiscard]] placed_partition with(placed_partition p, std::uint32_t g, std::size_t d,
                                      const model_demand& part) const {
    p.load += load_of(g, d, p.groups, part.rate);
    const auto same = std::find_if(p.parts.begin(), p.parts.end(),
                                   [&](const model_demand& o) { return o.model == part.model; });
    if (same != p.parts.end()) {
      same->rate += part.rate;
    } else {
      p.parts.push_back(part);
      p.slowdowns.push_back(curves_.slowdown(curves_.kind_of(g), d, p.groups));
    }
    return p;
  }

  /// The part of a partition's time that a rate takes at least, without a remainder; time sharing
  /// adds to it.
  [[nodiscard]] double load_of(std::uint32_t g, std::size_t d, std::uint32_t n,
                               double rate) const noexcept {
    const double most = curves_.solo_rate(curves_.kind_of(g), d, n);
    return most > 0 ? rate / most : 2;
  }

  /// By number of free groups of a GPU: how many of them neither this demand nor a later one can
  /// use efficiently. An empty GPU wastes none.
  [[nodiscard]] std::vector<double> wasted_groups(std::size_t k, std::size_t d,
                                                  double wanted) const {
    const std::uint32_t groups = curves_.shape(k).groups();
    std::vector<double> each(groups + 1, 0.0), used(groups + 1, 0.0), waste(groups + 1, 0.0);
    for (std::uint32_t n = 1; n <= groups; ++n)
      each[n] = std::max(later_[k][(at_ + 1) * groups + n - 1], use(k, d, n, wanted));
    for (std::uint32_t n = 1; n < groups; ++n) {
      for (std::uint32_t m = 1; m <= n; ++m) used[n] = std::max(used[n], used[n - m] + each[m]);
      waste[n] = n - used[n];
    }
    return waste;
  }
  /// The use of n groups to a demand, counted in groups of the most efficient size.
  [[nodiscard]] double use(std::size_t k, std::size_t d, std::uint32_t n,
                           double wanted) const noexcept {
    const std::uint32_t efficient = curves_.efficient(k, d);
    if (efficient == 0) return 0;
    return std::min(wanted, curves_.rate(k, d, n)) * efficient / curves_.rate(k, d, efficient);
  }

  const latency_table& table_;
  std::span<const model_demand> demands_;
  const capacity_curves& curves_;
  elastic_options options_;
  const Interference* beside_;
  std::size_t at_ = 0; ///< index into the order
  gpu_packing<Interference> gpus_;
  std::vector<std::vector<placed_partition>> placed_; ///< by GPU
  std::vector<std::vector<double>>
      later_; ///< by kind; then place in order, groups: best use from there
};

} // namespace gsched::detail
