// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/cut_program.hpp>
#include <gsched/partition/detail/pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
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
  std::vector<std::uint32_t> gpus;
  for (const gpu_kind& k : menu.kinds()) gpus.push_back(static_cast<std::uint32_t>(k.gpus.size()));
  const auto each = [&](std::span<const double> prices) { // of a request a second
    std::vector<double> all(demands);
    for (std::size_t d = 0; d < demands; ++d) all[d] = prices[d] / menu.demands()[d].rate;
    return all;
  };
  cut_program program(demands, std::move(gpus), [&](std::size_t k, std::span<const double> prices) {
    const detail::best_cut cut = detail::cut_of(menu, static_cast<std::uint32_t>(k), each(prices));
    priced_cut c{cut.worth, std::vector<double>(demands, 0.0)};
    for (const auto& [piece, d] : cut.parts)
      c.parts[d] += menu.rate(piece, d) / menu.demands()[d].rate;
    return c;
  });
  const cut_bound best = program.solve(most_steps);
  return {best.scale, each(best.prices)};
}

} // namespace gsched
