// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/capacity.hpp>
#include <gsched/partition/detail/pieces.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// A partition that one demand has for itself.
struct owned_piece {
  std::size_t piece = 0; ///< of the menu
  std::size_t demand = 0;
  auto operator<=>(const owned_piece&) const noexcept = default;
};

/// A GPU cut up, and what its partitions do beside each other.
struct owned_cut {
  std::size_t kind = 0;
  std::vector<owned_piece> pieces{};
  std::vector<double> parts{}; ///< of each demand, 1 at most
};

/// How far to look for cuts.
struct cut_rules {
  std::uint32_t most_pieces = 3; ///< of a GPU
  double waste = 0.04;   ///< of all that is wanted, that a cut may be worth less than the best
  double margin = 1.005; ///< times as slow as partitions are beside each other
  std::size_t most_cuts = 20'000;
};

/// Cuts of GPUs that may be of use, each with what interference leaves of it: partitions only slow
/// those on their own GPU, so what a cut does is known before it is known what other GPUs do. All
/// run in the largest batches that are in time.
///
/// Cost     a cut O(pieces) interferences and capacities, a few times.
/// Threads  one owner.
template <interference_model Interference>
class cut_pool {
public:
  /// `needs` are by demand: what is to be served. All outlive it.
  cut_pool(const latency_table& t, const piece_menu& menu, std::span<const double> needs,
           const Interference& beside, const cut_rules& rules)
      : table_(t), menu_(menu), needs_(needs), beside_(beside), rules_(rules) {
    for (std::size_t p = 0; p < menu.pieces().size(); ++p)
      for (std::size_t d = 0; d < needs.size(); ++d) hoped_.push_back(hoped(p, d));
    const std::vector<double> all_alike(needs.size(), 1.0);
    for (std::size_t k = 0; k < menu.kinds().size(); ++k)
      grow(k, all_alike, -std::numeric_limits<double>::infinity(), 2);
  }

  /// Adds cuts of that kind that may be worth so much at those prices; false: there is no new one.
  bool grow(std::size_t kind, std::span<const double> prices, double least) {
    return grow(kind, prices, least - rules_.waste, rules_.most_pieces);
  }

  [[nodiscard]] std::span<const owned_cut> cuts() const noexcept { return cuts_; }

private:
  static constexpr int most_rounds = 3;
  static constexpr double usual = 1.1; ///< how slow a neighbour is, for what it may be like

  [[nodiscard]] bool is_whole(const piece& p) const noexcept {
    const gpu_kind& k = menu_.kinds()[p.kind];
    return p.plain == k.plain && p.last == k.has_last;
  }
  [[nodiscard]] gpulet as_full(std::size_t p, std::size_t d, std::uint32_t batch) const {
    return {0, menu_.pieces()[p].sms, {}, {{menu_.demands()[d].model, 1, std::max(1u, batch)}}};
  }
  [[nodiscard]] capacity on(std::size_t p, std::size_t d, double factor) const noexcept {
    const demand& of = menu_.demands()[d];
    return capacity_of(table_, of.model, menu_.pieces()[p].sms, of.slo, factor);
  }

  /// The part of a demand that a piece serves beside the mildest neighbour on all of the rest.
  [[nodiscard]] double hoped(std::size_t p, std::size_t d) const {
    const piece& own = menu_.pieces()[p];
    double factor = 1;
    if (!is_whole(own)) {
      factor = std::numeric_limits<double>::infinity();
      const gpu_kind& k = menu_.kinds()[own.kind];
      for (std::size_t rest = 0; rest < menu_.pieces().size(); ++rest) {
        const piece& r = menu_.pieces()[rest];
        if (r.kind != own.kind || r.plain + own.plain != k.plain ||
            r.last == (own.last || !k.has_last))
          continue;
        for (std::size_t other = 0; other < needs_.size(); ++other) {
          const gpulet both[] = {as_full(rest, other, on(rest, other, usual).batch),
                                 as_full(p, d, on(p, d, usual).batch)};
          factor = std::min<double>(
              factor, beside_(std::span<const gpulet>(both), 1, menu_.demands()[d].model));
        }
      }
      if (!(factor < std::numeric_limits<double>::infinity())) factor = 1;
    }
    return std::min(1.0, on(p, d, factor).rate / needs_[d]);
  }

