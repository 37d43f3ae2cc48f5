// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/cut_pool.hpp>
#include <gsched/partition/detail/cut_program.hpp>
#include <gsched/partition/detail/piece_dealing.hpp>
#include <gsched/partition/detail/pieces.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// How much a cut_search may do, counted: the same on every machine.
struct cut_effort {
  cut_rules rules{};
  std::uint32_t nodes = 400;   ///< of the tree
  std::uint32_t refused = 200; ///< what it found and was not accepted
};

/// Looks for a cut of each GPU so that all demands are served although partitions slow each other.
///
/// The linear program over a pool of cuts says how often the demands can be served if GPUs may be
/// mixtures of cuts, and at its prices the pool grows by cuts that may be worth enough; so a few
/// times. Then GPU by GPU a cut is chosen and the program solved again for what is left. Of any
/// solution at least one cut wastes no more than its share of what may be wasted: only these are
/// tried, and one that was tried is no more there for what comes after it.
///
/// Source   branch and price: Barnhart et al., Operations Research 46(3), 1998,
///          doi:10.1287/opre.46.3.316.
/// Differs  the pool is not all cuts: it finds plans and proves nothing. Models do not take turns.
/// Cost     as far as its effort goes: five models on four GPUs 10 ms, seldom 200; above
///          `most_first` first cuts it does nothing.
template <interference_model Interference>
class cut_search {
public:
  cut_search(const latency_table& t, const piece_menu& menu, std::span<const double> needs,
             const Interference& beside, const cut_effort& effort)
      : menu_(menu), demands_(needs.size()), effort_(effort) {
    double first = 0;
    for (const gpu_kind& k : menu.kinds()) {
      first += static_cast<double>(k.plain + 1) * static_cast<double>(demands_ * demands_);
      gpus_.push_back(static_cast<std::uint32_t>(k.gpus.size()));
    }
    if (first > most_first || demands_ == 0) return;
    cut_pool pool(t, menu, needs, beside, effort.rules);
    const std::vector<double> all(demands_, 1.0);
    for (int round = 0; round < most_rounds; ++round) {
      const std::vector<std::size_t> any = indices(pool.cuts().size());
      bound_ = solve(pool.cuts(), any, all, gpus_, 0);
      bool more = false;
      for (std::size_t k = 0; k < gpus_.size() && round + 1 < most_rounds; ++k)
        more |= pool.grow(k, bound_.prices, bound_.worths[k]);
      if (!more) break;
    }
    if (bound_.scale >= 1) keep_useful(pool.cuts());
  }

  /// How often cuts of the pool serve the demands at most; infinite: it has not looked.
  [[nodiscard]] double scale() const noexcept { return bound_.scale; }

  /// accept(pieces) says whether these will do, else it goes on.
  template <class Accept>
  [[nodiscard]] bool run(Accept accept) {
    if (cuts_.empty()) return false;
    nodes_ = refused_ = 0;
    stopped_ = false;
    return visit(indices(cuts_.size()), std::vector<double>(demands_, 1.0), gpus_, accept);
  }

private:
  static constexpr double most_first = 4000;
  static constexpr int most_rounds = 3;
  static constexpr std::size_t most_steps = 300, most_useful = 2000;

  [[nodiscard]] static std::vector<std::size_t> indices(std::size_t n) {
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = i;
    return all;
  }

  /// Of those cuts, for what is left of each demand: 0 or less is nothing.
  [[nodiscard]] cut_bound solve(std::span<const owned_cut> cuts, std::span<const std::size_t> of,
                                const std::vector<double>& left,
                                const std::vector<std::uint32_t>& gpus, double enough) const {
    std::vector<std::size_t> some;
    for (std::size_t d = 0; d < demands_; ++d)
      if (left[d] > 0) some.push_back(d);
    cut_bound bound;
    if (!some.empty()) {
      cut_program program(some.size(), gpus, [&](std::size_t k, std::span<const double> prices) {
        priced_cut best{0, std::vector<double>(some.size(), 0.0)};
        const owned_cut* at = nullptr;
        for (const std::size_t c : of) {
          if (cuts[c].kind != k || gpus[k] == 0) continue;
          double worth = 0;
          for (std::size_t i = 0; i < some.size(); ++i)
            worth += prices[i] * std::min(1.0, cuts[c].parts[some[i]] / left[some[i]]);
          if (worth <= best.worth) continue;
          best.worth = worth;
          at = &cuts[c];
        }
        for (std::size_t i = 0; at && i < some.size(); ++i)
          best.parts[i] = std::min(1.0, at->parts[some[i]] / left[some[i]]);
        return best;
      });
      bound = program.solve(most_steps, enough);
    }
    std::vector<double> prices(demands_, 0.0);
    for (std::size_t i = 0; i < some.size(); ++i) prices[some[i]] = bound.prices[i];
    bound.prices = std::move(prices);
    bound.worths.resize(gpus.size(), 0.0);
    return bound;
  }

