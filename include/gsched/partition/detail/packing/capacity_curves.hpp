// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::detail {

/// The capacity of a partition of 1, 2, ... groups for each demand and each kind of GPU, computed
/// once.
///
/// With interference a partition is planned before its neighbours are known. So its capacity
/// assumes the worst neighbours: each demand in turn occupies the rest of the GPU, as one partition
/// or as two halves, with its largest batches. A partition that spans a whole GPU is not slowed.
///
/// Source   the profile of figure 8 in Choi et al., USENIX ATC 2022, section 4.3.
/// Cost     O(kinds x groups x demands) capacities; with interference times the demands.
/// Threads  one owner.
class capacity_curves {
public:
  /// Table and demands outlive it. It reads the demands' models and SLOs, not their rates.
  template <interference_model Interference>
  capacity_curves(const latency_table& t, std::span<const model_demand> demands,
                  std::span<const gpu_shape> shapes, const Interference& beside)
      : table_(t), demands_(demands) {
    for (const gpu_shape& s : shapes) {
      const auto at =
          std::find_if(kinds_.begin(), kinds_.end(), [&](const kind& k) { return k.shape == s; });
      kind_of_.push_back(static_cast<std::size_t>(at - kinds_.begin()));
      if (at == kinds_.end()) kinds_.push_back({s, {}, {}, {}, {}});
    }
    for (kind& k : kinds_) {
      k.alone.reserve(demands.size() * k.shape.groups());
      for (const model_demand& d : demands)
        for (std::uint32_t n = 1; n <= k.shape.groups(); ++n)
          k.alone.push_back(capacity_of(t, d.model, k.shape.of_groups(n), d.slo));
      k.worst.assign(k.alone.size(), 1.0);
      if constexpr (!std::is_same_v<Interference, no_interference>)
        for (std::size_t d = 0; d < demands.size(); ++d)
          for (std::uint32_t n = 1; n < k.shape.groups(); ++n)
            k.worst[index(k, d, n)] = worst_of(k, d, n, beside);
    }
    set_caution(1);
  }

  /// Sets the factor on the slow-down that the worst neighbours cause: 0 none, 1 all of it.
  void set_caution(double caution) {
    caution_ = caution;
    for (kind& k : kinds_) {
      k.rate.resize(k.alone.size());
      k.efficient.assign(demands_.size(), 0);
      for (std::size_t d = 0; d < demands_.size(); ++d) {
        double best = 0;
        for (std::uint32_t n = 1; n <= k.shape.groups(); ++n) {
          const std::size_t i = index(k, d, n);
          const double factor = slowdown(k, i);
          k.rate[i] = fill * (factor == 1 ? k.alone[i].rate : slowed_rate(k, d, n, factor));
          if (k.rate[i] / n <= best * (1 + 1e-9)) continue;
          best = k.rate[i] / n;
          k.efficient[d] = n;
        }
      }
    }
  }

  [[nodiscard]] std::size_t kinds() const noexcept { return kinds_.size(); }
  [[nodiscard]] std::size_t kind_of(std::uint32_t gpu) const noexcept { return kind_of_[gpu]; }
  [[nodiscard]] const gpu_shape& shape(std::size_t k) const noexcept { return kinds_[k].shape; }

