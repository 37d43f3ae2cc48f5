// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/duty_cycle.hpp>
#include <gsched/partition/detail/packing.hpp>
#include <gsched/partition/detail/size_curves.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched {

/// How partitions are dealt out.
struct elastic_rules {
  bool take_turns = true;                  ///< models on one partition
  std::uint32_t most_gpulets = 0xffffffff; ///< on a GPU
  double as_good = 0.02; ///< a size whose groups do that much less than the best ones' is as good
};

/// One pass of elastic partitioning, as greedy_partitioning describes it.
///
/// Cost     O(pieces x (GPUs x groups + partitions)), and duty cycles where two may share.
/// Threads  one owner.
template <interference_model Interference>
class elastic_pass {
public:
  /// Demands are served in their order; the curves are theirs. All outlive it.
  elastic_pass(const latency_table& t, std::span<const demand> demands,
               std::span<const gpu_shape> shapes, const Interference& beside,
               const size_curves& curves, const elastic_rules& rules)
      : table_(t), demands_(demands), curves_(curves), rules_(rules), gpus_(t, shapes, beside),
        there_(shapes.size()) {
    for (std::size_t k = 0; k < curves.kinds(); ++k) {
      const std::uint32_t groups = curves.shape(k).groups();
      std::vector<double>& most = later_.emplace_back((demands.size() + 1) * groups, 0.0);
      for (std::size_t d = demands.size(); d-- > 0;)
        for (std::uint32_t n = 1; n <= groups; ++n)
          most[d * groups + n - 1] =
              std::max(most[(d + 1) * groups + n - 1], use(k, d, n, demands[d].rate));
    }
  }

  [[nodiscard]] std::optional<partition_plan> run() {
    for (std::size_t d = 0; d < demands_.size(); ++d)
      for (double served = 0; !is_served(demands_[d].rate, served);) {
        const double more = serve_some(d, demands_[d].rate - served);
        if (!(more > 0)) return std::nullopt;
        served += more;
      }
    return gpus_.plan();
  }

private:
  static constexpr bool alone = std::is_same_v<Interference, no_interference>;
  static constexpr double most_more = 0.08, least_more = 0.005; ///< of a partition's rate
  static constexpr double less = 0.9; ///< of a rate that others leave no room for

  struct choice {
    double waste = 0; ///< groups
    std::uint32_t left = 0, groups = 0, gpu = 0;
  };
  struct partition {
    std::uint32_t groups = 0;
    double load = 0; ///< at least that part of its time is taken
    std::vector<demand> parts{};
    std::vector<double> slowed{}; ///< how they are counted on to be
  };

  /// How much of it one more partition, or a turn on one, serves; 0: there is no way.
  [[nodiscard]] double serve_some(std::size_t d, double wanted) {
    if (!alone)
      if (const double more = fill_up(d, wanted); more > 0) return more;
    std::vector<choice> choices = fits(d, wanted);
    const std::vector<choice> rests = largest();
    choices.insert(choices.end(), rests.begin(), rests.end());
    if (choices.empty()) return 0;
    if (rules_.take_turns)
      if (const demand part = part_on(d, wanted, choices[0]); part.rate > 0 && join(d, part))
        return part.rate;
    for (const choice& c : choices)
      if (const double more = add(d, part_on(d, wanted, c), c); more > 0) return more;
    return alone ? 0 : beside_others(d, wanted, rests);
  }

