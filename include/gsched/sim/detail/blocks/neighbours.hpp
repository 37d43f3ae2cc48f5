// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/detail/blocks/grid.hpp>
#include <gsched/sim/detail/blocks/sm_set.hpp>
#include <gsched/sim/detail/laws/contention.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// The SMs of each running grid, the number of SMs that any two grids share, and the resulting
/// slow-downs.
///
/// Cost     counting a grid O(SMs / 256 * running grids); slowdown O(running grids).
/// Threads  one owner; no locking.
class neighbours {
public:
  neighbours(const contention_law& law, std::uint32_t sms, std::size_t grids, std::size_t slices)
      : law_(law), sms_(sms), width_((sms + sm_block::size - 1) / sm_block::size),
        row_((grids + group - 1) / group), union_(width_), sets_(width_ * grids),
        lists_(width_ * slices), sides_(grids), weights_(grids * row_), met_(row_) {}

  /// Stores the SMs that a list of slices covers, until the list is released.
  void note(const sm_map& map, std::uint32_t list) noexcept {
    sm_block* const set = lists_.data() + list * width_;
    for (std::uint32_t b = 0; b < width_; ++b) {
      const std::uint32_t from = b * sm_block::size;
      sm_block all;
      for (std::uint32_t p = list; p != sm_map::none; p = map.at(p).next) {
        const std::uint32_t first = map.at(p).first;
        all |= sms_between(beyond(first, from), beyond(first + map.at(p).sms, from));
      }
      set[b] = all;
    }
  }

  /// The SMs of a grid are those of its noted lists of slices: call begin(), join() for each list,
  /// then count().
  void begin() noexcept {
    for (sm_block& b : union_) b = {};
  }
  void join(std::uint32_t list) noexcept {
    const sm_block* const set = lists_.data() + list * width_;
    for (std::size_t b = 0; b < width_; ++b) union_[b] |= set[b];
  }

  /// Counts the SMs that the grid shares with the other running grids.
  void count(std::uint32_t slot, const grid& g, bool fresh,
             const std::vector<std::uint32_t>& running) noexcept {
    sm_block* const mine = set_of(slot);
    bool same = !fresh;
    for (std::size_t b = 0; b < width_; ++b) {
      same &= mine[b] == union_[b];
      mine[b] = union_[b];
    }
    if (same) {
      weigh(slot, g);
      return;
    }
    side& s = sides_[slot];
    s.held = common(mine, mine);
    weigh(slot, g);
    for (const std::uint32_t other : running) {
      const std::uint32_t n = common(mine, set_of(other));
      share(slot, other, n);
      share(other, slot, n);
    }
    lanes& own = weights_[slot * row_ + slot / group]; // a grid is not its own neighbour
    own.warps[slot % group] = own.near[slot % group] = own.far[slot % group] = 0;
  }

  /// The grid runs alone, on `held` SMs: replaces count() and meet().
  void count_alone(std::uint32_t slot, const grid& g, std::uint32_t held) noexcept {
    sides_[slot].held = held;
    weigh(slot, g);
    all_warps_ = sides_[slot].all_warps;
    all_memory_ = sides_[slot].memory;
    met_[slot / group] = {};
  }

  /// Sums up the surroundings of each running grid, before slowdown() is called.
  void meet(const std::vector<std::uint32_t>& running) noexcept {
    const std::uint32_t last = total(running);
    for (std::size_t which = 0; which <= last / group; ++which) meet(running, which);
  }

  /// The present time of this grid's blocks over their time alone.
  [[nodiscard]] double slowdown(std::uint32_t slot, const kernel_load& load,
                                bool beside) const noexcept {
    const side& me = sides_[slot];
    const lanes& of_group = met_[slot / group];
    surroundings s;
    s.beside = beside;
    s.own_warps = me.warps;
    if (me.held == sms_) { // it shares SMs with all others, completely
      s.other_warps = (all_warps_ - me.all_warps) / static_cast<float>(sms_);
      s.near_memory = all_memory_ - me.memory;
      return law_.stretch(load, s);
    }
    s.other_warps = of_group.warps[slot % group] / static_cast<float>(std::max(me.held, 1u));
    s.near_memory = of_group.near[slot % group];
    s.far_memory = of_group.far[slot % group];
    return law_.stretch(load, s);
  }

