// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/fit_gpus.hpp>
#include <gsched/partition/detail/pieces.hpp>
#include <gsched/partition/detail/shared_pieces.hpp>
#include <gsched/partition/detail/solo_cover.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// A partition of a plan that is being made: what it can serve of each demand.
struct dealt_piece {
  std::size_t piece = 0; ///< of the menu
  std::uint32_t gpu = 0;
  std::vector<std::pair<std::size_t, double>> most{}; ///< demand, requests a second
};

/// Cuts what demands take of all GPUs together into pieces that fit the GPUs one by one: first the
/// pieces that the knapsack has, then every other choice that serves as much and takes no more.
///
/// Cost     as far as the budget goes.
class piece_dealing {
public:
  /// `own`, `needs`: what the i-th demand of `order` may take, and is to get from that; `spare`:
  /// what is left for any of them. All outlive it.
  piece_dealing(const piece_menu& menu, std::span<const solo_cover> solos,
                std::span<const std::size_t> order, std::span<const double> needs,
                std::span<const taken> own, const taken& spare,
                std::span<const shared_piece* const> shared)
      : menu_(menu), solos_(solos), order_(order), needs_(needs), own_(own), spare_(spare),
        shared_(shared) {}

  /// accept(pieces), as long as it says no.
  template <class Accept>
  [[nodiscard]] verdict run(work_budget& budget, Accept& accept) {
    for (std::size_t i = 0; i < order_.size(); ++i)
      if (needs_[i] > 0)
        for (const std::size_t p : solos_[order_[i]].pieces_within(own_[i]))
          chosen_.emplace_back(p, order_[i]);
    if (try_fit(budget, accept)) return verdict::plan;
    chosen_.clear();
    if (enumerate(0, spare_, budget, accept)) return verdict::plan;
    return exact_ ? verdict::impossible : verdict::open;
  }

private:
  static constexpr std::uint64_t most_fitting = 5'000;
  static constexpr double rounding = 1e-9;

  /// All choices for the demands from the i-th on.
  template <class Accept>
  [[nodiscard]] bool enumerate(std::size_t i, taken spare, work_budget& budget, Accept& accept) {
    if (i == order_.size()) return try_fit(budget, accept);
    std::vector<std::size_t> sizes;
    for (std::size_t p = 0; p < menu_.pieces().size(); ++p)
      if (menu_.rate(p, order_[i]) > 0) sizes.push_back(p);
    std::stable_sort(sizes.begin(), sizes.end(), [&](std::size_t a, std::size_t b) {
      return menu_.rate(a, order_[i]) > menu_.rate(b, order_[i]);
    });
    spare += own_[i];
    return choose(i, sizes, 0, needs_[i], spare, budget, accept);
  }

  /// Pieces of falling rates, from that one on, that serve `need`.
  template <class Accept>
  [[nodiscard]] bool choose(std::size_t i, std::span<const std::size_t> sizes, std::size_t from,
                            double need, taken spare, work_budget& budget, Accept& accept) {
    if (!budget.try_spend()) exact_ = false;
    if (!exact_ && budget.left() == 0) return false;
    const std::size_t d = order_[i];
    if (need <= needs_[i] * rounding) return enumerate(i + 1, spare, budget, accept);
    if (solos_[d].most(spare) < need * (1 - rounding)) return false;
    for (std::size_t s = from; s < sizes.size(); ++s) {
      const taken t = taken::by(menu_.pieces()[sizes[s]]);
      if (!t.within(spare) || is_too_much(d, sizes, s, need)) continue;
      taken after = spare;
      after -= t;
      chosen_.emplace_back(sizes[s], d);
      if (choose(i, sizes, s, need - menu_.rate(sizes[s], d), after, budget, accept)) return true;
      chosen_.pop_back();
      if (budget.left() == 0) return false;
    }
    return false;
  }

  /// Whether a piece that takes less is enough as well.
  [[nodiscard]] bool is_too_much(std::size_t d, std::span<const std::size_t> sizes, std::size_t s,
                                 double need) const noexcept {
    const taken t = taken::by(menu_.pieces()[sizes[s]]);
    for (std::size_t after = s + 1; after < sizes.size(); ++after) {
      if (menu_.rate(sizes[after], d) < need) return false;
      if (taken::by(menu_.pieces()[sizes[after]]).within(t)) return true;
    }
    return false;
  }

  template <class Accept>
  [[nodiscard]] bool try_fit(work_budget& budget, Accept& accept) {
    std::vector<std::size_t> pieces;
    for (const auto& [piece, d] : chosen_) pieces.push_back(piece);
    for (const shared_piece* s : shared_) pieces.push_back(s->piece);
    gpu_fit fit(menu_, pieces);
    work_budget some(std::min(budget.left(), most_fitting));
    const std::uint64_t before = some.left();
    const verdict v = fit.run(some);
    if (!budget.try_spend(before - some.left() + pieces.size())) exact_ = false;
    exact_ &= v != verdict::open;
    if (v != verdict::plan) return false;
    std::vector<dealt_piece> dealt;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      dealt_piece p{pieces[i], fit.gpu(i), {}};
      if (i < chosen_.size()) {
        const std::size_t d = chosen_[i].second;
        p.most.emplace_back(d, menu_.rate(pieces[i], d));
      } else {
        const shared_piece& s = *shared_[i - chosen_.size()];
        for (std::size_t d = 0; d < s.rates.size(); ++d)
          if (s.rates[d] > 0) p.most.emplace_back(d, s.rates[d]);
      }
      dealt.push_back(std::move(p));
    }
    if (accept(std::span<const dealt_piece>(dealt))) return true;
    exact_ = false;
    return false;
  }

  const piece_menu& menu_;
  std::span<const solo_cover> solos_;
  std::span<const std::size_t> order_;
  std::span<const double> needs_;
  std::span<const taken> own_;
  taken spare_;
  std::span<const shared_piece* const> shared_;
  std::vector<std::pair<std::size_t, std::size_t>> chosen_; ///< piece, demand
  bool exact_ = true;
};

} // namespace gsched
