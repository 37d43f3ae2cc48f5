// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/work_budget.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// A partition that two or more demands share in time with certain batches, and the highest rates
/// that it serves at the same time.
struct shared_candidate {
  std::size_t candidate = 0;   ///< index into the candidate table
  std::vector<double> rates{}; ///< by demand; 0: the demand is not in the partition
  double waste = 0;            ///< worth of the partition less worth of the rates
};

/// All shared candidates whose waste is at most a limit.
///
/// For batches b_d of latencies l_d the best cycle is the shortest, sum of l_d: a longer cycle
/// lowers every rate. So a partition serves at most b_d / cycle of each demand, for one of the
/// finitely many batch vectors whose every l_d + cycle is within the SLO. Dominated vectors are
/// left out: those where one request more takes no more time, and those where one request less
/// still serves the whole demand.
///
/// Cost     O(batch vectors x demands); one step of the budget for each 8 demands.
class shared_candidates {
public:
  /// `needs` are the rates to serve, by demand; `prices` the worth of one request a second, by
  /// demand; `worths` the worths of the candidates.
  shared_candidates(const latency_table& t, const candidate_table& choices,
                    std::span<const double> needs, std::span<const double> prices,
                    std::span<const double> worths, double most_waste, work_budget& budget)
      : choices_(choices), needs_(needs), prices_(prices), most_waste_(most_waste),
        batches_(needs.size()), times_(needs.size()) {
    for (std::size_t i = 0; i < choices.candidates().size() && complete_; ++i) {
      for (std::size_t d = 0; d < needs.size(); ++d) {
        times_[d].assign(1, duration{});
        const model_demand& of = choices.demands()[d];
        if (choices.candidates()[i].sms < t.sizes(of.model).front()) continue;
        for (std::uint32_t b = 1; b <= t.batches(of.model).back(); ++b) {
          const duration l =
              planned_latency(t, of.model, b, choices.candidates()[i].sms, choices.factor(i, d));
          if (2 * l > of.slo) break;
          times_[d].push_back(l);
        }
      }
      which_ = i;
      worth_ = worths[i];
      extend(0, 0, duration{}, duration::max(), budget);
    }
    std::stable_sort(all_.begin(), all_.end(),
                     [](const auto& a, const auto& b) { return a.waste < b.waste; });
  }

  [[nodiscard]] std::span<const shared_candidate> all() const noexcept { return all_; }
  /// Whether the budget was enough to find all of them.
  [[nodiscard]] bool complete() const noexcept { return complete_; }

private:
  static constexpr std::size_t most_kept = 2'000'000; ///< rates

  /// Chooses the batches of demand d and later ones. `room` is the smallest SLO less own latency of
  /// the members so far: the longest cycle that they allow.
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
      const duration left = std::min(room, choices_.demands()[d].slo - times_[d][b]);
      if (with > left) break;
      batches_[d] = b;
      extend(d + 1, members + 1, with, left, budget);
    }
    batches_[d] = 0;
  }

  void keep(duration cycle) {
    shared_candidate s{which_, std::vector<double>(batches_.size(), 0.0), worth_};
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

  const candidate_table& choices_;
  std::span<const double> needs_, prices_;
  double most_waste_, worth_ = 0;
  std::size_t which_ = 0;                    ///< the current candidate
  std::vector<std::uint32_t> batches_;       ///< by demand; 0: not a member
  std::vector<std::vector<duration>> times_; ///< by demand, then batch; on the current candidate
  std::vector<shared_candidate> all_;
  bool complete_ = true;
};

} // namespace gsched::detail
