// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/pieces.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace gsched {

/// How much GPUs can do at most.
struct rate_bound {
  double scale = 0;             ///< no plan serves the demands times more than that
  std::vector<double> prices{}; ///< by demand: what a request a second is worth, that proves it
};

namespace detail {

/// What a GPU is worth at most, cut up and given to demands at those prices, and who then gets how
/// much of it.
struct best_cut {
  double worth = 0;
  std::vector<std::pair<std::size_t, std::size_t>> parts{}; ///< piece, demand
};

[[nodiscard]] inline best_cut cut_of(const piece_menu& menu, std::uint32_t kind,
                                     const std::vector<double>& prices) {
  const std::uint32_t plain = menu.kinds()[kind].plain;
  constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();
  std::vector<std::pair<double, std::size_t>> worth(menu.pieces().size(), {0.0, nobody});
  for (std::size_t i = 0; i < menu.pieces().size(); ++i)
    for (std::size_t d = 0; menu.pieces()[i].kind == kind && d < prices.size(); ++d)
      if (const double v = prices[d] * menu.rate(i, d); v > worth[i].first) worth[i] = {v, d};
  // Of 0, 1, ... plain groups; and the piece to begin with, none: a group that stays unused.
  std::vector<double> of(plain + 1, 0.0);
  std::vector<std::size_t> first(plain + 1, nobody);
  for (std::uint32_t n = 1; n <= plain; ++n) {
    of[n] = of[n - 1];
    for (std::size_t i = 0; i < worth.size(); ++i) {
      const piece& p = menu.pieces()[i];
      if (p.kind != kind || p.last || p.plain > n) continue;
      if (const double v = worth[i].first + of[n - p.plain]; v > of[n]) {
        of[n] = v;
        first[n] = i;
      }
    }
  }
  best_cut cut{of[plain], {}};
  std::size_t last = nobody;
  for (std::size_t i = 0; i < worth.size(); ++i) {
    const piece& p = menu.pieces()[i];
    if (p.kind != kind || !p.last) continue;
    if (const double v = worth[i].first + of[plain - p.plain]; v > cut.worth) {
      cut.worth = v;
      last = i;
    }
  }
  if (last != nobody) cut.parts.emplace_back(last, worth[last].second);
  for (std::uint32_t n = plain - (last == nobody ? 0 : menu.pieces()[last].plain); n > 0;) {
    const std::size_t i = first[n];
    n -= i == nobody ? 1 : menu.pieces()[i].plain;
    if (i != nobody) cut.parts.emplace_back(i, worth[i].second);
  }
  return cut;
}

/// The linear program: the largest scale for which GPUs, each a mixture of cuts, serve it. Revised
/// simplex with a dense inverse; cuts are found as they are wanted (Gilmore and Gomory, Operations
/// Research 9(6), 1961, doi:10.1287/opre.9.6.849).
class cut_program {
public:
  explicit cut_program(const piece_menu& menu)
      : menu_(menu), demands_(menu.demands().size()), rows_(demands_ + menu.kinds().size()),
        inverse_(rows_ * rows_, 0.0), level_(rows_) {
    for (std::size_t i = 0; i < rows_; ++i) inverse_[i * rows_ + i] = 1;
    // A little that comes for nothing, and of each demand another amount: no two rows are alike.
    for (std::size_t d = 0; d < demands_; ++d)
      level_[d] = 1e-8 * (1 + std::fmod(static_cast<double>(d + 1) * 0.6180339887, 1.0));
    for (std::size_t k = 0; k < menu.kinds().size(); ++k)
      level_[demands_ + k] = static_cast<double>(menu.kinds()[k].gpus.size());
  }

