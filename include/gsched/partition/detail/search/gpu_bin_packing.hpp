// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/work_budget.hpp>
#include <gsched/partition/feasibility.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Assigns a list of candidates to GPUs so that all fit side by side. It first places the largest
/// candidates where the fewest groups remain, then backtracks within the budget.
///
/// Source   bin packing by branching on GPUs with different free groups.
/// Cost     O(candidates x GPUs) without backtracking.
class gpu_bin_packing {
public:
  gpu_bin_packing(const candidate_table& choices, std::span<const std::size_t> candidates)
      : choices_(choices), candidates_(candidates), gpus_(candidates.size()),
        order_(candidates.size()) {
    for (const gpu_kind& k : choices.kinds())
      free_.emplace_back(k.gpus.size(), free_groups{k.regular, k.has_remainder, choices.places()});
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto rank = [&](std::size_t i) {
      const candidate& p = choices.candidates()[candidates[i]];
      return std::pair(p.regular, p.remainder);
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
  }

  [[nodiscard]] feasibility run(work_budget& budget) {
    if (place(0, budget)) return feasibility::feasible;
    return stopped_ ? feasibility::unknown : feasibility::infeasible;
  }
  /// The GPU of the i-th candidate, after a feasible run.
  [[nodiscard]] std::uint32_t gpu(std::size_t i) const noexcept { return gpus_[i]; }

private:
  /// The free groups and places of a GPU.
  struct free_groups {
    std::uint32_t regular;
    bool remainder;
    std::uint32_t places;
    auto operator<=>(const free_groups&) const noexcept = default;
  };

  [[nodiscard]] bool place(std::size_t i, work_budget& budget) {
    if (i == order_.size()) return true;
    const candidate& p = choices_.candidates()[candidates_[order_[i]]];
    std::vector<free_groups>& gpus = free_[p.kind];
    std::vector<std::pair<free_groups, std::size_t>> fits;
    for (std::size_t g = 0; g < gpus.size(); ++g)
      if (gpus[g].regular >= p.regular && (gpus[g].remainder || !p.remainder) &&
          gpus[g].places >= p.places)
        fits.emplace_back(gpus[g], g);
    std::sort(fits.begin(), fits.end());
    for (std::size_t w = 0; w < fits.size() && !stopped_; ++w) {
      if (w > 0 && fits[w].first == fits[w - 1].first) continue;
      if (!budget.try_spend()) stopped_ = true;
      free_groups& r = gpus[fits[w].second];
      const free_groups before = r;
      r.regular -= p.regular;
      r.remainder &= !p.remainder;
      r.places -= p.places;
      gpus_[order_[i]] = choices_.kinds()[p.kind].gpus[fits[w].second];
      if (place(i + 1, budget)) return true;
      r = before;
    }
    return false;
  }

  const candidate_table& choices_;
  std::span<const std::size_t> candidates_;
  std::vector<std::uint32_t> gpus_;            ///< by candidate of the list
  std::vector<std::size_t> order_;             ///< of the list, largest first
  std::vector<std::vector<free_groups>> free_; ///< by kind, then GPU of it
  bool stopped_ = false;
};

} // namespace gsched::detail
