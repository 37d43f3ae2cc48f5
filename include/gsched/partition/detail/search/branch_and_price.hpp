// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/assignment_search.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/column_pool.hpp>
#include <gsched/partition/detail/search/master_problem.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Limits of a branch-and-price search, counted: the same on every machine.
struct branch_and_price_budget {
  column_limits columns{};
  std::uint32_t nodes = 400;    ///< of the search tree
  std::uint32_t rejected = 200; ///< solutions that the caller rejects
};

/// Searches for one column for each GPU so that all demands are served in spite of interference.
///
/// The linear program over a pool of columns bounds how often mixtures of columns serve the
/// demands. At its prices the pool grows by columns of sufficient worth, a few times. The search
/// then fixes a column GPU by GPU and solves the program again for the rest. In any solution at
/// least one column wastes at most its share of the allowed waste, so only such columns are tried,
/// and each is excluded after its branch.
///
/// Source   branch and price: Barnhart et al., Operations Research 46(3), 1998,
///          doi:10.1287/opre.46.3.316.
/// Differs  the pool does not hold all columns, so the search finds plans but proves nothing.
///          Models do not share partitions.
/// Cost     up to its budget: five models on four GPUs 10 ms, seldom 200. It does nothing if there
///          are more than `most_first` initial columns.
template <interference_model Interference>
class branch_and_price {
public:
  branch_and_price(const latency_table& t, const candidate_table& choices,
                   std::span<const double> needs, const Interference& beside,
                   const branch_and_price_budget& budget)
      : choices_(choices), demands_(needs.size()), budget_(budget) {
    double first = 0;
    for (const gpu_kind& k : choices.kinds()) {
      first += static_cast<double>(k.regular + 1) * static_cast<double>(demands_ * demands_);
      gpus_.push_back(static_cast<std::uint32_t>(k.gpus.size()));
    }
    if (first > most_first || demands_ == 0) return;
    column_pool pool(t, choices, needs, beside, budget.columns);
    const std::vector<double> all(demands_, 1.0);
    for (int round = 0; round < most_rounds; ++round) {
      const std::vector<std::size_t> any = indices(pool.columns().size());
      bound_ = solve(pool.columns(), any, all, gpus_, 0);
      bool more = false;
      for (std::size_t k = 0; k < gpus_.size() && round + 1 < most_rounds; ++k)
        more |= pool.grow(k, bound_.prices, bound_.worths[k]);
      if (!more) break;
    }
    if (bound_.scale >= 1) keep_undominated(pool.columns());
  }

  /// Upper bound of the scale that columns of the pool serve; infinite if the search did not start.
  [[nodiscard]] double scale() const noexcept { return bound_.scale; }

  /// Calls accept(assignments) for each solution until it returns true.
  template <class Accept>
  [[nodiscard]] bool run(Accept accept) {
    if (columns_.empty()) return false;
    nodes_ = rejected_ = 0;
    stopped_ = false;
    return visit(indices(columns_.size()), std::vector<double>(demands_, 1.0), gpus_, accept);
  }

private:
  static constexpr double most_first = 4000;
  static constexpr int most_rounds = 3;
  static constexpr std::size_t most_steps = 300, most_kept = 2000;

  [[nodiscard]] static std::vector<std::size_t> indices(std::size_t n) {
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = i;
    return all;
  }

  /// Solves the program over the columns `of`, for the part `left` of each demand; 0 or less: none.
  [[nodiscard]] master_bound solve(std::span<const gpu_column> columns,
                                   std::span<const std::size_t> of, const std::vector<double>& left,
                                   const std::vector<std::uint32_t>& gpus, double enough) const {
    std::vector<std::size_t> some;
    for (std::size_t d = 0; d < demands_; ++d)
      if (left[d] > 0) some.push_back(d);
    master_bound bound;
    if (!some.empty()) {
      const auto price = [&](std::size_t k, std::span<const double> prices) {
        priced_column best{0, std::vector<double>(some.size(), 0.0)};
        const gpu_column* at = nullptr;
        for (const std::size_t c : of) {
          if (columns[c].kind != k || gpus[k] == 0) continue;
          double worth = 0;
          for (std::size_t i = 0; i < some.size(); ++i)
            worth += prices[i] * std::min(1.0, columns[c].parts[some[i]] / left[some[i]]);
          if (worth <= best.worth) continue;
          best.worth = worth;
          at = &columns[c];
        }
        for (std::size_t i = 0; at && i < some.size(); ++i)
          best.parts[i] = std::min(1.0, at->parts[some[i]] / left[some[i]]);
        return best;
      };
      master_problem master(some.size(), gpus, price);
      bound = master.solve(most_steps, enough);
    }
    std::vector<double> prices(demands_, 0.0);
    for (std::size_t i = 0; i < some.size(); ++i) prices[some[i]] = bound.prices[i];
    bound.prices = std::move(prices);
    bound.worths.resize(gpus.size(), 0.0);
    return bound;
  }

