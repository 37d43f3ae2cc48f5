// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/pieces.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gsched {

/// What partitions take of all GPUs together: of each kind, plain groups and last ones.
struct taken {
  static constexpr std::size_t most_kinds = 4;
  static constexpr std::size_t sorts = 2 * most_kinds;
  std::array<std::uint32_t, sorts> of{};

  bool operator==(const taken&) const noexcept = default;
  [[nodiscard]] static taken by(const piece& p) noexcept {
    taken t;
    t.of[2 * p.kind] = p.plain;
    t.of[2 * p.kind + 1] = p.last ? 1u : 0u;
    return t;
  }
  [[nodiscard]] bool within(const taken& all) const noexcept {
    for (std::size_t s = 0; s < sorts; ++s)
      if (of[s] > all.of[s]) return false;
    return true;
  }
  taken& operator+=(const taken& t) noexcept {
    for (std::size_t s = 0; s < sorts; ++s) of[s] += t.of[s];
    return *this;
  }
  taken& operator-=(const taken& t) noexcept {
    for (std::size_t s = 0; s < sorts; ++s) of[s] -= t.of[s];
    return *this;
  }
};

/// All that the GPUs of the first most_kinds kinds have.
[[nodiscard]] inline taken all_of(const piece_menu& menu) noexcept {
  taken all;
  for (std::size_t k = 0; k < std::min(menu.kinds().size(), taken::most_kinds); ++k) {
    const auto gpus = static_cast<std::uint32_t>(menu.kinds()[k].gpus.size());
    all.of[2 * k] = gpus * menu.kinds()[k].plain;
    all.of[2 * k + 1] = menu.kinds()[k].has_last ? gpus : 0u;
  }
  return all;
}

/// The most that one demand gets from partitions of its own, for everything that they may take of
/// the GPUs together: an unbounded knapsack.
///
/// Differs  from plans: GPUs are a pool of groups, so partitions that fit it need not fit GPUs.
/// Cost     O(entries x sizes), where it has an entry for each way to take no more of each sort
///          than is enough by itself; over `most_entries` it is not usable.
/// Threads  immutable.
class solo_cover {
public:
  solo_cover(const piece_menu& menu, std::size_t demand, std::size_t most_entries) : menu_(menu) {
    for (std::size_t i = 0; i < menu.pieces().size(); ++i)
      if (menu.rate(i, demand) > 0) pieces_.push_back({i, menu.rate(i, demand), 0});
    const taken all = all_of(menu);
    std::size_t entries = 1;
    for (std::size_t k = 0; k < taken::most_kinds && entries <= most_entries; ++k) {
      const std::uint32_t plain =
          enough(static_cast<std::uint32_t>(k), all.of[2 * k], menu.demands()[demand].rate);
      most_.of[2 * k] = plain;
      most_.of[2 * k + 1] = std::min(all.of[2 * k + 1], std::max(plain + 1, some_lasts));
      exact_ &= most_.of[2 * k + 1] == all.of[2 * k + 1];
      for (const std::size_t sort : {2 * k, 2 * k + 1}) {
        stride_[sort] = entries;
        entries *= most_.of[sort] + 1;
      }
    }
    if (entries > most_entries) return;
    for (entry& e : pieces_) e.offset = index(taken::by(menu.pieces()[e.piece]));
    rate_.assign(entries, 0.0);
    first_.assign(entries, nothing);
    taken at;
    for (std::size_t i = 0; i < entries; ++i) {
      for (std::size_t p = 0; p < pieces_.size(); ++p)
        if (taken::by(menu.pieces()[pieces_[p].piece]).within(at) &&
            rate_[i - pieces_[p].offset] + pieces_[p].rate > rate_[i]) {
          rate_[i] = rate_[i - pieces_[p].offset] + pieces_[p].rate;
          first_[i] = static_cast<std::uint32_t>(p);
        }
      for (std::size_t s = 0; s < taken::sorts && ++at.of[s] > most_.of[s]; ++s) at.of[s] = 0;
    }
  }

  [[nodiscard]] bool usable() const noexcept { return !rate_.empty(); }
  [[nodiscard]] std::size_t entries() const noexcept { return rate_.size(); }
  /// Not where there are very many last groups: then ways that take still more of them are left
  /// out.
  [[nodiscard]] bool exact() const noexcept { return usable() && exact_; }

  /// Requests a second from no more than that.
  [[nodiscard]] double most(taken t) const noexcept {
    for (std::size_t s = 0; s < taken::sorts; ++s) t.of[s] = std::min(t.of[s], most_.of[s]);
    return rate_[index(t)];
  }

  /// Every way to take as little as serves that rate: where any sort less would not.
  [[nodiscard]] std::vector<taken> least(double rate) const {
    std::vector<taken> ways;
    const std::size_t row = most_.of[0] + 1; // of plain groups of the first kind
    taken at;
    for (std::size_t begin = 0; begin < rate_.size(); begin += row) {
      const auto from = rate_.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto found = std::lower_bound(from, from + static_cast<std::ptrdiff_t>(row), rate);
      at.of[0] = static_cast<std::uint32_t>(found - from);
      bool least_there = at.of[0] < row;
      for (std::size_t s = 1; s < taken::sorts && least_there; ++s)
        least_there = at.of[s] == 0 || rate_[begin + at.of[0] - stride_[s]] < rate;
      if (least_there) ways.push_back(at);
      for (std::size_t s = 1; s < taken::sorts && ++at.of[s] > most_.of[s]; ++s) at.of[s] = 0;
    }
    return ways;
  }

  /// Of the menu, that take no more than that and together serve most(t).
  [[nodiscard]] std::vector<std::size_t> pieces_within(taken t) const {
    for (std::size_t s = 0; s < taken::sorts; ++s) t.of[s] = std::min(t.of[s], most_.of[s]);
    std::vector<std::size_t> all;
    for (std::size_t i = index(t); first_[i] != nothing;) {
      const entry& e = pieces_[first_[i]];
      all.push_back(e.piece);
      i -= e.offset;
    }
    return all;
  }

private:
  struct entry {
    std::size_t piece;
    double rate;
    std::size_t offset;
  };
  static constexpr std::uint32_t some_lasts = 16;
  static constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] std::size_t index(const taken& t) const noexcept {
    std::size_t i = 0;
    for (std::size_t s = 0; s < taken::sorts; ++s) i += stride_[s] * t.of[s];
    return i;
  }

  /// The fewest plain groups of a kind that serve that rate, or all there are.
  [[nodiscard]] std::uint32_t enough(std::uint32_t kind, std::uint32_t all, double rate) const {
    std::vector<double> most(all + 1, 0.0);
    for (std::uint32_t n = 1; n <= all; ++n) {
      most[n] = most[n - 1];
      for (const entry& e : pieces_)
        if (const piece& p = menu_.pieces()[e.piece]; p.kind == kind && !p.last && p.plain <= n)
          most[n] = std::max(most[n], most[n - p.plain] + e.rate);
      if (most[n] >= rate) return n;
    }
    return all;
  }

  const piece_menu& menu_;
  std::vector<entry> pieces_;
  taken most_;
  bool exact_ = true;
  std::array<std::size_t, taken::sorts> stride_{};
  std::vector<double> rate_;
  std::vector<std::uint32_t> first_; ///< piece, of pieces_
};

} // namespace gsched
