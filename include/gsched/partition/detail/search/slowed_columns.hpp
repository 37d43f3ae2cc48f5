// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/detail/search/best_cut.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/master_problem.hpp>
#include <gsched/partition/feasibility.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Finds the cuts of a GPU that serve most for given prices of the demands, in spite of the
/// slow-downs of their partitions, or proves that no cut is worth more than a target. A partition
/// has one batch of one demand.
///
/// It is a branch and bound over what all partitions of the GPU use together. In a box of such sums
/// each batch is slowed at least as much as beside the smallest sum, so it has a worth that does
/// not depend on the cut; and the cuts whose sums are in the box obey a limit on uses, to which
/// Lagrange multipliers give prices. So best_cut bounds them all. Where that does not decide, the
/// few cuts that may be worth more are enumerated and computed, or else the box is cut in two.
///
/// Source   Lagrangian bounds and steps by their target: Polyak, USSR Computational Mathematics and
///          Mathematical Physics 9(3), 1969, doi:10.1016/0041-5553(69)90061-5.
/// Order    deterministic; a limit on boxes, not on time.
/// Cost     a box some 0.3 ms for five models on 16 groups; up to most_boxes a search.
/// Threads  one owner.
template <summed_interference Interference>
class slowed_columns {
public:
  /// `needs` are the rates to serve, by demand. All arguments outlive it.
  slowed_columns(const latency_table& t, const candidate_table& choices, std::uint32_t kind,
                 std::span<const double> needs, const Interference& beside)
      : choices_(choices), kind_(kind), demands_(needs.size()), beside_(beside),
        cut_(choices, kind) {
    for (std::size_t i = 0; i < choices.candidates().size(); ++i)
      for (std::size_t d = 0; d < demands_; ++d) add_batches(t, i, d, needs[d]);
    std::vector<double> most(choices.candidates().size());
    for (std::size_t u = 0; u < uses; ++u) {
      std::fill(most.begin(), most.end(), 0.0);
      for (const batch& b : batches_) most[b.candidate] = std::max(most[b.candidate], b.takes[u]);
      cut_.solve(most);
      most_[u] = cut_.worth() * (1 + rounding);
    }
  }

  /// For each demand the column that has it alone on the whole GPU, if that serves it at all.
  [[nodiscard]] std::vector<priced_column> alone() const {
    std::vector<priced_column> all;
    for (std::size_t d = 0; d < demands_; ++d) {
      double most = 0;
      for (const batch& b : batches_)
        if (b.demand == d) most = std::max(most, served(b, {}));
      if (!(most > 0)) continue;
      all.push_back({0, std::vector<double>(demands_, 0.0)});
      all.back().parts[d] = most;
    }
    return all;
  }

  /// Adds columns that are worth more than `target` at these prices of whole demands. infeasible:
  /// none is. unknown: none was found, and the search ended at a limit.
  [[nodiscard]] feasibility find_worth_more(std::span<const double> prices, double target,
                                            std::vector<priced_column>& columns) {
    prices_ = prices;
    target_ = target;
    found_ = &columns;
    left_to_find_ = most_found;
    bool decided = true;
    std::vector<box> open{{{}, most_, {}}};
    for (std::size_t boxes = 0; !open.empty() && left_to_find_ > 0; ++boxes) {
      if (boxes == most_boxes) {
        decided = false;
        break;
      }
      box b = std::move(open.back());
      open.pop_back();
      if (!b.parts) b.parts = std::make_shared<const std::vector<double>>(slowed_by(b.low, b.high));
      set_offers(b);
      if (is_bounded(b) || is_enumerated(b)) continue;
      const std::size_t widest = widest_of(b);
      if (widest == uses) {
        decided = false;
        continue;
      }
      box high = b;
      high.low[widest] = b.high[widest] = (b.low[widest] + b.high[widest]) / 2;
      high.parts.reset();
      open.push_back(std::move(b));
      open.push_back(std::move(high));
    }
    if (left_to_find_ < most_found) return feasibility::feasible;
    return decided ? feasibility::infeasible : feasibility::unknown;
  }

private:
  static constexpr std::size_t uses = 3; ///< of mean_use, that neighbours feel: l2, dram, starts
  using use_sum = std::array<double, uses>;

