// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity.hpp>
#include <gsched/partition/detail/packing/duty_cycle.hpp>
#include <gsched/partition/detail/packing/settled_cycles.hpp>
#include <gsched/partition/detail/search/assignment_search.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Makes a plan from assignments: computes what each partition serves beside its neighbours,
/// divides each demand's rate in proportion to that, and finds the duty cycles.
///
/// Cost     O(rounds x assignments) duty cycles.
template <interference_model Interference>
class plan_finaliser {
public:
  plan_finaliser(const latency_table& t, const candidate_table& choices, const Interference& beside)
      : table_(t), choices_(choices), beside_(beside), served_(choices.demands().size(), 0.0) {}

  /// Makes the plan; empty if an SLO would be missed or a demand not served.
  [[nodiscard]] std::optional<partition_plan> plan(std::span<const assignment> assignments) {
    std::vector<gpu_assignments> gpus;
    for (const assignment& p : assignments) {
      const auto at =
          std::lower_bound(gpus.begin(), gpus.end(), p.gpu,
                           [](const gpu_assignments& g, std::uint32_t gpu) { return g.gpu < gpu; });
      gpu_assignments& g =
          at != gpus.end() && at->gpu == p.gpu ? *at : *gpus.insert(at, {p.gpu, {}, {}});
      g.assignments.push_back(p);
    }
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      std::fill(served_.begin(), served_.end(), 0.0);
      for (gpu_assignments& g : gpus) {
        if (!alone && !slow_down(g, 1 + attempt * margin)) return std::nullopt;
        for (const assignment& p : g.assignments)
          for (const auto& [d, rate] : p.most) served_[d] += rate * fill;
      }
      for (std::size_t d = 0; d < served_.size(); ++d) served_[d] /= choices_.demands()[d].rate;
      if (std::any_of(served_.begin(), served_.end(), [](double s) { return !is_served(1, s); }))
        return std::nullopt;
      partition_plan all;
      const bool complete = std::all_of(gpus.begin(), gpus.end(), [&](const gpu_assignments& g) {
        return add_partitions(g, all.gpulets);
      });
      if (complete) return all;
    }
    return std::nullopt;
  }

  /// By demand: the rate that the assignments of the last plan could serve, over the rate wanted.
  [[nodiscard]] std::span<const double> served() const noexcept { return served_; }

private:
  static constexpr bool alone = std::is_same_v<Interference, no_interference>;
  static constexpr double fill = 1 - 1e-9; ///< part of a capacity that is used, against rounding
  static constexpr double margin = 0.01;   ///< added to slow-downs in each further attempt
  static constexpr int most_attempts = alone ? 1 : 3;
  static constexpr int few_rounds = 3;

  struct gpu_assignments {
    std::uint32_t gpu = 0;
    std::vector<assignment> assignments{};
    std::vector<gpulet> full{}; ///< with the largest batches
  };

  /// Sets the rates of each assignment to what it serves beside the others at full load. Slow-downs
  /// depend on batches and batches on slow-downs, so it iterates a few times.
  [[nodiscard]] bool slow_down(gpu_assignments& g, double more) const {
    if (g.full.empty())
      for (const assignment& p : g.assignments) {
        g.full.push_back({g.gpu, choices_.candidates()[p.candidate].sms});
        for (const auto& [d, rate] : p.most)
          g.full.back().portions.push_back({choices_.demands()[d].model, rate, 1});
      }
    for (int round = 0; round < few_rounds; ++round) {
      const std::vector<gpulet> before = g.full;
      for (std::size_t i = 0; i < g.assignments.size(); ++i) {
        std::vector<double> factors;
        for (const portion& p : g.full[i].portions)
          factors.push_back(more * beside_(std::span<const gpulet>(g.full), i, p.model));
        auto& most = g.assignments[i].most;
        if (most.size() == 1) {
          const model_demand& d = choices_.demands()[most[0].first];
          const capacity c = capacity_of(table_, d.model, g.full[i].sms, d.slo, factors[0]);
          most[0].second = c.rate;
          g.full[i].portions[0].batch = std::max(1u, c.batch);
        } else if (!slow_down_shared(g.full[i], most, factors)) {
          return false;
        }
      }
      if (g.full == before) break;
    }
    return true;
  }

  /// Reduces the rates of a shared partition in steps of 1% until it has a duty cycle. Returns
  /// false if it has none at 30% of the rates.
  [[nodiscard]] bool slow_down_shared(gpulet& g, std::vector<std::pair<std::size_t, double>>& most,
                                      std::span<const double> factors) const {
    for (double part = 1; part > 0.3; part -= 0.01) {
      std::vector<model_demand> parts;
      for (std::size_t i = 0; i < most.size(); ++i) {
        parts.push_back(choices_.demands()[most[i].first]);
        parts.back().rate = g.portions[i].rate * part * fill;
      }
      const auto cycle = find_duty_cycle(table_, g.sms, parts, factors);
      if (!cycle) continue;
      for (std::size_t i = 0; i < most.size(); ++i) {
        most[i].second = g.portions[i].rate * part;
        g.portions[i].batch = cycle->batches[i];
      }
      return true;
    }
    return false;
  }

  /// Adds a GPU's partitions with their parts of the demands' rates, in duty cycles that meet all
  /// SLOs. Returns false if there are none.
  [[nodiscard]] bool add_partitions(const gpu_assignments& g, std::vector<gpulet>& all) const {
    std::vector<gpulet> here;
    std::vector<std::vector<model_demand>> parts;
    for (const assignment& p : g.assignments) {
      here.push_back({g.gpu, choices_.candidates()[p.candidate].sms});
      parts.emplace_back();
      for (const auto& [d, rate] : p.most) {
        parts.back().push_back(choices_.demands()[d]);
        parts.back().back().rate = rate * fill * std::min(1.0, 1 / served_[d]);
        here.back().portions.push_back({choices_.demands()[d].model, parts.back().back().rate, 1});
      }
    }
    if (!settle_cycles(table_, here, parts, beside_)) return false;
    all.insert(all.end(), here.begin(), here.end());
    return true;
  }

  const latency_table& table_;
  const candidate_table& choices_;
  const Interference& beside_;
  std::vector<double> served_;
};

} // namespace gsched::detail
