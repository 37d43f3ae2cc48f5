// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/sim/detail/blocks/grid.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>
#include <gsched/sim/detail/blocks/sm_set.hpp>
#include <gsched/sim/detail/laws/kernel_load.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// The SMs of each running grid, the number of SMs that any two grids share, and the resulting
/// slow-downs, by the law of contention.
///
/// To the law a grid is a kernel that consists of its resident blocks alone. What they take follows
/// from their number, and what waits to be placed is not part of it, so all of its blocks are
/// placed: the block scheduler places the others later, and placement is not counted twice.
///
/// Cost     counting a grid O(SMs / 256 * running grids); meet() O(running grids, squared), and the
///          law for each; no allocation after construction.
/// Threads  one owner; no locking.
class neighbours {
public:
  neighbours(const contention_law& law, double warps_to_fill, std::uint32_t sms, std::size_t grids,
             std::size_t slices)
      : law_(law), warps_to_fill_(static_cast<float>(warps_to_fill)),
        width_((sms + sm_block::size - 1) / sm_block::size), grids_(grids), union_(width_),
        sets_(width_ * grids), lists_(width_ * slices), sides_(grids), shared_(grids * grids) {}

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

  /// Counts the SMs that the grid shares with the other running grids. Whether anything has changed
  /// since it was counted last.
  bool count(std::uint32_t slot, const grid& g, bool fresh,
             const std::vector<std::uint32_t>& running) noexcept {
    sm_block* const mine = set_of(slot);
    bool same = !fresh;
    for (std::size_t b = 0; b < width_; ++b) {
      same &= mine[b] == union_[b];
      mine[b] = union_[b];
    }
    side& me = sides_[slot];
    if (same && me.resident == g.resident) return false;
    if (!same) {
      me.held = std::max(1.0f, static_cast<float>(common(mine, mine)));
      for (const std::uint32_t other : running) {
        const auto n = static_cast<float>(common(mine, set_of(other)));
        shared_[slot * grids_ + other] = shared_[other * grids_ + slot] = n;
      }
    }
    weigh(me, g);
    return true;
  }

  /// The grid runs alone, on `held` SMs: replaces count() and meet().
  void count_alone(std::uint32_t slot, const grid& g, std::uint32_t held) noexcept {
    sides_[slot].held = std::max(1.0f, static_cast<float>(held));
    weigh(sides_[slot], g);
  }

  /// Computes the slow-down of each running grid; `running` is in the order of their starts.
  void meet(const std::vector<std::uint32_t>& running) noexcept {
    float l2 = 0;
    float dram = 0;
    for (const std::uint32_t slot : running) {
      l2 += sides_[slot].l2;
      dram += sides_[slot].dram;
    }
    surroundings s;
    for (std::size_t i = 0; i < running.size(); ++i) {
      side& me = sides_[running[i]];
      look_around(s, running, i);
      s.sum[index(resource::l2)] = std::max(0.0f, l2 - me.l2);
      s.sum[index(resource::dram)] = std::max(0.0f, dram - me.dram);
      me.slowdown = me.stretch * law_.slowdown(me.takes, 1, me.warps, s);
    }
  }

  /// The present time of this grid's blocks over their time alone.
  [[nodiscard]] double slowdown(std::uint32_t slot) const noexcept { return sides_[slot].slowdown; }

private:
  /// The resources of an SM, and the warps on it. Loops over all of them become a few vector
  /// instructions; vector types would not do here, as nvcc has none in device code.
  static constexpr std::size_t warps_at = resources_on_sm;
  static constexpr std::size_t lanes = 12;
  static_assert(warps_at < lanes);
  struct alignas(16) on_sm {
    std::array<float, lanes> of{};
    [[nodiscard]] double operator[](std::size_t r) const noexcept { return of[r]; }
  };

  /// A running grid, as a kernel that consists of its resident blocks alone.
  struct side {
    on_sm near{}; ///< its demand on each SM that it holds
    float l2 = 0; ///< its demand on the device
    float dram = 0;
    float conflict = 1;
    float warps = 0; ///< resident on each SM that it holds
    float held = 1;  ///< number of SMs, at least 1
    /// The time of these blocks alone, over their time beside all that are resident when the grid
    /// is alone; and their time now, over the same.
    double stretch = 1;
    double slowdown = 1;
    std::uint64_t resident = 0;
    demand takes{};
  };

