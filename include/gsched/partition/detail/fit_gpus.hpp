// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// What a search says: there is one, there is none, or it gave up before it knew.
enum class verdict : std::uint8_t { plan, impossible, open };

/// How much a search may do, counted in steps: the same on every machine.
class work_budget {
public:
  explicit work_budget(std::uint64_t steps) noexcept : left_(steps) {}
  /// Takes so many; false: there is nothing left.
  [[nodiscard]] bool try_spend(std::uint64_t steps = 1) noexcept {
    left_ -= std::min(left_, steps);
    return left_ > 0;
  }
  void give_up() noexcept { left_ = 0; }
  [[nodiscard]] std::uint64_t left() const noexcept { return left_; }

private:
  std::uint64_t left_;
};

/// Which GPU each of these pieces of the menu goes to, so that all fit side by side. The largest
/// first, where the least is left; if that is no way, all others, as far as `budget` goes.
///
/// Source   bin packing by branching on GPUs that differ.
/// Cost     O(pieces x GPUs) for the first way.
class gpu_fit {
public:
  gpu_fit(const piece_menu& menu, std::span<const std::size_t> pieces)
      : menu_(menu), pieces_(pieces), gpus_(pieces.size()), order_(pieces.size()) {
    for (const gpu_kind& k : menu.kinds())
      rooms_.emplace_back(k.gpus.size(), room{k.plain, k.has_last});
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto rank = [&](std::size_t i) {
      const piece& p = menu.pieces()[pieces[i]];
      return std::pair(p.plain, p.last);
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
  }

  [[nodiscard]] verdict run(work_budget& budget) {
    if (place(0, budget)) return verdict::plan;
    return stopped_ ? verdict::open : verdict::impossible;
  }
  /// By piece as given; of a run that found them.
  [[nodiscard]] std::uint32_t gpu(std::size_t i) const noexcept { return gpus_[i]; }

private:
  struct room {
    std::uint32_t plain;
    bool last;
    auto operator<=>(const room&) const noexcept = default;
  };

  [[nodiscard]] bool place(std::size_t i, work_budget& budget) {
    if (i == order_.size()) return true;
    const piece& p = menu_.pieces()[pieces_[order_[i]]];
    std::vector<room>& rooms = rooms_[p.kind];
    std::vector<std::pair<room, std::size_t>> ways;
    for (std::size_t g = 0; g < rooms.size(); ++g)
      if (rooms[g].plain >= p.plain && (rooms[g].last || !p.last)) ways.emplace_back(rooms[g], g);
    std::sort(ways.begin(), ways.end());
    for (std::size_t w = 0; w < ways.size() && !stopped_; ++w) {
      if (w > 0 && ways[w].first == ways[w - 1].first) continue;
      if (!budget.try_spend()) stopped_ = true;
      room& r = rooms[ways[w].second];
      const room before = r;
      r.plain -= p.plain;
      r.last &= !p.last;
      gpus_[order_[i]] = menu_.kinds()[p.kind].gpus[ways[w].second];
      if (place(i + 1, budget)) return true;
      r = before;
    }
    return false;
  }

  const piece_menu& menu_;
  std::span<const std::size_t> pieces_;
  std::vector<std::uint32_t> gpus_;
  std::vector<std::size_t> order_;
  std::vector<std::vector<room>> rooms_; ///< by kind, then GPU of it
  bool stopped_ = false;
};

} // namespace gsched
