// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/fit_gpus.hpp>
#include <gsched/partition/detail/piece_dealing.hpp>
#include <gsched/partition/detail/pieces.hpp>
#include <gsched/partition/detail/rate_bound.hpp>
#include <gsched/partition/detail/shared_pieces.hpp>
#include <gsched/partition/detail/solo_cover.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// Looks for partitions that serve all demands of a menu: every way there is, but for ways that
/// others are as good as.
///
/// Demand by demand it chooses the partitions that it shares with later ones, and then the least
/// that its own may take for what is left (solo_cover). What that adds up to has to fit the GPUs as
/// a pool of groups, and then one by one (gpu_fit), with every choice of pieces that takes no more.
/// A branch ends where the prices of `bound` prove that what is left of the GPUs is worth less than
/// what is left to be served. Branches without sharing come first, then those with one shared
/// partition, then two, then all.
///
/// Complete  a shared partition that a demand could leave without its own taking more need not be
///           tried: it is there without that demand as well. So where all branches have ended,
///           there is no plan.
/// Cost      as far as the budget goes.
class partition_search {
public:
  /// `needs` are by demand: what is to be served. All outlive it.
  partition_search(const latency_table& t, const piece_menu& menu, const rate_bound& bound,
                   std::span<const double> needs, work_budget& budget)
      : table_(t), menu_(menu), bound_(bound), needs_(needs), budget_(budget), left_(all_of(menu)) {
    usable_ = menu.kinds().size() <= taken::most_kinds;
    for (std::size_t d = 0; d < needs.size() && usable_; ++d) {
      solos_.emplace_back(menu, d, most_entries);
      usable_ = solos_.back().usable() && budget.try_spend(solos_.back().entries());
      exact_ &= solos_.back().exact();
    }
    if (!usable_) return;
    set_worths();
    order_demands();
  }

  /// accept(pieces) says whether these will do; else it goes on, and then does not say that there
  /// is no plan.
  template <class Accept>
  [[nodiscard]] verdict run(Accept accept) {
    if (!usable_) return verdict::open;
    std::vector<double> needs(needs_.begin(), needs_.end());
    set_rest();
    allowed_ = 0;
    const taken all = left_;
    for (const taken& few : fewest_) { // as few SMs as can be, if GPUs can be cut so
      left_ = few;
      if (visit(0, needs, accept)) return verdict::plan;
      if (stopped_) return verdict::open;
    }
    left_ = all;
    if (visit(0, needs, accept)) return verdict::plan;
    rest_.clear();
    const double waste = worth(left_) - worth(needs, 0);
    const shared_pieces shared(table_, menu_, needs_, bound_.prices, piece_worths_,
                               waste + slack * worth(left_), budget_);
    exact_ &= shared.complete();
    by_first_.assign(needs.size(), {});
    for (const shared_piece& s : shared.all())
      for (std::size_t i = 0; i < order_.size(); ++i)
        if (s.rates[order_[i]] > 0) {
          by_first_[i].push_back(&s);
          break;
        }
    for (const std::size_t allowed : {std::size_t{1}, std::size_t{2}, std::size_t{1000}}) {
      if (stopped_ || shared.all().empty()) break;
      allowed_ = allowed;
      refused_by_count_ = false;
      if (visit(0, needs, accept)) return verdict::plan;
      if (!refused_by_count_) break;
    }
    return exact_ && !stopped_ ? verdict::impossible : verdict::open;
  }

private:
  static constexpr std::size_t most_entries = std::size_t{1} << 18;
  static constexpr std::size_t most_rest = 4096;
  static constexpr std::size_t most_fewest = 3;
  static constexpr std::uint64_t most_dealing = 100'000;
  static constexpr double slack = 1e-9; ///< of what all GPUs are worth: rounding

  // Worth ------------------------------------------------------------------------------------

