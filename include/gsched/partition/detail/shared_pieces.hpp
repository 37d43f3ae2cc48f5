// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/fit_gpus.hpp>
#include <gsched/partition/detail/pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// A partition on which two or more demands take turns: what it serves of each at most, all at
/// once, when it runs certain batches.
struct shared_piece {
  std::size_t piece = 0;
  std::vector<double> rates{}; ///< by demand; 0: it is not there
  double waste = 0;            ///< what the partition is worth less what it serves is worth
};

/// Every way to share a partition that wastes no more than so much, with demands that take turns in
/// the fewest batches.
///
/// With batches b_d that take l_d, the cycle is best as short as they are, sum of l_d: a longer one
/// takes time from everybody. So what a partition can do is to serve b_d / cycle of each, or less,
/// for one of the vectors of batches whose every l_d + cycle is within the SLO: there are only so
/// many. Left out are those that others are as good as: where one more request would be for
/// nothing, or one less still serves all that is needed.
///
/// Cost     O(vectors of batches x demands), a step of the budget for each 8 demands.
class shared_pieces {
public:
  /// `needs` are by demand requests a second, `prices` what one is worth, `worths` by piece.
  shared_pieces(const latency_table& t, const piece_menu& menu, std::span<const double> needs,
                std::span<const double> prices, std::span<const double> worths, double most_waste,
                work_budget& budget)
      : menu_(menu), needs_(needs), prices_(prices), most_waste_(most_waste),
        batches_(needs.size()), times_(needs.size()) {
    for (std::size_t i = 0; i < menu.pieces().size() && complete_; ++i) {
      for (std::size_t d = 0; d < needs.size(); ++d) {
        times_[d].assign(1, duration{});
        const demand& of = menu.demands()[d];
        if (menu.pieces()[i].sms < t.sizes(of.model).front()) continue;
        for (std::uint32_t b = 1; b <= t.batches(of.model).back(); ++b) {
          const duration l =
              planned_latency(t, of.model, b, menu.pieces()[i].sms, menu.factor(i, d));
          if (2 * l > of.slo) break;
          times_[d].push_back(l);
        }
      }
      piece_ = i;
      worth_ = worths[i];
      extend(0, 0, duration{}, duration::max(), budget);
    }
    std::stable_sort(all_.begin(), all_.end(),
                     [](const auto& a, const auto& b) { return a.waste < b.waste; });
  }

  [[nodiscard]] std::span<const shared_piece> all() const noexcept { return all_; }
  /// Whether the budget was enough to find all.
  [[nodiscard]] bool complete() const noexcept { return complete_; }

private:
  static constexpr std::size_t most_kept = 2'000'000; ///< rates

  /// `room` is the least of SLO less own time of those who are there.
  void extend(std::size_t d, std::size_t members, duration cycle, duration room,
              work_budget& budget) {
    if (!complete_) return;
    if (d == batches_.size()) {
      const std::size_t size = batches_.size();
      if (!budget.try_spend(1 + size / 8) || all_.size() * size >= most_kept) complete_ = false;
      if (members >= 2) keep(cycle);
      return;
    }
    batches_[d] = 0;
    extend(d + 1, members, cycle, room, budget);
    for (std::uint32_t b = 1; b < times_[d].size(); ++b) {
      const duration with = cycle + times_[d][b];
      const duration left = std::min(room, menu_.demands()[d].slo - times_[d][b]);
      if (with > left) break;
      batches_[d] = b;
      extend(d + 1, members + 1, with, left, budget);
    }
    batches_[d] = 0;
  }

  void keep(duration cycle) {
    shared_piece s{piece_, std::vector<double>(batches_.size(), 0.0), worth_};
    for (std::size_t d = 0; d < batches_.size(); ++d) {
      const std::uint32_t b = batches_[d];
      if (b == 0) continue;
      const duration more = b + 1 < times_[d].size() ? times_[d][b + 1] : duration::max();
      if (more == times_[d][b]) return;
      const duration shorter = cycle - times_[d][b] + times_[d][b - 1];
      if (b > 1 && (b - 1) / to_s(shorter) >= needs_[d]) return;
      s.rates[d] = std::min(needs_[d], b / to_s(cycle));
      s.waste -= prices_[d] * s.rates[d];
    }
    if (s.waste <= most_waste_) all_.push_back(std::move(s));
  }

  const piece_menu& menu_;
  std::span<const double> needs_, prices_;
  double most_waste_, worth_ = 0;
  std::size_t piece_ = 0;
  std::vector<std::uint32_t> batches_;
  std::vector<std::vector<duration>> times_; ///< by demand, then batch; on this piece
  std::vector<shared_piece> all_;
  bool complete_ = true;
};

} // namespace gsched
