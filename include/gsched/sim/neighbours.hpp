// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/contention.hpp>
#include <gsched/sim/grid.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// Which SMs each running grid holds and how many of them any two share, and from that how they
/// slow one another.
///
/// Cost     settling a grid O(SMs / 64 * grids that run); slowdown O(grids that run).
/// Threads  one owner; no locking.
class neighbours {
public:
  neighbours(const contention_law& law, std::uint32_t sms, std::size_t grids, std::size_t cohorts)
      : law_(law), sms_(sms), words_((sms + 63) / 64), row_((grids + group - 1) / group),
        union_(words_), masks_(words_ * grids), cohorts_(words_ * cohorts), sides_(grids),
        weights_(grids * row_), met_(row_) {}

  /// A cohort of blocks was placed so.
  void note(std::uint32_t cohort, const sm_map& map, std::uint32_t pieces) noexcept {
    std::uint64_t* const mask = cohorts_.data() + words_ * cohort;
    std::fill_n(mask, words_, 0);
    while (pieces != sm_map::none) {
      const std::uint32_t first = map.at(pieces).first;
      std::uint32_t last = first;
      for (; pieces != sm_map::none && map.at(pieces).first == last; pieces = map.at(pieces).next)
        last += map.at(pieces).sms;
      for (std::uint32_t w = first / 64; w * 64 < last; ++w) {
        const std::uint32_t from = std::max(first, w * 64) - w * 64;
        const std::uint32_t to = std::min(last, w * 64 + 64) - w * 64; // 1 to 64
        mask[w] |= (~std::uint64_t{0} >> (64 - to)) & (~std::uint64_t{0} << from);
      }
    }
  }

  /// A grid is where its cohorts are: begin(), join() for each, settle().
  void begin() noexcept { std::fill(union_.begin(), union_.end(), 0); }
  void join(std::uint32_t cohort) noexcept {
    const std::uint64_t* const mask = cohorts_.data() + words_ * cohort;
    for (std::size_t w = 0; w < words_; ++w) union_[w] |= mask[w];
  }

  /// Counts what the grid shares with the others that run.
  void settle(std::uint32_t slot, const grid& g, bool fresh,
              const std::vector<std::uint32_t>& running) noexcept {
    std::uint64_t* const mine = masks_.data() + words_ * slot;
    std::uint64_t differs = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      differs |= mine[w] ^ union_[w];
      mine[w] = union_[w];
    }
    if (!fresh && differs == 0) {
      weigh(slot, g);
      return;
    }
    side& s = sides_[slot];
    s.held = count(mine, mine);
    weigh(slot, g);
    if (s.held == sms_) { // slowdown() does not ask; the others' sides are set by what they hold
      for (const std::uint32_t other : running)
        if (other != slot) share(other, slot, sides_[other].held);
      return;
    }
    for (const std::uint32_t other : running) {
      if (other == slot) continue;
      const std::uint32_t n =
          sides_[other].held == sms_ ? s.held : count(mine, masks_.data() + words_ * other);
      share(slot, other, n);
      share(other, slot, n);
    }
  }

  /// Adds up all that run, and for each grid what it meets: before slowdown() is asked.
  void meet(const std::vector<std::uint32_t>& running) noexcept {
    total(running);
    std::uint32_t last = 0;
    for (const std::uint32_t slot : running) last = std::max(last, slot);
    for (std::size_t first = 0; first <= last / group; ++first) meet(running, first);
  }

  /// The time of this grid's blocks now over their time when it is alone.
  [[nodiscard]] double slowdown(std::uint32_t slot, const kernel_load& load,
                                bool beside) const noexcept {
    const side& me = sides_[slot];
    const lanes& of_group = met_[slot / group];
    surroundings s;
    s.beside = beside;
    s.own_warps = me.warps;
    if (me.held == sms_) { // it meets all others with all that they have
      s.other_warps = (all_warps_ - me.all_warps) / static_cast<float>(sms_);
      s.near_memory = all_memory_ - me.memory;
      return law_.stretch(load, s);
    }
    s.other_warps = of_group.warps[slot % group] / static_cast<float>(std::max(me.held, 1u));
    s.near_memory = of_group.near[slot % group];
    s.far_memory = of_group.far[slot % group];
    return law_.stretch(load, s);
  }

  /// What is added to the gap before a dependent operation, beside what runs.
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
    float memory = 0; ///< of the device's throughput
    std::uint32_t held = 0;
  };

  static constexpr std::size_t group = 4; ///< grids that are added up at once: a vector

  /// What a group of grids meets; or the weights of one neighbour in that: its SMs that each
  /// shares, whether it shares any, and whether none. Nothing is its own neighbour.
  struct lanes {
    std::array<float, group> warps{};
    std::array<float, group> near{};
    std::array<float, group> far{};
  };

  /// `slot` holds n of the SMs that `other` holds.
  void share(std::uint32_t slot, std::uint32_t other, std::uint32_t n) noexcept {
    lanes& l = weights_[other * row_ + slot / group];
    l.warps[slot % group] = static_cast<float>(n);
    l.near[slot % group] = static_cast<float>(n != 0);
    l.far[slot % group] = static_cast<float>(n == 0);
  }

  void total(const std::vector<std::uint32_t>& running) noexcept {
    all_warps_ = all_memory_ = 0;
    for (const std::uint32_t slot : running) {
      all_warps_ += sides_[slot].all_warps;
      all_memory_ += sides_[slot].memory;
    }
  }

  /// For a group of slots, whether they run or not: by vectors, and in the order of `running`, as
  /// sums of floats depend on it.
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

  /// Takes how many blocks the grid has now.
  void weigh(std::uint32_t slot, const grid& g) noexcept {
    side& s = sides_[slot];
    const auto resident = static_cast<float>(g.resident);
    s.all_warps = g.cost.load.warps * resident;
    s.warps = s.all_warps / static_cast<float>(std::max(s.held, 1u));
    s.memory = g.cost.load.memory * resident / static_cast<float>(g.cost.resident);
  }

  /// Bits set in both. Written out: without the instruction, std::popcount is a call.
  std::uint32_t count(const std::uint64_t* a, const std::uint64_t* b) const noexcept {
    std::uint64_t n = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t x = a[w] & b[w];
      x -= x >> 1 & 0x5555555555555555u;
      x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
      x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
      n += x * 0x0101010101010101u >> 56;
    }
    return static_cast<std::uint32_t>(n);
  }

  contention_law law_;
  std::uint32_t sms_;
  std::size_t words_;
  std::size_t row_; ///< groups
  float all_warps_ = 0;
  float all_memory_ = 0;
  std::vector<std::uint64_t> union_;
  std::vector<std::uint64_t> masks_;   ///< a bit an SM, by grid
  std::vector<std::uint64_t> cohorts_; ///< and by cohort
  std::vector<side> sides_;
  std::vector<lanes> weights_; ///< a row a neighbour
  std::vector<lanes> met_;
};

} // namespace gsched::sim