  /// Groups are worth what the best partition makes of one, last ones what they add to that.
  void set_worths() {
    piece_worths_.resize(menu_.pieces().size());
    for (const bool lasts : {false, true})
      for (std::size_t i = 0; i < menu_.pieces().size(); ++i) {
        const piece& p = menu_.pieces()[i];
        double most = 0;
        for (std::size_t d = 0; d < needs_.size(); ++d)
          most = std::max(most, bound_.prices[d] * menu_.rate(i, d));
        double& group = group_worths_[2 * p.kind];
        double& last = group_worths_[2 * p.kind + 1];
        if (!lasts && !p.last) group = std::max(group, most / p.plain);
        if (lasts && p.last) last = std::max(last, most - group * p.plain);
      }
    for (std::size_t i = 0; i < menu_.pieces().size(); ++i)
      piece_worths_[i] = worth(taken::by(menu_.pieces()[i]));
  }
  [[nodiscard]] double worth(const taken& t) const noexcept {
    double all = 0;
    for (std::size_t s = 0; s < taken::sorts; ++s) all += group_worths_[s] * t.of[s];
    return all;
  }
  [[nodiscard]] double worth(const std::vector<double>& needs, std::size_t from) const noexcept {
    double all = 0;
    for (std::size_t i = from; i < order_.size(); ++i)
      all += bound_.prices[order_[i]] * std::max(0.0, needs[order_[i]]);
    return all;
  }
  [[nodiscard]] bool is_worth_enough(const std::vector<double>& needs, std::size_t from) const {
    return worth(needs, from) <= worth(left_) + slack * worth(all_of(menu_));
  }

  // Order ------------------------------------------------------------------------------------