  /// The planned rate of n groups, requests a second, with the assumed slow-down; 0: none.
  [[nodiscard]] double rate(std::size_t k, std::size_t d, std::uint32_t n) const noexcept {
    return kinds_[k].rate[index(kinds_[k], d, n)];
  }
  /// The planned rate of the n groups that fill a GPU.
  [[nodiscard]] double filling_rate(std::size_t k, std::size_t d, std::uint32_t n) const noexcept {
    const sm_count sms = kinds_[k].shape.filling(n);
    if (sms == kinds_[k].shape.of_groups(n)) return rate(k, d, n);
    const model_demand& of = demands_[d];
    return fill * capacity_of(table_, of.model, sms, of.slo, slowdown(k, d, n)).rate;
  }
  /// The assumed slow-down of batches on n groups.
  [[nodiscard]] double slowdown(std::size_t k, std::size_t d, std::uint32_t n) const noexcept {
    return slowdown(kinds_[k], index(kinds_[k], d, n));
  }
  /// The rate of n groups without neighbours, requests a second.
  [[nodiscard]] double solo_rate(std::size_t k, std::size_t d, std::uint32_t n) const noexcept {
    return kinds_[k].alone[index(kinds_[k], d, n)].rate;
  }
  /// The rate of the n groups that fill a GPU, without neighbours.
  [[nodiscard]] double solo_filling_rate(std::size_t k, std::size_t d,
                                         std::uint32_t n) const noexcept {
    const model_demand& of = demands_[d];
    return capacity_of(table_, of.model, kinds_[k].shape.filling(n), of.slo).rate;
  }
  /// The number of groups with the highest rate per group, the fewest of equals; 0: no size has a
  /// rate. elastic_planner has it in place of the paper's MAXEFFICIENTPARTITION, the size at the
  /// knee (knee_of).
  [[nodiscard]] std::uint32_t efficient(std::size_t k, std::size_t d) const noexcept {
    return kinds_[k].efficient[d];
  }
  /// MINREQUIREDPARTITION of the paper: the fewest groups with that rate; more than the GPU has if
  /// no size has it.
  [[nodiscard]] std::uint32_t required(std::size_t k, std::size_t d, double wanted) const noexcept {
    std::uint32_t n = 1;
    while (n <= kinds_[k].shape.groups() && rate(k, d, n) < wanted) ++n;
    return n;
  }

private:
  static constexpr double fill = 1 - 1e-9; ///< part of a capacity that is used, against rounding
  static constexpr std::uint32_t most_neighbours = 2;

  struct kind {
    gpu_shape shape;
    std::vector<capacity> alone;          ///< by demand, then groups; so are the next two
    std::vector<double> worst;            ///< slow-down beside the worst neighbours
    std::vector<double> rate;             ///< planned rate
    std::vector<std::uint32_t> efficient; ///< by demand
  };

  [[nodiscard]] static std::size_t index(const kind& k, std::size_t d, std::uint32_t n) noexcept {
    return d * k.shape.groups() + n - 1;
  }
  [[nodiscard]] double slowdown(const kind& k, std::size_t i) const noexcept {
    return 1 + (k.worst[i] - 1) * caution_;
  }
  [[nodiscard]] double slowed_rate(const kind& k, std::size_t d, std::uint32_t n,
                                   double factor) const noexcept {
    const model_demand& of = demands_[d];
    return capacity_of(table_, of.model, k.shape.of_groups(n), of.slo, factor).rate;
  }

  /// The slow-down of n groups beside the worst neighbours.
  template <class Interference>
  [[nodiscard]] double worst_of(const kind& k, std::size_t d, std::uint32_t n,
                                const Interference& beside) const {
    const auto full = [&](std::size_t demand, std::uint32_t groups) {
      const capacity& c = k.alone[index(k, demand, groups)];
      return gpulet{0, k.shape.of_groups(groups), {}, {{demands_[demand].model, c.rate, c.batch}}};
    };
    double most = 1;
    if (k.alone[index(k, d, n)].batch == 0) return most;
    const std::uint32_t rest = k.shape.groups() - n;
    for (std::size_t other = 0; other < demands_.size(); ++other)
      for (std::uint32_t of = 1; of <= std::min(most_neighbours, rest); ++of) {
        if (k.alone[index(k, other, rest / of)].batch == 0) continue;
        std::vector<gpulet> all(of, full(other, rest / of));
        all.push_back(full(d, n));
        most = std::max<double>(most, beside(std::span<const gpulet>(all), of, demands_[d].model));
      }
    return most;
  }

  const latency_table& table_;
  std::span<const model_demand> demands_;
  std::vector<kind> kinds_;
  std::vector<std::size_t> kind_of_; ///< by GPU
  double caution_ = 1;
};

} // namespace gsched::detail
