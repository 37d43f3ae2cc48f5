// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/candidates.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gsched::detail {

/// The cut of a GPU into candidates that is worth most, where each candidate has a worth of its
/// own. Groups may stay unused. If the table limits the places of a GPU, a cut has at most so many
/// partitions.
///
/// Cost     solve: O(places x candidates x groups).
/// Threads  one owner.
class best_cut {
public:
  /// `choices` outlives it.
  best_cut(const candidate_table& choices, std::uint32_t kind)
      : choices_(choices), kind_(kind), groups_(choices.kinds()[kind].regular),
        places_(choices.places()) {}

  /// Finds the best cut for a worth of each candidate of the table. Worths of 0 or less, and those
  /// of other kinds, are not used.
  void solve(std::span<const double> worth) {
    const std::size_t row = groups_ + 1;
    most_.assign(std::size_t{places_ + 1} * row, 0.0);
    first_.assign(most_.size(), none);
    worth_ = worth;
    for (std::uint32_t left = places_ > 0 ? 1 : 0; left <= places_; ++left)
      for (std::uint32_t n = 1; n <= groups_; ++n) {
        const std::size_t at = std::size_t{left} * row + n;
        most_[at] = most_[at - 1];
        for (std::size_t i = 0; i < worth.size(); ++i) {
          const candidate& p = choices_.candidates()[i];
          if (p.kind != kind_ || p.remainder || p.regular > n) continue;
          if (const double v = worth[i] + after(left, n, p); v > most_[at]) {
            most_[at] = v;
            first_[at] = i;
          }
        }
      }
    most_worth_ = most_.back();
    last_ = none;
    for (std::size_t i = 0; i < worth.size(); ++i) {
      const candidate& p = choices_.candidates()[i];
      if (p.kind != kind_ || !p.remainder) continue;
      if (const double v = worth[i] + after(places_, groups_, p); v > most_worth_) {
        most_worth_ = v;
        last_ = i;
      }
    }
  }

  /// The worth of the best cut.
  [[nodiscard]] double worth() const noexcept { return most_worth_; }
  /// Its candidates; first the one with the remainder of the SMs.
  [[nodiscard]] std::vector<std::size_t> candidates() const {
    std::vector<std::size_t> all;
    std::uint32_t left = places_, n = groups_;
    const auto take = [&](std::size_t i) {
      all.push_back(i);
      left -= choices_.candidates()[i].places;
      n -= choices_.candidates()[i].regular;
    };
    if (last_ != none) take(last_);
    while (n > 0)
      if (const std::size_t i = first_[std::size_t{left} * (groups_ + 1) + n]; i != none)
        take(i);
      else
        --n;
    return all;
  }

  /// The most that so many places and regular groups are worth, without the remainder.
  [[nodiscard]] double most(std::uint32_t places, std::uint32_t groups) const noexcept {
    return most_[std::size_t{places} * (groups_ + 1) + groups];
  }
  /// The same with the remainder.
  [[nodiscard]] double most_with_remainder(std::uint32_t places,
                                           std::uint32_t groups) const noexcept {
    double all = most(places, groups);
    for (std::size_t i = 0; i < worth_.size(); ++i) {
      const candidate& p = choices_.candidates()[i];
      if (p.kind == kind_ && p.remainder && p.regular <= groups && p.places <= places)
        all = std::max(all, worth_[i] + after(places, groups, p));
    }
    return all;
  }

private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// What is left of places and groups beside a candidate is worth so much.
  [[nodiscard]] double after(std::uint32_t places, std::uint32_t groups,
                             const candidate& p) const noexcept {
    return most(places - p.places, groups - p.regular);
  }

  const candidate_table& choices_;
  std::uint32_t kind_, groups_, places_;
  std::span<const double> worth_;
  std::vector<double> most_;       ///< by places, then regular groups
  std::vector<std::size_t> first_; ///< a candidate of it (none: an unused group)
  double most_worth_ = 0;
  std::size_t last_ = none; ///< the candidate with the remainder
};

} // namespace gsched::detail
