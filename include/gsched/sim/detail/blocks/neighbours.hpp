// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/interference/surroundings.hpp>
#include <gsched/job/kernel_counters.hpp>
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
/// Whether a grid is steady matters to itself alone: its neighbours count as having bursts.
///
/// Cost     counting a grid O(SMs / 256 * running grids); meet() O(running grids, squared), and the
///          law for each; no allocation after construction.
/// Threads  one owner; no locking.
class neighbours {
public:
  neighbours(const contention_law& law, double warps_to_fill, std::uint32_t sms, std::size_t grids,
             std::size_t slices)
      : law_(law), warps_to_fill_(static_cast<float>(warps_to_fill)), sms_(static_cast<float>(sms)),
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

  /// Counts the SMs that a running grid shares with the others. Whether anything has changed since
  /// it was counted last.
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
      for (const std::uint32_t other : running) {
        const auto n = static_cast<float>(common(mine, set_of(other)));
        shared_[slot * grids_ + other] = shared_[other * grids_ + slot] = n;
      }
      float& with_itself = shared_[slot * grids_ + slot];
      me.held = std::max(1.0f, with_itself);
      me.part = 1 / me.held;
      with_itself = 0; // it is no neighbour of itself
    }
    weigh(me, g);
    law_.prepare(me.own, me.warps);
    return true;
  }

  /// The grid runs alone, on `held` SMs: replaces count() and meet(), until another runs beside it.
  void count_alone(std::uint32_t slot, const grid& g, std::uint32_t held) noexcept {
    sides_[slot].held = std::max(1.0f, static_cast<float>(held));
    weigh(sides_[slot], g);
  }

  /// The same for a grid that has not moved since count().
  void be_alone(std::uint32_t slot) noexcept { sides_[slot].slowdown = sides_[slot].stretch; }

  /// Computes the slow-down of each running grid; `running` is in the order of their starts.
  void meet(const std::vector<std::uint32_t>& running) noexcept {
    float l2 = 0;
    float dram = 0;
    float ahead = 0;
    float streams = 0;
    std::uint32_t low_clocks = 0;
    for (const std::uint32_t slot : running) {
      l2 += sides_[slot].l2;
      dram += sides_[slot].dram;
      ahead += sides_[slot].dram_ahead;
      streams += sides_[slot].dram_of_graph;
      low_clocks += sides_[slot].own.takes.low_clock;
    }
    surroundings& s = around_;
    for (std::size_t i = 0; i < running.size(); ++i) {
      side& me = sides_[running[i]];
      look_around(s, running, i);
      s.sum[index(resource::l2)] = std::max(0.0f, l2 - me.l2);
      s.sum[index(resource::dram)] = std::max(0.0f, dram - me.dram);
      s.dram_ahead = std::max(0.0f, ahead - me.dram_ahead);
      look_at_device(s, running, i);
      s.low_clock = low_clocks > me.own.takes.low_clock;
      me.slowdown = law_.power(me.own, s);
      me.busiest = busiest_beside(me, s);
    }
    for (const std::uint32_t slot : running) { // apart: roots take long, but several at once
      side& me = sides_[slot];
      const double slow = contention_law::root_8th(me.slowdown) +
                          me.lost.beside(std::max(0.0f, streams - me.dram_of_graph));
      me.slowdown = me.stretch * std::max(slow, me.dispatched);
    }
  }

  /// What this grid takes of L2, and what all grids take of that with which its SMs are busiest.
  [[nodiscard]] double l2(std::uint32_t slot) const noexcept { return sides_[slot].l2; }
  [[nodiscard]] double busiest(std::uint32_t slot) const noexcept { return sides_[slot].busiest; }

  /// The present time of this grid's blocks over their time alone.
  [[nodiscard]] double slowdown(std::uint32_t slot) const noexcept { return sides_[slot].slowdown; }