  static constexpr double rounding = 1e-9;
  static constexpr std::size_t most_boxes = 20'000;
  static constexpr std::size_t most_found = 30;
  static constexpr std::size_t most_enumerated = 1000; ///< nodes, in a box
  static constexpr int most_steps = 15;                ///< of the multipliers of a box
  static constexpr double narrow = 1.0 / 256;          ///< of all uses: it is not cut again

  /// A batch of a demand on a candidate.
  struct batch {
    std::size_t candidate = 0, demand = 0;
    mean_use use{};
    use_sum takes{};
    double alone_s = 0, slo_s = 0;
    double part = 0; ///< of the demand that it serves, times its latency in seconds
  };
  /// Sums of uses from `low` to `high`.
  struct box {
    use_sum low{}, high{};
    std::shared_ptr<const std::vector<double>> parts{}; ///< by batch: served beside `low`
  };
  /// What a batch is worth in a box, and what it takes.
  struct offer {
    double worth = 0;
    use_sum takes{};
    std::uint32_t candidate = 0, batch = 0;

    /// Less what its uses cost.
    [[nodiscard]] double value(const use_sum& multipliers) const noexcept {
      double v = worth;
      for (std::size_t u = 0; u < uses; ++u) v -= multipliers[u] * takes[u];
      return v;
    }
  };

  void add_batches(const latency_table& t, std::size_t i, std::size_t d, double need) {
    const candidate& of = choices_.candidates()[i];
    const model_demand& demand = choices_.demands()[d];
    if (of.kind != kind_ || of.sms < t.sizes(demand.model).front()) return;
    for (std::uint32_t n = 1; n <= t.batches(demand.model).back(); ++n) {
      const duration alone = t.latency(demand.model, n, of.sms);
      if (2 * alone > demand.slo) return;
      const mean_use use = beside_.use(demand.model, n, of.sms);
      const mean_use felt = use.as_neighbour();
      batches_.push_back(
          {i, d, use, {felt.l2, felt.dram, felt.starts}, to_s(alone), to_s(demand.slo), n / need});
    }
  }

