// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/assignment_search.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/exclusive_knapsack.hpp>
#include <gsched/partition/detail/search/gpu_bin_packing.hpp>
#include <gsched/partition/detail/search/rate_bound.hpp>
#include <gsched/partition/detail/search/shared_candidates.hpp>
#include <gsched/partition/detail/search/work_budget.hpp>
#include <gsched/partition/feasibility.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Branch and bound over partitions that serve all demands of a candidate table.
///
/// It branches demand by demand: first on the shared partitions of the demand with later demands,
/// then on the minimal groups for partitions of its own (exclusive_knapsack). The groups must fit
/// all GPUs as one pool, and then the single GPUs (assignment_search). A branch ends where the
/// prices of `bound` prove that the free groups are worth less than the rates left to serve. The
/// search first allows no shared partition, then one, then two, then any number.
///
/// Complete  a shared partition that a demand could leave at no cost for its own partitions is
///           pruned: the same partition without that demand is another branch. So if all branches
///           ended, no plan exists.
/// Cost      up to the budget.
class branch_and_bound {
public:
  /// `needs` are the rates to serve, by demand. All arguments outlive it.
  branch_and_bound(const latency_table& t, const candidate_table& choices, const rate_bound& bound,
                   std::span<const double> needs, work_budget& budget)
      : table_(t), choices_(choices), bound_(bound), needs_(needs), budget_(budget),
        left_(all_of(choices)) {
    usable_ = choices.kinds().size() <= group_usage::most_kinds;
    for (std::size_t d = 0; d < needs.size() && usable_; ++d) {
      knapsacks_.emplace_back(choices, d, most_entries);
      usable_ = knapsacks_.back().usable() && budget.try_spend(knapsacks_.back().entries());
      exact_ &= knapsacks_.back().exact();
    }
    if (!usable_) return;
    set_worths();
    order_demands();
  }

  /// Calls accept(assignments) for each solution until it returns true. If it rejected one, the
  /// search does not return `infeasible`.
  template <class Accept>
  [[nodiscard]] feasibility run(Accept accept) {
    if (!usable_) return feasibility::unknown;
    std::vector<double> needs(needs_.begin(), needs_.end());
    set_remaining();
    allowed_ = 0;
    const group_usage all = left_;
    for (const group_usage& few : fewest_) { // the fewest SMs, if they fit the single GPUs
      left_ = few;
      if (visit(0, needs, accept)) return feasibility::feasible;
      if (stopped_) return feasibility::unknown;
    }
    left_ = all;
    if (visit(0, needs, accept)) return feasibility::feasible;
    remaining_.clear();
    const double waste = worth(left_) - worth(needs, 0);
    const shared_candidates shared(table_, choices_, needs_, bound_.prices, candidate_worths_,
                                   waste + slack * worth(left_), budget_);
    exact_ &= shared.complete();
    by_first_.assign(needs.size(), {});
    for (const shared_candidate& s : shared.all())
      for (std::size_t i = 0; i < order_.size(); ++i)
        if (s.rates[order_[i]] > 0) {
          by_first_[i].push_back(&s);
          break;
        }
    for (const std::size_t allowed : {std::size_t{1}, std::size_t{2}, std::size_t{1000}}) {
      if (stopped_ || shared.all().empty()) break;
      allowed_ = allowed;
      hit_limit_ = false;
      if (visit(0, needs, accept)) return feasibility::feasible;
      if (!hit_limit_) break;
    }
    return exact_ && !stopped_ ? feasibility::infeasible : feasibility::unknown;
  }

private:
  static constexpr std::size_t most_entries = std::size_t{1} << 18;
  static constexpr std::size_t most_remaining = 4096;
  static constexpr std::size_t most_fewest = 3;
  static constexpr std::uint64_t most_assignment_steps = 100'000;
  static constexpr int place_worths = 64; ///< that are tried
  static constexpr double slack = 1e-9;   ///< part of the worth of all GPUs, against rounding

  // Worth ------------------------------------------------------------------------------------