  [[nodiscard]] double worth(const gpu_column& c, const std::vector<double>& left,
                             const std::vector<double>& prices) const noexcept {
    double all = 0;
    for (std::size_t d = 0; d < demands_; ++d)
      if (left[d] > 0) all += prices[d] * std::min(1.0, c.parts[d] / left[d]);
    return all;
  }

  /// Keeps the columns of sufficient worth that no kept column dominates.
  void keep_undominated(std::span<const gpu_column> pool) {
    const std::vector<double> all(demands_, 1.0);
    std::vector<std::pair<double, const gpu_column*>> by_waste;
    for (const gpu_column& c : pool)
      if (const double waste = bound_.worths[c.kind] - worth(c, all, bound_.prices);
          waste <= bound_.scale - 1 + 1e-9)
        by_waste.emplace_back(waste, &c);
    std::stable_sort(by_waste.begin(), by_waste.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [waste, c] : by_waste) {
      const bool is_dominated =
          std::any_of(columns_.begin(), columns_.end(), [&, cut = c](const gpu_column& o) {
            return o.kind == cut->kind && std::equal(cut->parts.begin(), cut->parts.end(),
                                                     o.parts.begin(), std::less_equal<>{});
          });
      if (!is_dominated) columns_.push_back(*c);
      if (columns_.size() >= most_kept) break;
    }
  }

  template <class Accept>
  [[nodiscard]] bool visit(std::vector<std::size_t> of, const std::vector<double>& left,
                           const std::vector<std::uint32_t>& gpus, Accept& accept) {
    std::uint32_t unassigned = 0; // GPUs
    for (const std::uint32_t n : gpus) unassigned += n;
    if (std::all_of(left.begin(), left.end(), [](double l) { return l <= 0; }))
      return is_accepted(accept);
    if (unassigned == 0) return false;
    if (++nodes_ > budget_.nodes && unassigned > 1) stopped_ = true;
    if (stopped_) return false;
    std::vector<std::pair<double, std::size_t>> next;
    if (unassigned == 1) {
      for (const std::size_t c : of)
        if (gpus[columns_[c].kind] > 0 &&
            std::equal(left.begin(), left.end(), columns_[c].parts.begin(), std::less_equal<>{}))
          next.emplace_back(0.0, c);
    } else {
      const master_bound bound = solve(columns_, of, left, gpus, 1);
      if (bound.scale < 1) return false;
      for (const std::size_t c : of) {
        const double waste =
            bound.worths[columns_[c].kind] - worth(columns_[c], left, bound.prices);
        if (gpus[columns_[c].kind] > 0 && waste * unassigned <= bound.scale - 1 + 1e-9)
          next.emplace_back(waste, c);
      }
      std::stable_sort(next.begin(), next.end());
    }
    for (const auto& [waste, c] : next) {
      std::vector<double> after = left;
      for (std::size_t d = 0; d < demands_; ++d) after[d] -= columns_[c].parts[d];
      std::vector<std::uint32_t> fewer = gpus;
      --fewer[columns_[c].kind];
      chosen_.push_back(c);
      const bool found = visit(of, after, fewer, accept);
      chosen_.pop_back();
      if (found || stopped_) return found;
      std::erase(of, c);
    }
    return false;
  }

  template <class Accept>
  [[nodiscard]] bool is_accepted(Accept& accept) {
    std::vector<assignment> assignments;
    std::vector<std::size_t> used(gpus_.size(), 0);
    for (const std::size_t c : chosen_) {
      const gpu_column& column = columns_[c];
      const std::uint32_t gpu = choices_.kinds()[column.kind].gpus[used[column.kind]++];
      for (const column_entry& o : column.partitions)
        assignments.push_back(
            {o.candidate, gpu, {{o.demand, choices_.rate(o.candidate, o.demand)}}});
    }
    if (accept(std::span<const assignment>(assignments))) return true;
    stopped_ = ++rejected_ >= budget_.rejected;
    return false;
  }

  const candidate_table& choices_;
  std::size_t demands_;
  branch_and_price_budget budget_;
  std::vector<std::uint32_t> gpus_; ///< by kind
  master_bound bound_;
  std::vector<gpu_column> columns_; ///< that no other column dominates
  std::vector<std::size_t> chosen_; ///< indices into columns_, by GPU fixed so far
  std::uint32_t nodes_ = 0, rejected_ = 0;
  bool stopped_ = false;
};

} // namespace gsched::detail