  bool grow(std::size_t kind, std::span<const double> prices, double least, std::uint32_t pieces) {
    const std::size_t before = cuts_.size();
    const std::uint32_t plain = menu_.kinds()[kind].plain;
    worth_.resize(hoped_.size());
    most_.assign(plain + 1, 0.0);
    by_size_.assign(plain + 1, {});
    for (std::size_t p = 0; p < menu_.pieces().size(); ++p)
      for (std::size_t d = 0; d < needs_.size(); ++d) {
        const std::size_t i = p * needs_.size() + d;
        worth_[i] = prices[d] * hoped_[i];
        const piece& of = menu_.pieces()[p];
        if (of.kind == kind && !of.last && worth_[i] > 0) by_size_[of.plain].push_back({p, d});
      }
    for (std::uint32_t n = 1; n <= plain; ++n) {
      most_[n] = most_[n - 1];
      for (std::uint32_t m = 1; m <= n; ++m)
        for (const owned_piece& o : by_size_[m])
          most_[n] = std::max(most_[n], most_[n - m] + at(o));
    }
    least_ = least;
    std::vector<owned_piece> chosen;
    if (!menu_.kinds()[kind].has_last) {
      extend(kind, plain, plain, 0, 0, pieces, chosen);
    } else {
      for (std::size_t p = 0; p < menu_.pieces().size(); ++p)
        for (std::size_t d = 0; d < needs_.size(); ++d) {
          const piece& of = menu_.pieces()[p];
          if (of.kind != kind || !of.last || !(at({p, d}) > 0)) continue;
          chosen.assign(1, {p, d});
          extend(kind, plain - of.plain, plain, 0, at({p, d}), pieces, chosen);
        }
    }
    return cuts_.size() > before;
  }
  [[nodiscard]] double at(const owned_piece& o) const noexcept {
    return worth_[o.piece * needs_.size() + o.demand];
  }

  /// Pieces that do not grow, from the i-th of that size on, until the GPU is full.
  void extend(std::size_t kind, std::uint32_t left, std::uint32_t size, std::size_t from,
              double worth, std::uint32_t most_pieces, std::vector<owned_piece>& chosen) {
    if (left == 0) keep(kind, chosen);
    if (left == 0 || chosen.size() >= most_pieces || cuts_.size() >= rules_.most_cuts) return;
    for (std::uint32_t n = std::min(left, size); n > 0; --n)
      for (std::size_t i = n == size ? from : 0; i < by_size_[n].size(); ++i) {
        const owned_piece o = by_size_[n][i];
        if (worth + at(o) + most_[left - n] < least_) continue;
        chosen.push_back(o);
        extend(kind, left - n, n, i, worth + at(o), most_pieces, chosen);
        chosen.pop_back();
      }
  }

  /// Works out what each can do where all do as much as they can: their batches depend on what
  /// they do to each other, and this on their batches, so a few times.
  void keep(std::size_t kind, const std::vector<owned_piece>& chosen) {
    if (!known_.insert(chosen).second) return;
    std::vector<gpulet> all;
    all.reserve(chosen.size());
    for (const owned_piece& o : chosen) all.push_back(as_full(o.piece, o.demand, 8));
    std::vector<double> rates(chosen.size());
    for (int round = 0; round < most_rounds; ++round) {
      bool same = true;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        portion& p = all[i].portions[0];
        const double factor =
            chosen.size() == 1 ? 1
                               : rules_.margin * beside_(std::span<const gpulet>(all), i, p.model);
        const capacity c = on(chosen[i].piece, chosen[i].demand, factor);
        rates[i] = c.rate;
        same &= p.batch == std::max(1u, c.batch);
        p.batch = std::max(1u, c.batch);
      }
      if (same) break;
    }
    owned_cut cut{kind, chosen, std::vector<double>(needs_.size(), 0.0)};
    for (std::size_t i = 0; i < chosen.size(); ++i)
      cut.parts[chosen[i].demand] += rates[i] * (1 - 1e-9) / needs_[chosen[i].demand];
    for (double& part : cut.parts) part = std::min(1.0, part);
    cuts_.push_back(std::move(cut));
  }

  const latency_table& table_;
  const piece_menu& menu_;
  std::span<const double> needs_;
  const Interference& beside_;
  cut_rules rules_;
  std::vector<double> hoped_; ///< by piece, then demand
  std::set<std::vector<owned_piece>> known_;
  std::vector<owned_cut> cuts_;
  // At the prices of now:
  std::vector<double> worth_;                     ///< by piece, then demand
  std::vector<double> most_;                      ///< by plain groups
  std::vector<std::vector<owned_piece>> by_size_; ///< without the last group
  double least_ = 0;
};

} // namespace gsched