private:
  /// The resources of an SM, and the warps and wavefronts on it, see surroundings. Loops over all
  /// of them become a few vector instructions; vector types would not do here, as nvcc has none in
  /// device code.
  static constexpr std::size_t warps_at = resources_on_sm;
  static constexpr std::size_t wavefronts_at = warps_at + 1;
  static constexpr std::size_t lanes = resources; // a multiple of four
  static_assert(wavefronts_at < lanes);
  struct alignas(16) on_sm {
    std::array<float, lanes> of{};
    [[nodiscard]] double operator[](std::size_t r) const noexcept { return of[r]; }
  };

  /// A running grid, as a kernel that consists of its resident blocks alone.
  struct side {
    on_sm near{}; ///< its demand on each SM that it holds
    float l2 = 0; ///< its demand on the device
    float dram = 0;
    float dram_ahead = 0;    ///< see surroundings
    float weight = 1;        ///< of its squares on other SMs: see weight_of_traffic
    float stores = 0;        ///< added to that of DRAM
    float dram_of_graph = 0; ///< see kernel_load
    l2_loss lost{};
    float dispatch = 0;    ///< see kernel_load
    double dispatched = 1; ///< its slow-down by that of others
    double busiest = 0;    ///< see busiest()
    float warps = 0;       ///< resident on each SM that it holds
    float held = 1;        ///< number of SMs, at least 1
    double part = 1;       ///< its inverse, in floats
    /// The time of these blocks alone, over their time beside all that are resident when the grid
    /// is alone; and their time now, over the same.
    double stretch = 1;
    double slowdown = 1;
    std::uint64_t resident = 0;
    contention_law::kernel own{};
  };

  /// Sums up what a grid meets, as surroundings::add does, except what others take of L2 and DRAM:
  /// in floats, in loops that become vector instructions. It shares no SM with itself, see count().
  void look_around(surroundings& s, const std::vector<std::uint32_t>& running,
                   std::size_t which) const noexcept {
    const std::uint32_t slot = running[which];
    const side& me = sides_[slot];
    const float* const shares = shared_.data() + slot * grids_;
    on_sm sum{};
    for (const std::uint32_t other : running) {
      const side& o = sides_[other];
      const float sms = shares[other];
      for (std::size_t r = 0; r < lanes; ++r) sum.of[r] += sms * o.near.of[r];
    }
    const double part = me.part;
    for (std::size_t r = 0; r < lanes; ++r) s.sum[r] = part * sum[r];
    s.warps = s.sum[warps_at]; // its place, and the next, are those of L2 and DRAM
    s.wavefronts = s.sum[wavefronts_at];
    if (contention_law::fills_sm(me.own, s)) look_at_first(s, running, which);
    if (me.own.takes.working_set > 0) add_working_sets(s, running, which);
  }

  /// The squares of what others take of L2 and DRAM, and how much slower it is as the dispatcher
  /// places older blocks on other SMs first.
  void look_at_device(surroundings& s, const std::vector<std::uint32_t>& running,
                      std::size_t which) noexcept {
    const float* const shares = shared_.data() + running[which] * grids_;
    float l2 = 0, dram = 0, l2_apart = 0, dram_apart = 0, older = 0;
    for (std::size_t j = 0; j < running.size(); ++j) {
      const side& o = sides_[running[j]];
      const float is_other = j != which ? 1.0f : 0.0f;
      const float is_apart = shares[running[j]] > 0 ? 0.0f : is_other;
      const float weight = is_other + is_apart * (o.weight - 1);
      const float of_l2 = o.l2 * o.l2 * weight;
      const float of_dram = o.dram * o.dram * (weight + is_other * o.stores);
      l2 += of_l2;
      dram += of_dram;
      l2_apart += is_apart * of_l2;
      dram_apart += is_apart * of_dram;
      if (j < which) older += is_apart * o.dispatch;
    }
    side& me = sides_[running[which]];
    me.dispatched = replay_law::waits_for_dispatcher(me.dispatch, older);
    s.l2_squares = l2;
    s.dram_squares = dram;
    s.l2_apart = l2_apart;
    s.dram_apart = dram_apart;
  }

  /// The part of look_around that matters on full SMs alone.
  [[gnu::cold]] void look_at_first(surroundings& s, const std::vector<std::uint32_t>& running,
                                   std::size_t which) const noexcept {
    const double part = sides_[running[which]].part;
    const float* const shares = shared_.data() + running[which] * grids_;
    on_sm older{};
    on_sm greatest{};
    on_sm most{};
    for (std::size_t j = 0; j < running.size(); ++j) {
      const side& o = sides_[running[j]];
      for (std::size_t r = 0; r < resources_on_sm; ++r) {
        const float taken = shares[running[j]] * o.near.of[r];
        most.of[r] = std::max(most.of[r], taken);
        if (j >= which) continue;
        older.of[r] += taken;
        greatest.of[r] = most.of[r];
      }
    }
    for (std::size_t r = 0; r < resources_on_sm; ++r) {
      s.older[r] = part * older[r];
      s.greatest[r] = part * greatest[r];
      s.most[r] = part * most[r];
    }
  }

  [[nodiscard]] static double busiest_beside(const side& me, const surroundings& s) noexcept {
    double most = 0;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      most = std::max(most, me.own.takes.use[r] + s.sum[r]);
    return std::min(1.0, most);
  }

  /// Few kernels have a known working set.
  [[gnu::cold]] void add_working_sets(surroundings& s, const std::vector<std::uint32_t>& running,
                                      std::size_t which) const noexcept {
    surroundings sets;
    for (std::size_t j = 0; j < running.size(); ++j)
      if (j != which) sets.add(sides_[running[j]].own.takes, 0, 1, 0, false);
    s.working_sets = sets.working_sets;
    s.hits = sets.hits;
  }

  /// Updates the number of blocks of the grid. Not inlined: together with prepare(), g++ keeps each
  /// use in a register of its own, and computes and compares them one by one.
  [[gnu::noinline]] void weigh(side& s, const grid& g) noexcept {
    const kernel_load& l = g.cost.load;
    s.resident = g.resident;
    const auto resident = static_cast<float>(g.resident);
    s.warps = l.warps * resident / s.held;
    const float running = resident / static_cast<float>(g.cost.resident);
    const float stretch = l.stretch(s.warps, running, warps_to_fill_);
    s.stretch = s.slowdown = stretch;
    const float near = s.warps / (l.solo_warps * stretch);
    const float far = running / stretch;
    on_sm used;
    for (std::size_t r = 0; r < resources; ++r) used.of[r] = l.use[r] * near;
    used.of[index(resource::l2)] = l.use[index(resource::l2)] * far;
    used.of[index(resource::dram)] = l.use[index(resource::dram)] * far;
    for (float& use : used.of) use = use < 1 ? use : 1;
    for (std::size_t r = 0; r < resources; ++r) s.own.takes.use[r] = used[r];
    s.l2 = used.of[index(resource::l2)];
    s.dram = used.of[index(resource::dram)];
    s.weight = static_cast<float>(weight_of_traffic(l.waits));
    s.stores = static_cast<float>(surroundings::stores * l.waits.blocked) * s.held / sms_;
    s.dram_of_graph = l.dram_of_graph;
    s.dispatch = l.dispatch;
    s.lost = l.waits == warp_waits{} ? l2_loss{} : l2_loss{l2_loss::usual};
    s.own.takes.waits = l.waits;
    s.own.takes.kept = l.kept;
    s.own.takes.working_set = l.working_set;
    s.own.takes.conflict = l.conflict;
    s.own.takes.access_cycles = l.access_cycles;
    s.dram_ahead = s.dram * static_cast<float>(s.own.takes.accesses_ahead() - 1);
    s.near = used;
    s.near.of[warps_at] = static_cast<float>(surroundings::touches_memory(s.own.takes)) * s.warps;
    s.near.of[wavefronts_at] =
        static_cast<float>(surroundings::waiting_wavefronts(s.own.takes, s.warps));
    s.own.takes.low_clock = l.low_clock;
    s.own.takes.steady = l.steady;
    s.busiest = s.own.takes.busiest();
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
  float sms_;
  std::size_t width_; ///< size of a set, in blocks of SMs
  std::size_t grids_;
  std::vector<sm_block> union_;
  std::vector<sm_block> sets_;  ///< the SMs of each grid
  std::vector<sm_block> lists_; ///< and of each list of slices, by its first slice
  std::vector<side> sides_;
  std::vector<float> shared_; ///< number of SMs that two grids share, one row a grid
  surroundings around_;       ///< of the grid under consideration
};

} // namespace gsched::sim
