// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gsched::detail {

/// GPUs of equal shape.
struct gpu_kind {
  gpu_shape shape;
  std::vector<std::uint32_t> gpus{}; ///< indices
  std::uint32_t regular = 0;         ///< groups of equal size in one of them
  bool has_remainder = false;        ///< and one more group, which has the remainder of the SMs
};

/// A candidate partition size on one kind of GPU, and the groups that it uses. Partitions fit a GPU
/// side by side if and only if the GPU has enough regular groups and at most one uses the group
/// with the remainder.
struct candidate {
  std::size_t kind = 0;
  std::uint32_t regular = 0; ///< groups
  bool remainder = false;    ///< also uses the group with the remainder
  sm_count sms{};
  std::uint32_t places = 0; ///< that it uses of a GPU's: 1 if a GPU may have few partitions only
};

/// All candidate partition sizes of a set of GPUs, and the rate of each demand alone on each of
/// them.
///
/// Cost     O(candidates x demands x batches) latencies.
/// Threads  immutable.
class candidate_table {
public:
  /// `factors` are the demands' slow-downs where neighbours occupy almost the whole GPU; empty:
  /// none. A GPU has at most `places` partitions; 0: any number.
  candidate_table(const latency_table& t, std::span<const model_demand> demands,
                  std::span<const gpu_shape> shapes, std::span<const double> factors = {},
                  std::uint32_t places = 0)
      : candidate_table(demands, shapes, places) {
    compute_rates(t, [&](std::size_t p, std::size_t d) {
      if (factors.empty() || factors[d] == 1) return 1.0;
      return 1 + (factors[d] - 1) * (1 - part_of_gpu(candidates_[p]));
    });
  }

  /// A table whose rates bound those of any plan: each candidate has one idle neighbour of one
  /// group, or the whole GPU.
  template <interference_model Interference>
  [[nodiscard]] static candidate_table
  least_slowed(const latency_table& t, std::span<const model_demand> demands,
               std::span<const gpu_shape> shapes, const Interference& beside,
               std::uint32_t places = 0) {
    candidate_table choices(demands, shapes, places);
    choices.compute_rates(t, [&](std::size_t p, std::size_t d) {
      const candidate& of = choices.candidates_[p];
      const gpu_kind& k = choices.kinds_[of.kind];
      const std::size_t model = demands[d].model;
      const bool is_whole = of.regular == k.regular && of.remainder == k.has_remainder;
      if (is_whole || of.sms < t.sizes(model).front()) return 1.0;
      double least = std::numeric_limits<double>::infinity();
      for (std::uint32_t b = 1; b <= t.batches(model).back(); ++b) {
        const gpulet both[] = {{0, of.sms, {}, {{model, 1, b}}}, {0, k.shape.group, {}, {}}};
        least = std::min<double>(least, beside(std::span<const gpulet>(both), 0, model));
      }
      return least;
    });
    return choices;
  }

  [[nodiscard]] std::span<const gpu_kind> kinds() const noexcept { return kinds_; }
  [[nodiscard]] std::span<const candidate> candidates() const noexcept { return candidates_; }
  /// The most partitions of a GPU; 0: any number.
  [[nodiscard]] std::uint32_t places() const noexcept { return places_; }
  [[nodiscard]] std::span<const model_demand> demands() const noexcept { return demands_; }
  /// The planned slow-down of a demand's batches on a candidate. It grows with the part of the GPU
  /// that neighbours have.
  [[nodiscard]] double factor(std::size_t which, std::size_t demand) const noexcept {
    return factors_[which * demands_.size() + demand];
  }
  /// The highest rate of a demand alone on a candidate, within its SLO; 0: none.
  [[nodiscard]] double rate(std::size_t which, std::size_t demand) const noexcept {
    return rates_[which * demands_.size() + demand];
  }

private:
  candidate_table(std::span<const model_demand> demands, std::span<const gpu_shape> shapes,
                  std::uint32_t places)
      : demands_(demands.begin(), demands.end()), places_(places) {
    for (std::uint32_t g = 0; g < shapes.size(); ++g) {
      const auto same = std::find_if(kinds_.begin(), kinds_.end(),
                                     [&](const gpu_kind& k) { return k.shape == shapes[g]; });
      if (same != kinds_.end()) {
        same->gpus.push_back(g);
        continue;
      }
      const bool has_remainder = shapes[g].remainder().count() > 0;
      const std::uint32_t regular = shapes[g].groups() - (has_remainder ? 1u : 0u);
      kinds_.push_back({shapes[g], {g}, regular, has_remainder});
    }
    for (std::uint32_t k = 0; k < kinds_.size(); ++k) {
      const gpu_kind& kind = kinds_[k];
      for (std::uint32_t n = 1; n <= kind.regular; ++n)
        candidates_.push_back({k, n, false,
                               kind.has_remainder ? sm_count{n * kind.shape.group.count()}
                                                  : kind.shape.of_groups(n)});
      const bool last_alone = kind.shape.last_alone || kind.regular == 0;
      for (std::uint32_t n = last_alone ? 0 : 1; kind.has_remainder && n <= kind.regular; ++n)
        candidates_.push_back(
            {k, n, true, sm_count{(n + 1) * kind.shape.group.count()} + kind.shape.remainder()});
    }
    for (candidate& c : candidates_) c.places = places > 0 ? 1 : 0;
  }

  template <class Factor>
  void compute_rates(const latency_table& t, Factor factor) {
    rates_.reserve(candidates_.size() * demands_.size());
    for (std::size_t p = 0; p < candidates_.size(); ++p)
      for (std::size_t d = 0; d < demands_.size(); ++d) {
        factors_.push_back(factor(p, d));
        rates_.push_back(highest_rate(t, demands_[d], candidates_[p].sms, factors_.back()));
      }
  }
  [[nodiscard]] double part_of_gpu(const candidate& p) const noexcept {
    return static_cast<double>(p.sms.count()) / kinds_[p.kind].shape.sms.count();
  }

  /// Like capacity_of, but tries every batch, not only measured ones: rounding must not make a
  /// bound too low.
  [[nodiscard]] static double highest_rate(const latency_table& t, const model_demand& d,
                                           sm_count sms, double factor) noexcept {
    double most = 0;
    if (sms < t.sizes(d.model).front()) return most;
    for (std::uint32_t b = 1; b <= t.batches(d.model).back(); ++b) {
      const duration l = planned_latency(t, d.model, b, sms, factor);
      if (2 * l > d.slo) break;
      most = std::max(most, b / to_s(l));
    }
    return most;
  }

  std::vector<model_demand> demands_;
  std::vector<gpu_kind> kinds_;
  std::vector<candidate> candidates_;
  std::uint32_t places_ = 0;
  std::vector<double> factors_, rates_; ///< by candidate, then demand
};

} // namespace gsched::detail