  /// The part of its demand that a batch serves at most where all partitions take `sum`. It may be
  /// more than 1, since others may have the rest of the partition's time.
  [[nodiscard]] double served(const batch& b, const use_sum& sum) const {
    mean_use others;
    others.l2 = std::max(0.0, sum[0] - b.takes[0]);
    others.dram = std::max(0.0, sum[1] - b.takes[1]);
    others.starts = std::max(0.0, sum[2] - b.takes[2]);
    const bool alone = others.l2 == 0 && others.dram == 0 && others.starts == 0;
    const double time_s = alone ? b.alone_s : b.alone_s * beside_.slowdown(b.use, others);
    if (2 * time_s > b.slo_s * (1 + rounding)) return 0;
    return b.part / time_s * (1 + rounding);
  }
  [[nodiscard]] std::vector<double> slowed_by(const use_sum& sum, const use_sum& most) const {
    std::vector<double> parts;
    parts.reserve(batches_.size());
    for (const batch& b : batches_) parts.push_back(is_within(b.takes, most) ? served(b, sum) : 0);
    return parts;
  }
  /// Batches that take more than the box has are in no cut of it.
  void set_offers(const box& b) {
    offers_.clear();
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const batch& of = batches_[i];
      if (const double part = (*b.parts)[i]; part > 0 && is_within(of.takes, b.high))
        offers_.push_back({prices_[of.demand] * part, of.takes,
                           static_cast<std::uint32_t>(of.candidate),
                           static_cast<std::uint32_t>(i)});
    }
  }
  [[nodiscard]] static bool is_within(const use_sum& a, const use_sum& b) noexcept {
    for (std::size_t u = 0; u < uses; ++u)
      if (a[u] > b[u] * (1 + rounding)) return false;
    return true;
  }

  // Lagrangian bound -------------------------------------------------------------------------

  /// Whether no cut whose sum is in the box is worth more than the target. Leaves the best
  /// multipliers, and their best batches, for the steps after it.
  [[nodiscard]] bool is_bounded(const box& b) {
    use_sum now{};
    double least = std::numeric_limits<double>::infinity();
    for (int step = 0; step <= most_steps; ++step) {
      value_batches(now);
      double bound = cut_.worth();
      for (std::size_t u = 0; u < uses; ++u) bound += now[u] * b.high[u];
      std::vector<std::size_t> chosen;
      for (const std::size_t i : cut_.candidates()) chosen.push_back(best_[i]);
      const use_sum sum = sum_of(chosen);
      keep_if_worth_more(chosen, sum);
      if (bound <= target_) return true;
      if (bound < least) {
        least = bound;
        multipliers_ = now;
        nearest_ = chosen;
      }
      use_sum slope{}; // of the bound, for multipliers times most_
      double square = 0;
      for (std::size_t u = 0; u < uses; ++u) {
        if (!(most_[u] > 0)) continue;
        slope[u] = (b.high[u] - sum[u]) / most_[u];
        if (now[u] <= 0 && slope[u] > 0) slope[u] = 0;
        square += slope[u] * slope[u];
      }
      constexpr double flat = 1e-18, below = 0.99;
      if (square <= flat) return false;
      const double by = (bound - target_ * below) / square;
      for (std::size_t u = 0; u < uses; ++u)
        if (most_[u] > 0) now[u] = std::max(0.0, now[u] - by * slope[u] / most_[u]);
    }
    return false;
  }

  /// Finds the best batch of each candidate, and the best cut into these.
  void value_batches(const use_sum& multipliers) {
    worths_.assign(choices_.candidates().size(), 0.0);
    best_.assign(worths_.size(), 0);
    for (const offer& o : offers_)
      if (const double v = o.value(multipliers); v > worths_[o.candidate]) {
        worths_[o.candidate] = v;
        best_[o.candidate] = o.batch;
      }
    cut_.solve(worths_);
  }
  [[nodiscard]] use_sum sum_of(std::span<const std::size_t> chosen) const noexcept {
    use_sum sum{};
    for (const std::size_t i : chosen)
      for (std::size_t u = 0; u < uses; ++u) sum[u] += batches_[i].takes[u];
    return sum;
  }

  /// Computes what a cut serves, and keeps it if it is worth more than the target.
  void keep_if_worth_more(std::span<const std::size_t> chosen, const use_sum& sum) {
    if (left_to_find_ == 0) return;
    priced_column c{0, std::vector<double>(demands_, 0.0)};
    for (const std::size_t i : chosen) {
      const batch& of = batches_[i];
      const double part = served(of, chosen.size() == 1 ? of.takes : sum);
      c.parts[of.demand] += part;
      c.worth += part * prices_[of.demand];
    }
    if (c.worth <= target_) return;
    found_->push_back(std::move(c));
    --left_to_find_;
  }

  // Enumeration ------------------------------------------------------------------------------

  /// Whether all cuts whose sums are in the box, and that may be worth more than the target, could
  /// be computed.
  [[nodiscard]] bool is_enumerated(const box& b) {
    value_batches(multipliers_);
    least_ = target_;
    for (std::size_t u = 0; u < uses; ++u) least_ -= multipliers_[u] * b.high[u];
    const std::uint32_t groups = choices_.kinds()[kind_].regular;
    by_size_.assign(groups + 1, {});
    std::vector<std::pair<double, std::size_t>> with_remainder;
    std::vector<double> beside_others(choices_.candidates().size());
    for (std::size_t i = 0; i < beside_others.size(); ++i) {
      const candidate& p = choices_.candidates()[i];
      if (p.kind != kind_) continue;
      const std::uint32_t places = choices_.places() - p.places, left = groups - p.regular;
      beside_others[i] =
          p.remainder ? cut_.most(places, left) : cut_.most_with_remainder(places, left);
    }
    for (const offer& o : offers_) {
      const candidate& p = choices_.candidates()[o.candidate];
      const double value = o.value(multipliers_);
      if (value + beside_others[o.candidate] <= least_) continue;
      (p.remainder ? with_remainder : by_size_[p.regular]).emplace_back(value, o.batch);
    }
    for (auto& all : by_size_) std::sort(all.begin(), all.end(), std::greater<>{});
    visited_ = 0;
    chosen_.clear();
    if (!visit(b, choices_.places(), groups, groups, 0, 0, {})) return false;
    for (const auto& [value, i] : with_remainder) {
      const candidate& p = choices_.candidates()[batches_[i].candidate];
      const std::uint32_t left = groups - p.regular;
      chosen_.assign(1, i);
      if (!visit(b, choices_.places() - p.places, left, left, 0, value, batches_[i].takes))
        return false;
    }
    return true;
  }

  /// Adds batches on candidates of falling sizes, from the i-th of `size`. False at the limit.
  bool visit(const box& b, std::uint32_t places, std::uint32_t left, std::uint32_t size,
             std::size_t from, double value, const use_sum& sum) {
    if (++visited_ > most_enumerated) return false;
    if (value > least_ && !chosen_.empty() && is_within(b.low, sum)) {
      keep_if_worth_more(chosen_, sum);
      if (left_to_find_ == 0) return false;
    }
    if (choices_.places() > 0 && places == 0) return true;
    for (std::uint32_t n = std::min(left, size); n > 0; --n)
      for (std::size_t k = n == size ? from : 0; k < by_size_[n].size(); ++k) {
        const auto [more, i] = by_size_[n][k];
        const std::uint32_t places_left = places - (choices_.places() > 0 ? 1 : 0);
        if (value + more + cut_.most(places_left, left - n) <= least_) break;
        use_sum all = sum;
        for (std::size_t u = 0; u < uses; ++u) all[u] += batches_[i].takes[u];
        if (!is_within(all, b.high)) continue;
        chosen_.push_back(i);
        const bool goes_on = visit(b, places_left, left - n, n, k, value + more, all);
        chosen_.pop_back();
        if (!goes_on) return false;
      }
    return true;
  }

  /// The use by which the box is cut: along it the slow-downs of the nearest cut differ most;
  /// `uses` if the box is narrow.
  [[nodiscard]] std::size_t widest_of(const box& b) const {
    std::size_t widest = uses;
    double most = -1;
    for (std::size_t u = 0; u < uses; ++u) {
      if (b.high[u] - b.low[u] <= most_[u] * narrow) continue;
      use_sum raised = b.low;
      raised[u] = b.high[u];
      double lost = 0;
      for (const std::size_t i : nearest_)
        lost += prices_[batches_[i].demand] * ((*b.parts)[i] - served(batches_[i], raised));
      if (lost <= most) continue;
      most = lost;
      widest = u;
    }
    return widest;
  }

  const candidate_table& choices_;
  std::uint32_t kind_;
  std::size_t demands_;
  const Interference& beside_;
  best_cut cut_;
  std::vector<batch> batches_;
  use_sum most_{}; ///< of all cuts
  // Of the search:
  std::span<const double> prices_;
  double target_ = 0;
  std::vector<priced_column>* found_ = nullptr;
  std::size_t left_to_find_ = 0;
  // Of the box:
  std::vector<offer> offers_;
  std::vector<double> worths_;       ///< by candidate
  std::vector<std::size_t> best_;    ///< batch, by candidate
  use_sum multipliers_{};            ///< with the least bound
  std::vector<std::size_t> nearest_; ///< batches of the best cut there
  double least_ = 0;                 ///< value of a cut that may be worth more than the target
  std::vector<std::vector<std::pair<double, std::size_t>>> by_size_; ///< values and batches
  std::vector<std::size_t> chosen_;
  std::size_t visited_ = 0;
};

} // namespace gsched::detail