  /// Sets the worth of groups and places so that no candidate is worth more than what it uses: the
  /// highest worth per regular group of any candidate, and what a remainder group adds at most,
  /// both without the worth of a place. Where places are limited, that is the one of some for which
  /// all GPUs are worth least.
  void set_worths() {
    set_group_worths(0);
    if (choices_.places() > 0) {
      double highest = 0, best = 0, least = worth(left_);
      for (std::size_t i = 0; i < choices_.candidates().size(); ++i)
        highest = std::max(highest, worth_of(i));
      for (int step = 1; step <= place_worths; ++step) {
        set_group_worths(highest * step / place_worths);
        if (const double all = worth(left_); all < least) {
          least = all;
          best = highest * step / place_worths;
        }
      }
      set_group_worths(best);
    }
    for (std::size_t i = 0; i < choices_.candidates().size(); ++i)
      candidate_worths_.push_back(worth(group_usage::by(choices_.candidates()[i])));
  }
  /// The highest worth of the rates of a candidate.
  [[nodiscard]] double worth_of(std::size_t i) const noexcept {
    double most = 0;
    for (std::size_t d = 0; d < needs_.size(); ++d)
      most = std::max(most, bound_.prices[d] * choices_.rate(i, d));
    return most;
  }
  void set_group_worths(double place) {
    group_worths_ = {};
    group_worths_[group_usage::places] = place;
    for (const bool remainders : {false, true})
      for (std::size_t i = 0; i < choices_.candidates().size(); ++i) {
        const candidate& p = choices_.candidates()[i];
        const double most = worth_of(i) - place * p.places;
        double& group = group_worths_[2 * p.kind];
        double& remainder = group_worths_[2 * p.kind + 1];
        if (!remainders && !p.remainder) group = std::max(group, most / p.regular);
        if (remainders && p.remainder) remainder = std::max(remainder, most - group * p.regular);
      }
  }
  [[nodiscard]] double worth(const group_usage& t) const noexcept {
    double all = 0;
    for (std::size_t s = 0; s < group_usage::sorts; ++s) all += group_worths_[s] * t.of[s];
    return all;
  }
  [[nodiscard]] double worth(const std::vector<double>& needs, std::size_t from) const noexcept {
    double all = 0;
    for (std::size_t i = from; i < order_.size(); ++i)
      all += bound_.prices[order_[i]] * std::max(0.0, needs[order_[i]]);
    return all;
  }
  [[nodiscard]] bool is_worth_enough(const std::vector<double>& needs, std::size_t from) const {
    return worth(needs, from) <= worth(left_) + slack * worth(all_of(choices_));
  }

  // Order ------------------------------------------------------------------------------------