  [[nodiscard]] double worth(const owned_cut& c, const std::vector<double>& left,
                             const std::vector<double>& prices) const noexcept {
    double all = 0;
    for (std::size_t d = 0; d < demands_; ++d)
      if (left[d] > 0) all += prices[d] * std::min(1.0, c.parts[d] / left[d]);
    return all;
  }

  /// Those that waste little enough, without those that do no more of anything than another.
  void keep_useful(std::span<const owned_cut> pool) {
    const std::vector<double> all(demands_, 1.0);
    std::vector<std::pair<double, const owned_cut*>> by_waste;
    for (const owned_cut& c : pool)
      if (const double waste = bound_.worths[c.kind] - worth(c, all, bound_.prices);
          waste <= bound_.scale - 1 + 1e-9)
        by_waste.emplace_back(waste, &c);
    std::stable_sort(by_waste.begin(), by_waste.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [waste, c] : by_waste) {
      const bool is_less =
          std::any_of(cuts_.begin(), cuts_.end(), [&, cut = c](const owned_cut& o) {
            return o.kind == cut->kind && std::equal(cut->parts.begin(), cut->parts.end(),
                                                     o.parts.begin(), std::less_equal<>{});
          });
      if (!is_less) cuts_.push_back(*c);
      if (cuts_.size() >= most_useful) break;
    }
  }

  template <class Accept>
  [[nodiscard]] bool visit(std::vector<std::size_t> of, const std::vector<double>& left,
                           const std::vector<std::uint32_t>& gpus, Accept& accept) {
    std::uint32_t there = 0;
    for (const std::uint32_t n : gpus) there += n;
    if (std::all_of(left.begin(), left.end(), [](double l) { return l <= 0; }))
      return is_accepted(accept);
    if (there == 0) return false;
    if (++nodes_ > effort_.nodes && there > 1) stopped_ = true;
    if (stopped_) return false;
    std::vector<std::pair<double, std::size_t>> next;
    if (there == 1) {
      for (const std::size_t c : of)
        if (gpus[cuts_[c].kind] > 0 &&
            std::equal(left.begin(), left.end(), cuts_[c].parts.begin(), std::less_equal<>{}))
          next.emplace_back(0.0, c);
    } else {
      const cut_bound bound = solve(cuts_, of, left, gpus, 1);
      if (bound.scale < 1) return false;
      for (const std::size_t c : of) {
        const double waste = bound.worths[cuts_[c].kind] - worth(cuts_[c], left, bound.prices);
        if (gpus[cuts_[c].kind] > 0 && waste * there <= bound.scale - 1 + 1e-9)
          next.emplace_back(waste, c);
      }
      std::stable_sort(next.begin(), next.end());
    }
    for (const auto& [waste, c] : next) {
      std::vector<double> after = left;
      for (std::size_t d = 0; d < demands_; ++d) after[d] -= cuts_[c].parts[d];
      std::vector<std::uint32_t> fewer = gpus;
      --fewer[cuts_[c].kind];
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
    std::vector<dealt_piece> dealt;
    std::vector<std::size_t> used(gpus_.size(), 0);
    for (const std::size_t c : chosen_) {
      const owned_cut& cut = cuts_[c];
      const std::uint32_t gpu = menu_.kinds()[cut.kind].gpus[used[cut.kind]++];
      for (const owned_piece& o : cut.pieces)
        dealt.push_back({o.piece, gpu, {{o.demand, menu_.rate(o.piece, o.demand)}}});
    }
    if (accept(std::span<const dealt_piece>(dealt))) return true;
    stopped_ = ++refused_ >= effort_.refused;
    return false;
  }

  const piece_menu& menu_;
  std::size_t demands_;
  cut_effort effort_;
  std::vector<std::uint32_t> gpus_; ///< by kind
  cut_bound bound_;
  std::vector<owned_cut> cuts_;     ///< those that may be of use
  std::vector<std::size_t> chosen_; ///< of them
  std::uint32_t nodes_ = 0, refused_ = 0;
  bool stopped_ = false;
};

} // namespace gsched