  /// The addition to the gap before a dependent operation, beside the running grids.
  [[nodiscard]] duration gap(const std::vector<std::uint32_t>& running) noexcept {
    total(running);
    surroundings s;
    s.beside = true;
    s.far_memory = all_memory_;
    return law_.gap(s);
  }

private:
  struct side {
    float warps = 0; ///< resident on each SM that it holds
    float all_warps = 0;
    float memory = 0; ///< fraction of the device's throughput
    std::uint32_t held = 0;
  };

  static constexpr std::size_t group = 4; ///< grids that are summed at once: one vector

  /// The surroundings of a group of grids; or the weights of one neighbour in these: the number of
  /// its SMs that each shares, whether it shares any, and whether none.
  struct lanes {
    std::array<float, group> warps{};
    std::array<float, group> near{};
    std::array<float, group> far{};
  };

  /// `slot` holds n of the SMs that `other` holds.
  void share(std::uint32_t slot, std::uint32_t other, std::uint32_t n) noexcept {
    lanes& l = weights_[other * row_ + slot / group];
    const auto sms = static_cast<std::int32_t>(n);
    const auto any = static_cast<float>(std::min(sms, 1)); // no branch
    l.warps[slot % group] = static_cast<float>(sms);
    l.near[slot % group] = any;
    l.far[slot % group] = 1 - any;
  }

  /// Sums up all running grids; returns the highest slot.
  std::uint32_t total(const std::vector<std::uint32_t>& running) noexcept {
    float warps = 0;
    float memory = 0;
    std::uint32_t last = 0;
    for (const std::uint32_t slot : running) {
      warps += sides_[slot].all_warps;
      memory += sides_[slot].memory;
      last = slot > last ? slot : last;
    }
    all_warps_ = warps;
    all_memory_ = memory;
    return last;
  }

  /// For a group of slots, running or not: by vectors, and in the order of `running`, because float
  /// sums depend on it.
  void meet(const std::vector<std::uint32_t>& running, std::size_t which) noexcept {
    lanes sum;
    for (const std::uint32_t other : running) {
      const lanes& weight = weights_[other * row_ + which];
      const float warps = sides_[other].warps;
      const float memory = sides_[other].memory;
      for (std::size_t i = 0; i < group; ++i) {
        sum.warps[i] += weight.warps[i] * warps;
        sum.near[i] += weight.near[i] * memory;
        sum.far[i] += weight.far[i] * memory;
      }
    }
    met_[which] = sum;
  }

  /// Updates the number of blocks of the grid.
  void weigh(std::uint32_t slot, const grid& g) noexcept {
    side& s = sides_[slot];
    const auto resident = static_cast<float>(g.resident);
    s.all_warps = g.cost.load.warps * resident;
    s.warps = s.all_warps / static_cast<float>(std::max(s.held, 1u));
    s.memory = g.cost.load.memory * resident / static_cast<float>(g.cost.resident);
  }

  static std::uint32_t beyond(std::uint32_t sm, std::uint32_t from) noexcept {
    return std::max(sm, from) - from;
  }
  sm_block* set_of(std::uint32_t slot) noexcept { return sets_.data() + slot * width_; }
  /// The number of SMs in both sets.
  std::uint32_t common(const sm_block* x, const sm_block* y) const noexcept {
    std::uint32_t n = 0;
    for (std::size_t b = 0; b < width_; ++b) n += common_sms(x[b], y[b]);
    return n;
  }

  contention_law law_;
  std::uint32_t sms_;
  std::size_t width_; ///< size of a set, in blocks of SMs
  std::size_t row_;   ///< number of groups
  float all_warps_ = 0;
  float all_memory_ = 0;
  std::vector<sm_block> union_;
  std::vector<sm_block> sets_;  ///< the SMs of each grid
  std::vector<sm_block> lists_; ///< and of each list of slices, by its first slice
  std::vector<side> sides_;
  std::vector<lanes> weights_; ///< one row a neighbour
  std::vector<lanes> met_;
};

} // namespace gsched::sim