  /// Orders demands by the number of demands that they can share a partition with, fewest first.
  void order_demands() {
    std::vector<std::size_t> partners(needs_.size(), 0);
    const auto can_share = [&](std::size_t a, std::size_t b, std::size_t i) {
      const sm_count sms = choices_.candidates()[i].sms;
      const model_demand &x = choices_.demands()[a], &y = choices_.demands()[b];
      if (sms < std::max(table_.sizes(x.model).front(), table_.sizes(y.model).front()))
        return false;
      const duration l = planned_latency(table_, x.model, 1, sms, choices_.factor(i, a));
      const duration m = planned_latency(table_, y.model, 1, sms, choices_.factor(i, b));
      return l + l + m <= x.slo && l + m + m <= y.slo;
    };
    for (std::size_t a = 0; a < needs_.size(); ++a)
      for (std::size_t b = 0; b < needs_.size(); ++b)
        for (std::size_t i = choices_.candidates().size(); a != b && i-- > 0;)
          if (can_share(a, b, i)) {
            ++partners[a];
            break;
          }
    order_.resize(needs_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return partners[a] < partners[b]; });
  }

  /// Without sharing: computes the minimal groups that each demand and all later ones use together.
  void set_remaining() {
    remaining_.assign(order_.size() + 1, {});
    remaining_.back().push_back({});
    const group_usage all = all_of(choices_);
    for (std::size_t i = order_.size(); i-- > 0;) {
      std::vector<group_usage>& sums = remaining_[i];
      for (const group_usage& a : knapsacks_[order_[i]].least(needs_[order_[i]]))
        for (group_usage b : remaining_[i + 1]) {
          b += a;
          if (!b.within(all)) continue;
          if (std::any_of(sums.begin(), sums.end(),
                          [&](const group_usage& s) { return s.within(b); }))
            continue;
          std::erase_if(sums, [&](const group_usage& s) { return b.within(s); });
          sums.push_back(b);
        }
      if (sums.size() > most_remaining || !budget_.try_spend(sums.size())) {
        remaining_.clear();
        return;
      }
    }
    fewest_ = remaining_[0];
    std::stable_sort(fewest_.begin(), fewest_.end(),
                     [&](const group_usage& a, const group_usage& b) { return sms(a) < sms(b); });
    fewest_.resize(std::min(fewest_.size(), most_fewest));
  }
  [[nodiscard]] std::uint64_t sms(const group_usage& t) const noexcept {
    std::uint64_t all = 0;
    for (std::size_t k = 0; k < choices_.kinds().size(); ++k) {
      const gpu_shape& g = choices_.kinds()[k].shape;
      const std::uint32_t group = std::min(g.sms, g.group).count();
      all += std::uint64_t{t.of[2 * k]} * group +
             std::uint64_t{t.of[2 * k + 1]} * (group + g.remainder().count());
    }
    return all;
  }

  // Branches ---------------------------------------------------------------------------------

  template <class Accept>
  [[nodiscard]] bool visit(std::size_t i, std::vector<double>& needs, Accept& accept) {
    if (!may_go_on()) return false;
    if (i == order_.size()) return assign(accept);
    if (!is_worth_enough(needs, i)) return false;
    if (!remaining_.empty() && std::none_of(remaining_[i].begin(), remaining_[i].end(),
                                            [&](const group_usage& t) { return t.within(left_); }))
      return false;
    return share(i, 0, needs, accept);
  }

  /// Branches on shared partitions of the i-th demand, from by_first_[i][from], then on its own.
  template <class Accept>
  [[nodiscard]] bool share(std::size_t i, std::size_t from, std::vector<double>& needs,
                           Accept& accept) {
    if (!may_go_on()) return false;
    if (own(i, needs, accept)) return true;
    if (allowed_ == 0 || needs[order_[i]] <= 0) return false;
    for (std::size_t c = from; c < by_first_[i].size() && !stopped_; ++c) {
      const shared_candidate& s = *by_first_[i][c];
      const group_usage t = group_usage::by(choices_.candidates()[s.candidate]);
      if (!t.within(left_)) continue;
      if (chosen_.size() >= allowed_) {
        hit_limit_ = true;
        return false;
      }
      left_ -= t;
      chosen_.push_back(&s);
      std::vector<double> less = needs;
      for (std::size_t d = 0; d < less.size(); ++d) less[d] -= s.rates[d];
      if (!budget_.try_spend(1 + less.size() / 8)) stopped_ = true;
      const bool found = is_worth_enough(less, i) && share(i, c, less, accept);
      left_ += t;
      if (found) return true;
      chosen_.pop_back();
    }
    return false;
  }

  /// Branches on the groups for the i-th demand's own partitions.
  template <class Accept>
  [[nodiscard]] bool own(std::size_t i, std::vector<double>& needs, Accept& accept) {
    const std::size_t d = order_[i];
    const std::vector<group_usage> ways = knapsacks_[d].least(std::max(0.0, needs[d]));
    for (const shared_candidate* s : chosen_) // prunes members that could leave at no cost
      if (s->rates[d] > 0 && knapsacks_[d].least(std::max(0.0, needs[d] + s->rates[d])) == ways)
        return false;
    own_needs_.push_back(std::max(0.0, needs[d]));
    bool found = false;
    for (const group_usage& way : ways) {
      if (!way.within(left_)) continue;
      left_ -= way;
      own_.push_back(way);
      found = visit(i + 1, needs, accept);
      left_ += way;
      if (found || stopped_) break;
      own_.pop_back();
    }
    if (!found && !stopped_) own_needs_.pop_back();
    return found;
  }

  [[nodiscard]] bool may_go_on() {
    if (!budget_.try_spend()) stopped_ = true;
    return !stopped_;
  }

  template <class Accept>
  [[nodiscard]] bool assign(Accept& accept) {
    assignment_search search(choices_, knapsacks_, order_, own_needs_, own_, left_, chosen_);
    work_budget some(std::min(budget_.left(), most_assignment_steps));
    const std::uint64_t before = some.left();
    const feasibility v = search.run(some, accept);
    if (!budget_.try_spend(before - some.left())) stopped_ = true;
    exact_ &= v != feasibility::unknown;
    return v == feasibility::feasible;
  }

  const latency_table& table_;
  const candidate_table& choices_;
  const rate_bound& bound_;
  std::span<const double> needs_;
  work_budget& budget_;
  std::vector<exclusive_knapsack> knapsacks_; ///< by demand
  std::vector<double> candidate_worths_;
  std::array<double, group_usage::sorts> group_worths_{};
  std::vector<std::size_t> order_;                             ///< of demands
  std::vector<std::vector<group_usage>> remaining_;            ///< by place in the order
  std::vector<group_usage> fewest_;                            ///< of all demands, without sharing
  std::vector<std::vector<const shared_candidate*>> by_first_; ///< by place of the first member
  // The current branch:
  group_usage left_;
  std::vector<const shared_candidate*> chosen_;
  std::vector<group_usage> own_; ///< by place in the order
  std::vector<double> own_needs_;
  std::size_t allowed_ = 0; ///< shared partitions
  bool hit_limit_ = false, usable_ = true, exact_ = true, stopped_ = false;
};

} // namespace gsched::detail