  [[nodiscard]] rate_bound solve(std::size_t most_steps) {
    rate_bound best{std::numeric_limits<double>::infinity(), std::vector<double>(demands_, 0.0)};
    for (std::size_t step = 0; step < most_steps; ++step)
      if (std::vector<double> column = next(best); column.empty() || !enter(column)) break;
    return best;
  }

private:
  /// What to take more of; empty: there is nothing to gain. Rows are in parts of each demand.
  [[nodiscard]] std::vector<double> next(rate_bound& best) {
    std::vector<double> column(rows_, 0.0);
    scale_enters_ = !scale_row_;
    if (scale_enters_) {
      std::fill_n(column.begin(), demands_, 1.0);
      return column;
    }
    const double* const dual = inverse_.data() + *scale_row_ * rows_;
    const std::size_t lowest =
        static_cast<std::size_t>(std::min_element(dual, dual + rows_) - dual);
    std::vector<double> prices(demands_);
    double all = 0;
    for (std::size_t d = 0; d < demands_; ++d) {
      all += std::max(0.0, dual[d]);
      prices[d] = std::max(0.0, dual[d]) / menu_.demands()[d].rate;
    }
    double bound = 0, most_gain = 1e-9;
    std::optional<std::pair<std::uint32_t, best_cut>> chosen;
    for (std::uint32_t k = 0; k < menu_.kinds().size(); ++k) {
      best_cut cut = cut_of(menu_, k, prices);
      bound += cut.worth * static_cast<double>(menu_.kinds()[k].gpus.size());
      if (const double gain = cut.worth - dual[demands_ + k]; gain > most_gain) {
        most_gain = gain;
        chosen.emplace(k, std::move(cut));
      }
    }
    if (bound / all < best.scale) {
      best.scale = bound / all;
      for (std::size_t d = 0; d < demands_; ++d) best.prices[d] = prices[d] / all;
    }
    if (best.scale <= level_[*scale_row_] * (1 + 1e-7)) return {};
    if (dual[lowest] < -1e-9) {
      column[lowest] = 1; // its slack
      return column;
    }
    if (!chosen) return {};
    for (const auto& [piece, d] : chosen->second.parts)
      column[d] -= menu_.rate(piece, d) / menu_.demands()[d].rate;
    column[demands_ + chosen->first] = 1;
    return column;
  }

  [[nodiscard]] bool enter(const std::vector<double>& column) {
    std::vector<double> change(rows_, 0.0);
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t j = 0; j < rows_; ++j) change[i] += inverse_[i * rows_ + j] * column[j];
    std::size_t out = rows_;
    for (std::size_t i = 0; i < rows_; ++i)
      if (change[i] > 1e-11 && (out == rows_ || level_[i] * change[out] < level_[out] * change[i]))
        out = i;
    if (out == rows_) return false;
    const double by = level_[out] / change[out];
    double* const leaving = inverse_.data() + out * rows_;
    for (std::size_t j = 0; j < rows_; ++j) leaving[j] /= change[out];
    for (std::size_t i = 0; i < rows_; ++i) {
      if (i == out) continue;
      level_[i] = std::max(0.0, level_[i] - by * change[i]);
      for (std::size_t j = 0; change[i] != 0 && j < rows_; ++j)
        inverse_[i * rows_ + j] -= change[i] * leaving[j];
    }
    level_[out] = by;
    if (scale_row_ == out) scale_row_.reset();
    if (scale_enters_) scale_row_ = out;
    return true;
  }

  const piece_menu& menu_;
  std::size_t demands_, rows_;
  std::vector<double> inverse_, level_; ///< of the basis, by row
  std::optional<std::size_t> scale_row_;
  bool scale_enters_ = false;
};

} // namespace detail

/// How many times the demands all GPUs of the menu can serve, at most: no plan that faults_of
/// passes, with whatever interference, serves them more than that many times, but for the
/// verifier's own millionth.
///
/// Proof    Give each demand d a price y_d of a request a second. On a partition where models take
///          turns in a cycle D, in batches that take l_d, D >= sum of l_d and each l_d + D is
///          within its SLO, so 2 l_d is as well: alone, d would do at least b_d / l_d there. It
///          does b_d / D of that, so the parts l_d / D of the rates alone that all together do add
///          up to at most 1, and the partition is worth at most max over d of y_d x rate alone.
///          So a GPU is worth no more than its best cut, each partition to one demand, W(y), and
///          sum of y_d x served rate <= sum of W(y). Interference only makes batches longer. Any
///          prices prove a bound; the linear program's are the best ones.
/// Cost     O(steps x (demands^2 + sizes x demands)); demands have rates above 0.
[[nodiscard]] inline rate_bound bound_of(const piece_menu& menu, std::size_t most_steps = 2000) {
  const std::size_t demands = menu.demands().size();
  for (std::size_t d = 0; d < demands; ++d) { // one that nobody can serve proves it alone
    double most = 0;
    for (std::size_t i = 0; i < menu.pieces().size(); ++i) most = std::max(most, menu.rate(i, d));
    if (most > 0) continue;
    rate_bound none{0, std::vector<double>(demands, 0.0)};
    none.prices[d] = 1 / menu.demands()[d].rate;
    return none;
  }
  if (demands == 0) return {std::numeric_limits<double>::infinity(), {}};
  return detail::cut_program(menu).solve(most_steps);
}

} // namespace gsched