  /// Those that can take turns with the fewest others first.
  void order_demands() {
    std::vector<std::size_t> partners(needs_.size(), 0);
    const auto can_share = [&](std::size_t a, std::size_t b, std::size_t i) {
      const sm_count sms = menu_.pieces()[i].sms;
      const demand &x = menu_.demands()[a], &y = menu_.demands()[b];
      if (sms < std::max(table_.sizes(x.model).front(), table_.sizes(y.model).front()))
        return false;
      const duration l = planned_latency(table_, x.model, 1, sms, menu_.factor(i, a));
      const duration m = planned_latency(table_, y.model, 1, sms, menu_.factor(i, b));
      return l + l + m <= x.slo && l + m + m <= y.slo;
    };
    for (std::size_t a = 0; a < needs_.size(); ++a)
      for (std::size_t b = 0; b < needs_.size(); ++b)
        for (std::size_t i = menu_.pieces().size(); a != b && i-- > 0;)
          if (can_share(a, b, i)) {
            ++partners[a];
            break;
          }
    order_.resize(needs_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return partners[a] < partners[b]; });
  }

  /// Without sharing, the least that all later demands take together is known.
  void set_rest() {
    rest_.assign(order_.size() + 1, {});
    rest_.back().push_back({});
    const taken all = all_of(menu_);
    for (std::size_t i = order_.size(); i-- > 0;) {
      std::vector<taken>& sums = rest_[i];
      for (const taken& a : solos_[order_[i]].least(needs_[order_[i]]))
        for (taken b : rest_[i + 1]) {
          b += a;
          if (!b.within(all)) continue;
          if (std::any_of(sums.begin(), sums.end(), [&](const taken& s) { return s.within(b); }))
            continue;
          std::erase_if(sums, [&](const taken& s) { return b.within(s); });
          sums.push_back(b);
        }
      if (sums.size() > most_rest || !budget_.try_spend(sums.size())) {
        rest_.clear();
        return;
      }
    }
    fewest_ = rest_[0];
    std::stable_sort(fewest_.begin(), fewest_.end(),
                     [&](const taken& a, const taken& b) { return sms(a) < sms(b); });
    fewest_.resize(std::min(fewest_.size(), most_fewest));
  }
  [[nodiscard]] std::uint64_t sms(const taken& t) const noexcept {
    std::uint64_t all = 0;
    for (std::size_t k = 0; k < menu_.kinds().size(); ++k) {
      const gpu_shape& g = menu_.kinds()[k].shape;
      const std::uint32_t group = std::min(g.sms, g.group).count();
      all += std::uint64_t{t.of[2 * k]} * group +
             std::uint64_t{t.of[2 * k + 1]} * (group + g.rest().count());
    }
    return all;
  }

  // Branches ---------------------------------------------------------------------------------

  template <class Accept>
  [[nodiscard]] bool visit(std::size_t i, std::vector<double>& needs, Accept& accept) {
    if (!is_going_on()) return false;
    if (i == order_.size()) return deal(accept);
    if (!is_worth_enough(needs, i)) return false;
    if (!rest_.empty() && std::none_of(rest_[i].begin(), rest_[i].end(),
                                       [&](const taken& t) { return t.within(left_); }))
      return false;
    return share(i, 0, needs, accept);
  }

  /// Shared partitions of the i-th demand with later ones, from that one on; then its own.
  template <class Accept>
  [[nodiscard]] bool share(std::size_t i, std::size_t from, std::vector<double>& needs,
                           Accept& accept) {
    if (!is_going_on()) return false;
    if (own(i, needs, accept)) return true;
    if (allowed_ == 0 || needs[order_[i]] <= 0) return false;
    for (std::size_t c = from; c < by_first_[i].size() && !stopped_; ++c) {
      const shared_piece& s = *by_first_[i][c];
      const taken t = taken::by(menu_.pieces()[s.piece]);
      if (!t.within(left_)) continue;
      if (chosen_.size() >= allowed_) {
        refused_by_count_ = true;
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

  template <class Accept>
  [[nodiscard]] bool own(std::size_t i, std::vector<double>& needs, Accept& accept) {
    const std::size_t d = order_[i];
    const std::vector<taken> ways = solos_[d].least(std::max(0.0, needs[d]));
    for (const shared_piece* s : chosen_) // who could leave a partition does
      if (s->rates[d] > 0 && solos_[d].least(std::max(0.0, needs[d] + s->rates[d])) == ways)
        return false;
    own_needs_.push_back(std::max(0.0, needs[d]));
    bool found = false;
    for (const taken& way : ways) {
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

  [[nodiscard]] bool is_going_on() {
    if (!budget_.try_spend()) stopped_ = true;
    return !stopped_;
  }

  template <class Accept>
  [[nodiscard]] bool deal(Accept& accept) {
    piece_dealing dealing(menu_, solos_, order_, own_needs_, own_, left_, chosen_);
    work_budget some(std::min(budget_.left(), most_dealing));
    const std::uint64_t before = some.left();
    const verdict v = dealing.run(some, accept);
    if (!budget_.try_spend(before - some.left())) stopped_ = true;
    exact_ &= v != verdict::open;
    return v == verdict::plan;
  }

  const latency_table& table_;
  const piece_menu& menu_;
  const rate_bound& bound_;
  std::span<const double> needs_;
  work_budget& budget_;
  std::vector<solo_cover> solos_;    ///< by demand
  std::vector<double> piece_worths_; ///< by piece
  std::array<double, taken::sorts> group_worths_{};
  std::vector<std::size_t> order_;                         ///< of demands
  std::vector<std::vector<taken>> rest_;                   ///< by place in the order
  std::vector<taken> fewest_;                              ///< of all, without sharing
  std::vector<std::vector<const shared_piece*>> by_first_; ///< by place of the first who is there
  // The branch:
  taken left_;
  std::vector<const shared_piece*> chosen_;
  std::vector<taken> own_; ///< by place in the order
  std::vector<double> own_needs_;
  std::size_t allowed_ = 0; ///< shared partitions
  bool refused_by_count_ = false, usable_ = true, exact_ = true, stopped_ = false;
};

} // namespace gsched
