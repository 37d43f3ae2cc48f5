// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/exclusive_knapsack.hpp>
#include <gsched/partition/detail/search/gpu_bin_packing.hpp>
#include <gsched/partition/detail/search/shared_candidates.hpp>
#include <gsched/partition/detail/search/work_budget.hpp>
#include <gsched/partition/feasibility.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// A candidate assigned to a GPU, and the rates that it can serve.
struct assignment {
  std::size_t candidate = 0; ///< index into the candidate table
  std::uint32_t gpu = 0;
  std::vector<std::pair<std::size_t, double>> most{}; ///< demand, requests a second
};

/// Turns the groups that each demand uses of all GPUs together into candidates that fit the single
/// GPUs. It first tries the candidates of the knapsacks, then every other choice that serves as
/// much with no more groups.
///
/// Cost     up to the budget.
class assignment_search {
public:
  /// The i-th demand of `order` may use the groups own[i] to serve the rate needs[i]. `spare` are
  /// groups that any demand may use. All arguments outlive it.
  assignment_search(const candidate_table& choices, std::span<const exclusive_knapsack> knapsacks,
                    std::span<const std::size_t> order, std::span<const double> needs,
                    std::span<const group_usage> own, const group_usage& spare,
                    std::span<const shared_candidate* const> shared)
      : choices_(choices), knapsacks_(knapsacks), order_(order), needs_(needs), own_(own),
        spare_(spare), shared_(shared) {}

  /// Calls accept(assignments) for each choice that fits, until it returns true.
  template <class Accept>
  [[nodiscard]] feasibility run(work_budget& budget, Accept& accept) {
    for (std::size_t i = 0; i < order_.size(); ++i)
      if (needs_[i] > 0)
        for (const std::size_t p : knapsacks_[order_[i]].candidates_within(own_[i]))
          chosen_.emplace_back(p, order_[i]);
    if (try_fit(budget, accept)) return feasibility::feasible;
    chosen_.clear();
    if (enumerate(0, spare_, budget, accept)) return feasibility::feasible;
    return exact_ ? feasibility::infeasible : feasibility::unknown;
  }

private:
  static constexpr std::uint64_t most_fitting = 5'000;
  static constexpr double rounding = 1e-9;

  /// Tries all choices for the i-th and later demands.
  template <class Accept>
  [[nodiscard]] bool enumerate(std::size_t i, group_usage spare, work_budget& budget,
                               Accept& accept) {
    if (i == order_.size()) return try_fit(budget, accept);
    std::vector<std::size_t> sizes;
    for (std::size_t p = 0; p < choices_.candidates().size(); ++p)
      if (choices_.rate(p, order_[i]) > 0) sizes.push_back(p);
    std::stable_sort(sizes.begin(), sizes.end(), [&](std::size_t a, std::size_t b) {
      return choices_.rate(a, order_[i]) > choices_.rate(b, order_[i]);
    });
    spare += own_[i];
    return choose(i, sizes, 0, needs_[i], spare, budget, accept);
  }

  /// Chooses candidates for the i-th demand that serve `need`, by falling rates, from sizes[from].
  template <class Accept>
  [[nodiscard]] bool choose(std::size_t i, std::span<const std::size_t> sizes, std::size_t from,
                            double need, group_usage spare, work_budget& budget, Accept& accept) {
    if (!budget.try_spend()) exact_ = false;
    if (!exact_ && budget.left() == 0) return false;
    const std::size_t d = order_[i];
    if (need <= needs_[i] * rounding) return enumerate(i + 1, spare, budget, accept);
    if (knapsacks_[d].most(spare) < need * (1 - rounding)) return false;
    for (std::size_t s = from; s < sizes.size(); ++s) {
      const group_usage t = group_usage::by(choices_.candidates()[sizes[s]]);
      if (!t.within(spare) || is_dominated(d, sizes, s, need)) continue;
      group_usage after = spare;
      after -= t;
      chosen_.emplace_back(sizes[s], d);
      if (choose(i, sizes, s, need - choices_.rate(sizes[s], d), after, budget, accept))
        return true;
      chosen_.pop_back();
      if (budget.left() == 0) return false;
    }
    return false;
  }

  /// Whether a later candidate serves `need` with fewer groups.
  [[nodiscard]] bool is_dominated(std::size_t d, std::span<const std::size_t> sizes, std::size_t s,
                                  double need) const noexcept {
    const group_usage t = group_usage::by(choices_.candidates()[sizes[s]]);
    for (std::size_t after = s + 1; after < sizes.size(); ++after) {
      if (choices_.rate(sizes[after], d) < need) return false;
      if (group_usage::by(choices_.candidates()[sizes[after]]).within(t)) return true;
    }
    return false;
  }

  template <class Accept>
  [[nodiscard]] bool try_fit(work_budget& budget, Accept& accept) {
    std::vector<std::size_t> placed;
    for (const auto& [which, d] : chosen_) placed.push_back(which);
    for (const shared_candidate* s : shared_) placed.push_back(s->candidate);
    gpu_bin_packing fit(choices_, placed);
    work_budget some(std::min(budget.left(), most_fitting));
    const std::uint64_t before = some.left();
    const feasibility v = fit.run(some);
    if (!budget.try_spend(before - some.left() + placed.size())) exact_ = false;
    exact_ &= v != feasibility::unknown;
    if (v != feasibility::feasible) return false;
    std::vector<assignment> assignments;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      assignment p{placed[i], fit.gpu(i), {}};
      if (i < chosen_.size()) {
        const std::size_t d = chosen_[i].second;
        p.most.emplace_back(d, choices_.rate(placed[i], d));
      } else {
        const shared_candidate& s = *shared_[i - chosen_.size()];
        for (std::size_t d = 0; d < s.rates.size(); ++d)
          if (s.rates[d] > 0) p.most.emplace_back(d, s.rates[d]);
      }
      assignments.push_back(std::move(p));
    }
    if (accept(std::span<const assignment>(assignments))) return true;
    exact_ = false;
    return false;
  }

  const candidate_table& choices_;
  std::span<const exclusive_knapsack> knapsacks_;
  std::span<const std::size_t> order_;
  std::span<const double> needs_;
  std::span<const group_usage> own_;
  group_usage spare_;
  std::span<const shared_candidate* const> shared_;
  std::vector<std::pair<std::size_t, std::size_t>> chosen_; ///< candidate, demand
  bool exact_ = true; ///< every choice was tried and none was rejected
};

} // namespace gsched::detail
