// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/group_usage.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gsched::detail {

/// The highest rate that one demand reaches with partitions of its own, for every number of groups
/// that these may use of all GPUs together: an unbounded knapsack.
///
/// Differs  from a plan: the GPUs count as one pool of groups, so the partitions may not fit the
///          single GPUs.
/// Cost     O(entries x candidates). Each number of groups up to the number that serves the demand
///          by itself has an entry, and with limited places each number of groups and places; with
///          more than `most_entries` the knapsack is not usable.
/// Threads  immutable.
class exclusive_knapsack {
public:
  exclusive_knapsack(const candidate_table& choices, std::size_t demand, std::size_t most_entries)
      : choices_(choices) {
    for (std::size_t i = 0; i < choices.candidates().size(); ++i)
      if (choices.rate(i, demand) > 0) candidates_.push_back({i, choices.rate(i, demand), 0});
    const group_usage all = all_of(choices);
    std::size_t entries = 1;
    for (std::size_t k = 0; k < group_usage::most_kinds && entries <= most_entries; ++k) {
      const std::uint32_t regular = choices.places() > 0 // fewer partitions may need more groups
                                        ? all.of[2 * k]
                                        : sufficient(static_cast<std::uint32_t>(k), all.of[2 * k],
                                                     choices.demands()[demand].rate);
      most_.of[2 * k] = regular;
      most_.of[2 * k + 1] = std::min(all.of[2 * k + 1], std::max(regular + 1, most_remainders));
      exact_ &= most_.of[2 * k + 1] == all.of[2 * k + 1];
      for (const std::size_t sort : {2 * k, 2 * k + 1}) {
        stride_[sort] = entries;
        entries *= most_.of[sort] + 1;
      }
    }
    most_.of[group_usage::places] = all.of[group_usage::places];
    stride_[group_usage::places] = entries;
    entries *= most_.of[group_usage::places] + 1;
    if (entries > most_entries) return;
    for (entry& e : candidates_)
      e.offset = index(group_usage::by(choices.candidates()[e.candidate]));
    rate_.assign(entries, 0.0);
    first_.assign(entries, none);
    group_usage at;
    for (std::size_t i = 0; i < entries; ++i) {
      for (std::size_t p = 0; p < candidates_.size(); ++p)
        if (group_usage::by(choices.candidates()[candidates_[p].candidate]).within(at) &&
            rate_[i - candidates_[p].offset] + candidates_[p].rate > rate_[i]) {
          rate_[i] = rate_[i - candidates_[p].offset] + candidates_[p].rate;
          first_[i] = static_cast<std::uint32_t>(p);
        }
      for (std::size_t s = 0; s < group_usage::sorts && ++at.of[s] > most_.of[s]; ++s) at.of[s] = 0;
    }
  }

  [[nodiscard]] bool usable() const noexcept { return !rate_.empty(); }
  [[nodiscard]] std::size_t entries() const noexcept { return rate_.size(); }
  /// Whether `least` returns every minimal usage. With very many remainder groups it leaves out
  /// those that use more than most_remainders of them.
  [[nodiscard]] bool exact() const noexcept { return usable() && exact_; }

  /// The highest rate within a usage, requests a second.
  [[nodiscard]] double most(group_usage t) const noexcept {
    for (std::size_t s = 0; s < group_usage::sorts; ++s) t.of[s] = std::min(t.of[s], most_.of[s]);
    return rate_[index(t)];
  }

  /// The minimal usages that serve a rate: with one group less of any sort they do not.
  [[nodiscard]] std::vector<group_usage> least(double rate) const {
    std::vector<group_usage> ways;
    const std::size_t row = most_.of[0] + 1; // entries of the first sort
    group_usage at;
    for (std::size_t begin = 0; begin < rate_.size(); begin += row) {
      const auto from = rate_.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto found = std::lower_bound(from, from + static_cast<std::ptrdiff_t>(row), rate);
      at.of[0] = static_cast<std::uint32_t>(found - from);
      bool least_there = at.of[0] < row;
      for (std::size_t s = 1; s < group_usage::sorts && least_there; ++s)
        least_there = at.of[s] == 0 || rate_[begin + at.of[0] - stride_[s]] < rate;
      if (least_there) ways.push_back(at);
      for (std::size_t s = 1; s < group_usage::sorts && ++at.of[s] > most_.of[s]; ++s) at.of[s] = 0;
    }
    return ways;
  }

  /// Indices of candidates that together serve most(t) and use at most t.
  [[nodiscard]] std::vector<std::size_t> candidates_within(group_usage t) const {
    for (std::size_t s = 0; s < group_usage::sorts; ++s) t.of[s] = std::min(t.of[s], most_.of[s]);
    std::vector<std::size_t> all;
    for (std::size_t i = index(t); first_[i] != none;) {
      const entry& e = candidates_[first_[i]];
      all.push_back(e.candidate);
      i -= e.offset;
    }
    return all;
  }

private:
  struct entry {
    std::size_t candidate;
    double rate;
    std::size_t offset;
  };
  static constexpr std::uint32_t most_remainders = 16;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] std::size_t index(const group_usage& t) const noexcept {
    std::size_t i = 0;
    for (std::size_t s = 0; s < group_usage::sorts; ++s) i += stride_[s] * t.of[s];
    return i;
  }

  /// The fewest regular groups of a kind that serve a rate, or all of them.
  [[nodiscard]] std::uint32_t sufficient(std::uint32_t kind, std::uint32_t all, double rate) const {
    std::vector<double> most(all + 1, 0.0);
    for (std::uint32_t n = 1; n <= all; ++n) {
      most[n] = most[n - 1];
      for (const entry& e : candidates_)
        if (const candidate& p = choices_.candidates()[e.candidate];
            p.kind == kind && !p.remainder && p.regular <= n)
          most[n] = std::max(most[n], most[n - p.regular] + e.rate);
      if (most[n] >= rate) return n;
    }
    return all;
  }

  const candidate_table& choices_;
  std::vector<entry> candidates_;
  group_usage most_; ///< of any entry
  bool exact_ = true;
  std::array<std::size_t, group_usage::sorts> stride_{};
  std::vector<double> rate_;         ///< by entry
  std::vector<std::uint32_t> first_; ///< by entry: an index into candidates_, of one that it uses
};

} // namespace gsched::detail