  /// Sums up what a grid meets, as surroundings::add does, except what others take of L2 and DRAM:
  /// in floats, in loops that become vector instructions.
  void look_around(surroundings& s, const std::vector<std::uint32_t>& running,
                   std::size_t which) const noexcept {
    const std::uint32_t slot = running[which];
    const side& me = sides_[slot];
    const float* const shares = shared_.data() + slot * grids_;
    on_sm sum{};
    on_sm greatest{};
    float conflict = 1;
    const auto meets = [&](const side& o, float sms) {
      const float conflicts = sms > 0 ? o.conflict : 1.0f; // by value: no branch
      conflict = conflict < conflicts ? conflicts : conflict;
    };
    for (std::size_t j = 0; j < which; ++j) {
      const side& o = sides_[running[j]];
      const float sms = shares[running[j]];
      for (std::size_t r = 0; r < lanes; ++r) {
        const float taken = sms * o.near.of[r];
        sum.of[r] += taken;
        greatest.of[r] = greatest.of[r] < taken ? taken : greatest.of[r];
      }
      meets(o, sms);
    }
    const on_sm older = sum;
    for (std::size_t j = which + 1; j < running.size(); ++j) {
      const side& o = sides_[running[j]];
      const float sms = shares[running[j]];
      for (std::size_t r = 0; r < lanes; ++r) sum.of[r] += sms * o.near.of[r];
      meets(o, sms);
    }
    const double part = 1 / me.held;
    for (std::size_t r = 0; r < resources_on_sm; ++r) {
      s.sum[r] = part * sum[r];
      s.older[r] = part * older[r];
      s.greatest[r] = part * greatest[r];
    }
    s.warps = part * sum[warps_at];
    s.conflict = conflict;
    if (me.takes.working_set > 0) add_working_sets(s, running, which);
  }

  /// Few kernels have a known working set.
  [[gnu::cold]] void add_working_sets(surroundings& s, const std::vector<std::uint32_t>& running,
                                      std::size_t which) const noexcept {
    surroundings sets;
    for (std::size_t j = 0; j < running.size(); ++j)
      if (j != which) sets.add(sides_[running[j]].takes, 0, 1, 0, false);
    s.working_sets = sets.working_sets;
    s.hits = sets.hits;
    s.sets_known = sets.sets_known;
  }

  /// Updates the number of blocks of the grid.
  void weigh(side& s, const grid& g) noexcept {
    const kernel_load& l = g.cost.load;
    s.resident = g.resident;
    const auto resident = static_cast<float>(g.resident);
    s.warps = l.warps * resident / s.held;
    const float stretch = l.stretch(s.warps, warps_to_fill_);
    s.stretch = s.slowdown = stretch;
    const float near = s.warps / (l.solo_warps * stretch);
    const float far = resident / (static_cast<float>(g.cost.resident) * stretch);
    for (std::size_t r = 0; r < resources; ++r) {
      const float use = l.use[r] * (r < resources_on_sm ? near : far);
      const float most = use < 1 ? use : 1;
      s.takes.use[r] = most;
      if (r < resources_on_sm) s.near.of[r] = most;
    }
    s.near.of[warps_at] = s.warps;
    s.l2 = static_cast<float>(s.takes.of(resource::l2));
    s.dram = static_cast<float>(s.takes.of(resource::dram));
    s.conflict = l.conflict;
    s.takes.kept = l.kept;
    s.takes.working_set = l.working_set;
    s.takes.conflict = l.conflict;
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
  float warps_to_fill_;
  std::size_t width_; ///< size of a set, in blocks of SMs
  std::size_t grids_;
  std::vector<sm_block> union_;
  std::vector<sm_block> sets_;  ///< the SMs of each grid
  std::vector<sm_block> lists_; ///< and of each list of slices, by its first slice
  std::vector<side> sides_;
  std::vector<float> shared_; ///< number of SMs that two grids share, one row a grid
};

} // namespace gsched::sim