  /// More on its own partitions, where a GPU is full and its neighbours are milder than counted on.
  [[nodiscard]] double fill_up(std::size_t d, double wanted) {
    double all = 0;
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g)
      for (std::uint32_t i = 0; i < there_[g].size() && gpus_.free_groups(g) == 0; ++i) {
        partition& p = there_[g][i];
        if (p.parts.size() > 1 || p.parts[0].model != demands_[d].model) continue;
        for (double more = most_more * p.parts[0].rate; more > least_more * p.parts[0].rate;
             more /= 2) {
          demand part = demands_[d];
          part.rate = std::min(more, wanted - all);
          if (!(part.rate > 0)) return all;
          if (!gpus_.try_join(g, i, part)) continue;
          p = with(p, g, d, part);
          all += part.rate;
        }
      }
    return all;
  }

  /// The ideal size, or one as good, where the least is wasted.
  [[nodiscard]] std::vector<choice> fits(std::size_t d, double wanted) const {
    std::vector<choice> all;
    for (std::size_t k = 0; k < curves_.kinds(); ++k) {
      const std::uint32_t efficient = curves_.efficient(k, d);
      if (efficient == 0) continue;
      const std::uint32_t required = curves_.required(k, d, wanted);
      const double enough = curves_.rate(k, d, efficient) / efficient * (1 - rules_.as_good);
      const std::vector<double> lost = lost_of(k, d, wanted);
      for (std::uint32_t g = 0; g < gpus_.gpus(); ++g) {
        if (curves_.kind_of(g) != k || gpus_.gpulets(g) >= rules_.most_gpulets) continue;
        const std::uint32_t free = gpus_.free_groups(g);
        // The last partition that a GPU may have takes all that is left.
        const bool last = gpus_.gpulets(g) > 0 && gpus_.gpulets(g) + 1 == rules_.most_gpulets;
        for (std::uint32_t n = 1; n <= free; ++n) {
          if (required <= efficient ? n != required
                                    : n > required || curves_.rate(k, d, n) / n < enough)
            continue;
          const std::uint32_t left = last ? 0 : free - n;
          all.push_back({lost[left] - lost[free], left, free - left, g});
        }
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const choice& a, const choice& b) {
      return std::pair(a.waste, a.left) < std::pair(b.waste, b.left);
    });
    return all;
  }

  /// All that is left of a GPU, the most first.
  [[nodiscard]] std::vector<choice> largest() const {
    std::vector<choice> all;
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g)
      if (gpus_.free_groups(g) > 0 && gpus_.gpulets(g) < rules_.most_gpulets)
        all.push_back({0, 0, gpus_.free_groups(g), g});
    std::stable_sort(all.begin(), all.end(),
                     [](const choice& a, const choice& b) { return a.groups > b.groups; });
    return all;
  }

  /// Where those who are there would be late beside any of these: smaller ones, and a little less.
  [[nodiscard]] double beside_others(std::size_t d, double wanted, std::span<const choice> rests) {
    for (choice c : rests)
      for (; c.groups > 0; --c.groups) {
        demand part = part_on(d, wanted, c);
        if (const double more = add(d, part, c); more > 0) return more;
        part.rate *= less;
        if (const double more = add(d, part, c); more > 0) return more;
      }
    return 0;
  }

  [[nodiscard]] demand part_on(std::size_t d, double wanted, const choice& c) const noexcept {
    demand part = demands_[d];
    part.rate = std::min(wanted, curves_.rate(curves_.kind_of(c.gpu), d, c.groups));
    return part;
  }

  [[nodiscard]] double add(std::size_t d, const demand& part, const choice& c) {
    if (!(part.rate > 0) || !gpus_.try_add(c.gpu, c.groups, part)) return 0;
    there_[c.gpu].push_back(with({c.groups}, c.gpu, d, part));
    return part.rate;
  }

  /// Takes turns on the first partition where all are in time, also beside whom is counted on.
  [[nodiscard]] bool join(std::size_t d, const demand& part) {
    for (std::uint32_t g = 0; g < gpus_.gpus(); ++g)
      for (std::uint32_t i = 0; i < there_[g].size(); ++i) {
        if (there_[g][i].load + load_of(g, d, there_[g][i].groups, part.rate) > 1) continue;
        partition then = with(there_[g][i], g, d, part);
        if (!alone && gpus_.free_groups(g) > 0 &&
            !find_duty_cycle(table_, gpus_.shape(g).of_groups(then.groups), then.parts,
                             then.slowed))
          continue;
        if (!gpus_.try_join(g, i, part)) continue;
        there_[g][i] = std::move(then);
        return true;
      }
    return false;
  }

  [[nodiscard]] partition with(partition p, std::uint32_t g, std::size_t d,
                               const demand& part) const {
    p.load += load_of(g, d, p.groups, part.rate);
    const auto same = std::find_if(p.parts.begin(), p.parts.end(),
                                   [&](const demand& o) { return o.model == part.model; });
    if (same != p.parts.end()) {
      same->rate += part.rate;
    } else {
      p.parts.push_back(part);
      p.slowed.push_back(curves_.slowed(curves_.kind_of(g), d, p.groups));
    }
    return p;
  }

  /// Of a partition's time; taking turns only makes it more.
  [[nodiscard]] double load_of(std::uint32_t g, std::size_t d, std::uint32_t n,
                               double rate) const noexcept {
    const double most = curves_.most(curves_.kind_of(g), d, n);
    return most > 0 ? rate / most : 2;
  }

  /// By groups that are left of a GPU: how many of them are as good as lost, whoever of this demand
  /// and those after it gets them. A GPU that nobody is on has lost none.
  [[nodiscard]] std::vector<double> lost_of(std::size_t k, std::size_t d, double wanted) const {
    const std::uint32_t groups = curves_.shape(k).groups();
    std::vector<double> each(groups + 1, 0.0), used(groups + 1, 0.0), lost(groups + 1, 0.0);
    for (std::uint32_t n = 1; n <= groups; ++n)
      each[n] = std::max(later_[k][(d + 1) * groups + n - 1], use(k, d, n, wanted));
    for (std::uint32_t n = 1; n < groups; ++n) {
      for (std::uint32_t m = 1; m <= n; ++m) used[n] = std::max(used[n], used[n - m] + each[m]);
      lost[n] = n - used[n];
    }
    return lost;
  }
  /// What it is worth, in groups that are as efficient as can be.
  [[nodiscard]] double use(std::size_t k, std::size_t d, std::uint32_t n,
                           double wanted) const noexcept {
    const std::uint32_t efficient = curves_.efficient(k, d);
    if (efficient == 0) return 0;
    return std::min(wanted, curves_.rate(k, d, n)) * efficient / curves_.rate(k, d, efficient);
  }

  const latency_table& table_;
  std::span<const demand> demands_;
  const size_curves& curves_;
  elastic_rules rules_;
  packing<Interference> gpus_;
  std::vector<std::vector<partition>> there_; ///< by GPU
  std::vector<std::vector<double>> later_;    ///< by kind; then demand, groups: the best use
};

} // namespace gsched
