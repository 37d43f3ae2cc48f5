// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/interference/start_loss.hpp>
#include <gsched/sim/detail/blocks/cohorts.hpp>
#include <gsched/sim/detail/blocks/grid.hpp>
#include <gsched/sim/detail/blocks/neighbours.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// Places the blocks of grids on SMs and computes when they end.
///
/// Source   Olmedo et al., RTAS 2020, doi:10.1109/RTAS48715.2020.000-5: the leftover policy of
///          NVIDIA's block scheduler.
/// Order    grids are placed by (priority falling, arrival); a grid starts when earlier grids that
///          may use any of its SMs, or keep the dispatcher of blocks, have placed all their blocks.
///          Running blocks stay until they end, unless leave() makes them exit.
/// Cost     O(runs + ended cohorts) an event: a cohort is a set of blocks that start and end at
///          once, all that a grid places at once or one of parts_apart of it; and O(running grids,
///          squared) if their speeds change. No allocation after construction.
/// Threads  one owner; no locking.
class block_scheduler {
public:
  /// The blocks of a kernel of one wave end one after another, in so many parts, so that their mean
  /// end is kernel_load::early before the last: where they have ended, others' kernels start. If
  /// this or the kernel is shorter than these they end at once, as it is not worth the events.
  ///
  /// Differs  of kernels of several waves the mean SM is done 0.13 of a wave before the end
  ///          (bench/block_ends.py on one H200), which is left out.
  static constexpr std::uint32_t parts_apart = 4;
  static constexpr double least_early = 0.02;
  static constexpr double shortest_apart_ns = 10'000;

  explicit block_scheduler(const preset& p)
      : packer_(p.sm), map_(p.sms.count(), packer_.empty(), p.sm.max_blocks),
        near_(p.laws.contention, p.laws.scaling.warps_to_fill, p.sms.count(), p.resident_grids,
              std::size_t{p.sms.count()} * p.sm.max_blocks),
        contended_(p.laws.contended), replays_(p.laws.replay),
        warps_to_fill_(static_cast<float>(p.laws.scaling.warps_to_fill)), all_(p.sms.count()),
        passing_ns_(static_cast<double>(p.yields.passing.count())),
        listing_ns_(static_cast<double>(p.laws.preemption.listing.count())),
        grids_(p.resident_grids), cohorts_(cohorts_of(p), p.laws.slack) {
    free_.reserve(p.resident_grids);
    for (std::uint32_t i = p.resident_grids; i-- > 0;) free_.push_back(i);
    running_.reserve(p.resident_grids);
    placing_.reserve(p.resident_grids);
    ended_.reserve(p.resident_grids);
    blocked_.reserve(p.resident_grids);
    freed_.reserve(cohorts_of(p));
  }

  [[nodiscard]] const resource_packer& packer() const noexcept { return packer_; }
  [[nodiscard]] sm_map& map() noexcept { return map_; }
  [[nodiscard]] bool full() const noexcept { return free_.empty(); }
  [[nodiscard]] bool idle() const noexcept { return running_.empty(); }
  [[nodiscard]] time_point next_end() const noexcept { return next_end_; }

  /// A grid to initialise, with the state of an earlier one, and then to admit. Requires !full().
  [[nodiscard]] std::uint32_t take() noexcept {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  [[nodiscard]] grid& operator[](std::uint32_t slot) noexcept { return grids_[slot]; }

  void admit(std::uint32_t slot, time_point now) noexcept {
    grid& g = grids_[slot];
    g.begin(arrivals_++, now);
    if (g.cost.blocks == 0) { // it uses no resources and runs at once
      cohorts_.push(g, sm_map::none, 0, true);
      move(g);
      run(slot, now);
      return;
    }
    const auto later = [this](std::uint32_t a, std::uint32_t b) {
      const grid& x = grids_[a];
      const grid& y = grids_[b];
      return x.priority != y.priority ? x.priority > y.priority : x.order < y.order;
    };
    placing_.insert(std::upper_bound(placing_.begin(), placing_.end(), slot, later), slot);
    capacity_changed_ = true;
  }

  /// Places the blocks that fit. Calls sink.placed(grid, slices) for each cohort.
  template <class Sink>
  void place(time_point now, Sink&& sink) noexcept {
    if (!capacity_changed_) return;
    capacity_changed_ = false;
    const bool renewed = renews();
    if (renewed)
      renew(now, sink);
    else
      for (const freed& f : freed_) map_.release(f.need, f.slices);
    blocked_.clear();
    std::size_t kept = 0;
    std::size_t i = 0;
    for (bool last = false; !last && i < placing_.size(); ++i) {
      const std::uint32_t slot = placing_[i];
      grid& g = grids_[slot];
      const bool waits = std::any_of(blocked_.begin(), blocked_.end(),
                                     [&](const sm_range& r) { return r.meets(g.where); });
      const bool placed = renewed && i == 0;
      if (!waits && !placed && (!freed_.empty() || !g.tried)) place_one(slot, now, sink);
      if (g.unplaced == 0) continue;
      placing_[kept++] = slot;
      last = g.where.size() == all_ || g.cost.keeps_dispatcher; // it precedes all other grids
      if (!last && (blocked_.empty() || !(blocked_.back() == g.where))) blocked_.push_back(g.where);
    }
    erase(placing_, kept, i);
    freed_.clear();
  }

  /// Ends the cohorts that end at `now`. Calls sink.left(grid, cohort) for each cohort, then
  /// sink.done(slot) for each grid that has ended, in the order of their starts; the slot is free
  /// after that.
  template <class Sink>
  void finish(time_point now, Sink&& sink) noexcept {
    if (next_end_ > now) return;
    std::size_t kept = 0;
    ended_.clear();
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const std::uint32_t slot = running_[i];
      grid& g = grids_[slot];
      if (g.next_end <= now) end_cohorts(slot, now, sink);
      if (g.resident == 0 && g.unplaced == 0 && g.oldest == sm_map::none)
        ended_.push_back(slot);
      else
        running_[kept++] = slot;
    }
    erase(running_, kept, running_.size());
    for (const std::uint32_t slot : ended_) {
      changed_ = regrouped_ = true;
      free_.push_back(slot);
      sink.done(slot);
    }
  }

  /// The grid's blocks have seen the flag: running blocks exit at their next checkpoint, if
  /// at_checkpoints, and blocks that start from now on exit at once. Returns the number of running
  /// blocks that will exit.
  [[gnu::cold]] std::uint64_t leave(std::uint32_t slot, bool at_checkpoints, duration checkpoint,
                                    time_point now) noexcept {
    grid& g = grids_[slot];
    std::uint64_t preempted = 0;
    if (g.started) advance(g, now);
    if (at_checkpoints && g.resident > 0) preempted = cohorts_.leave(g, checkpoint);
    g.left = g.unplaced > 0 || preempted > 0;
    g.passes = true;
    if (g.started) move(g);
    return preempted;
  }

  /// Whether another lane has work on the device.
  void set_beside(bool beside) noexcept { beside_ = beside; }

  /// Computes the speeds, if the running grids have changed, and the time of the next end.
  void refresh(time_point now) noexcept {
    const bool all = changed_ && contended_ && count_neighbours();
    time_point next = time_point::max();
    for (const std::uint32_t slot : running_) {
      grid& g = grids_[slot];
      if (all || g.moved) update(g, slot, now);
      next = g.next_end < next ? g.next_end : next; // by value: no branch
    }
    next_end_ = next;
    changed_ = false;
  }

  /// The addition to the gap before a dependent operation on these SMs that could start now.
  [[nodiscard]] duration extra_gap(const sm_range& where) const noexcept {
    if (!contended_ || !beside_) return duration::zero();
    double traffic = 0, late = 0;
    for (const std::uint32_t slot : running_) {
      const grid& g = grids_[slot];
      traffic += near_.l2(slot);
      if (g.unplaced > 0 && !g.cost.keeps_dispatcher && !g.where.meets(where))
        late += g.cost.makes_late_us;
    }
    return from_us(replays_.gap(traffic) + late);
  }

private:
  /// Each cohort holds a block, or is the only one of a grid without blocks.
  static std::size_t cohorts_of(const preset& p) noexcept {
    return std::size_t{p.sms.count()} * p.sm.max_blocks + p.resident_grids;
  }

  /// The slices of an ended cohort.
  struct freed {
    block_need need{};
    std::uint32_t slices = sm_map::none;
    std::uint32_t slot = 0; ///< of its grid, which may have ended
    std::uint32_t blocks = 0;
    bool noted = false;
  };

  /// Whether the next blocks of a grid follow its ended blocks on the same SMs: nothing else has
  /// ended, and the grid is the first to place. It had taken all the capacity available to it, so
  /// each SM can hold as many blocks as have ended there.
  [[nodiscard]] bool renews() const noexcept {
    if (freed_.size() != 1 || placing_.empty() || placing_.front() != freed_.front().slot)
      return false;
    const grid& g = grids_[placing_.front()];
    return g.tried && g.cost.cluster == 1 && g.unplaced >= freed_.front().blocks;
  }

  template <class Sink>
  void renew(time_point now, Sink&& sink) noexcept {
    const freed& f = freed_.front();
    placed(f.slot, {f.blocks, f.slices}, f.noted, now, sink);
  }

  template <class Sink>
  void place_one(std::uint32_t slot, time_point now, Sink&& sink) noexcept {
    grid& g = grids_[slot];
    const bool first = !g.tried;
    g.tried = true;
    if (first && ends_in_parts(g)) return place_in_parts(slot, now, sink);
    const sm_map::placement p = map_.place(g.cost.need, g.where, g.unplaced, g.cost.cluster);
    if (p.blocks > 0) placed(slot, p, false, now, sink);
  }

  /// Only where it matters to another kernel.
  [[nodiscard]] bool ends_in_parts(const grid& g) const noexcept {
    return contended_ && beside_ && g.shares && !g.passes && g.cost.wave_ns >= shortest_apart_ns &&
           g.cost.load.early >= least_early && static_cast<double>(g.unplaced) <= g.cost.resident;
  }

  /// The ends are parts of the kernel's time alone. The fewer of its blocks remain, the faster they
  /// are, so in progress they are further apart.
  template <class Sink>
  void place_in_parts(std::uint32_t slot, time_point now, Sink&& sink) noexcept {
    grid& g = grids_[slot];
    const std::uint64_t cluster = g.cost.cluster;
    std::uint64_t each = (g.unplaced + parts_apart - 1) / parts_apart;
    each += cluster - 1 - (each + cluster - 1) % cluster;
    const double apart = 2.0 * g.cost.load.early;
    for (double waves = 1 - apart; g.unplaced > 0;) {
      const std::uint64_t want = std::min(each, g.unplaced);
      const sm_map::placement p = map_.place(g.cost.need, g.where, want, g.cost.cluster);
      if (p.blocks > 0) placed(slot, p, false, now, sink, waves);
      if (p.blocks < want || g.unplaced == 0) return;
      const auto rest = static_cast<float>(g.unplaced);
      const float on_sm = std::max(1.0f, rest / static_cast<float>(g.where.size()));
      const float running = rest / static_cast<float>(g.cost.resident);
      waves += apart / (parts_apart - 1) /
               static_cast<double>(
                   g.cost.load.stretch(g.cost.load.warps * on_sm, running, warps_to_fill_));
    }
  }

  template <class Sink>
  void placed(std::uint32_t slot, const sm_map::placement& p, bool noted, time_point now,
              Sink&& sink, double waves = 1) noexcept {
    grid& g = grids_[slot];
    advance(g, now);
    g.unplaced -= p.blocks;
    g.resident += p.blocks;
    if (g.passes) g.cost.wave_ns = passing_ns(g);
    cohorts_.push(g, p.slices, p.blocks, noted, waves);
    move(g);
    sink.placed(g, p.slices);
    if (!g.started) run(slot, now);
  }

  /// The time of blocks that start now and find the flag set.
  [[nodiscard]] double passing_ns(const grid& g) const noexcept {
    const std::uint64_t more = std::max<std::uint64_t>(g.resident, all_) - all_;
    return passing_ns_ + listing_ns_ * static_cast<double>(more);
  }

  /// Usually there is nothing to erase.
  static void erase(std::vector<std::uint32_t>& from, std::size_t first,
                    std::size_t last) noexcept {
    const auto begin = from.begin();
    if (first != last)
      from.erase(begin + static_cast<std::ptrdiff_t>(first),
                 begin + static_cast<std::ptrdiff_t>(last));
  }

  void move(grid& g) noexcept { g.moved = changed_ = true; }

  void run(std::uint32_t slot, time_point now) noexcept {
    grid& g = grids_[slot];
    if (contended_ && beside_) {
      const auto all = static_cast<double>(g.unplaced + g.resident);
      const double since = to_us(now - started_);
      const double refilled = start_loss::refilled(since);
      for (const std::uint32_t other : running_) {
        grid& o = grids_[other];
        const double loss = o.cost.load.start_loss_us;
        if (o.where.meets(g.where))
          delay(o, replays_.lost_again_us(since, near_.busiest(other)), now);
        else if (loss >= 0)
          delay(o, loss * refilled, now);
        else
          delay(o, replays_.lost_us(all, near_.busiest(other)), now);
      }
    }
    started_ = now;
    g.started = true;
    running_.push_back(slot);
    changed_ = regrouped_ = true;
  }

  /// A kernel of another lane starts: the grid loses progress, but none of earlier cohorts, and not
  /// all that it has made since the last start. So it ends, however often others start.
  void delay(grid& g, double us, time_point now) const noexcept {
    constexpr double most = 0.9;
    if (g.oldest == sm_map::none) return;
    advance(g, now);
    const double since_start = g.speed * static_cast<double>((now - started_).count());
    const double lost = std::min(us * 1e3, most * since_start);
    const double begin = std::max(0.0, cohorts_[g.oldest].ends - g.cost.wave_ns);
    g.progress = std::min(g.progress, std::max(begin, g.progress - lost));
  }

  template <class Sink>
  void end_cohorts(std::uint32_t slot, time_point now, Sink&& sink) noexcept {
    grid& g = grids_[slot];
    advance(g, now);
    const double until = std::max(g.progress, cohorts_[g.oldest].ends) + 1e-6;
    while (g.oldest != sm_map::none && cohorts_[g.oldest].ends <= until) {
      const cohort& c = cohorts_[cohorts_.pop(g)];
      g.resident -= c.blocks;
      if (c.slices != sm_map::none) {
        sink.left(g, c);
        freed_.push_back({g.cost.need, c.slices, slot, c.blocks, c.noted});
        capacity_changed_ = true;
      }
      if (!c.preempted) g.finished += c.blocks;
    }
    move(g);
  }

  static void advance(grid& g, time_point now) noexcept {
    g.progress += g.speed * static_cast<double>((now - g.updated).count());
    g.updated = now;
  }

  /// Updates the SMs of grids whose blocks have moved, and the slow-downs. Returns whether any may
  /// have changed: not if blocks have only followed others of their grids. While a grid runs alone,
  /// the number of its SMs suffices; the set is computed once another grid runs beside it.
  bool count_neighbours() noexcept {
    bool different = regrouped_;
    regrouped_ = false;
    if (running_.size() == 1) {
      grid& g = grids_[running_.front()];
      if (g.moved) g.counted = false;
      if (g.counted)
        near_.be_alone(running_.front());
      else
        near_.count_alone(running_.front(), g, map_.occupied());
      return true;
    }
    for (const std::uint32_t slot : running_) {
      grid& g = grids_[slot];
      if (!g.moved && g.counted) continue;
      near_.begin();
      for (std::uint32_t c = g.oldest; c != sm_map::none; c = cohorts_[c].next) {
        const std::uint32_t slices = cohorts_[c].slices;
        if (slices == sm_map::none) continue;
        if (cohorts_.note(c)) near_.note(map_, slices);
        near_.join(slices);
      }
      different |= near_.count(slot, g, !g.counted, running_);
      g.counted = true;
    }
    if (different) near_.meet(running_);
    return different;
  }

  void update(grid& g, std::uint32_t slot, time_point now) noexcept {
    advance(g, now);
    g.moved = false;
    g.next_end = time_point::max();
    if (g.oldest == sm_map::none) return; // all its placed blocks have ended; it waits for capacity
    if (contended_) g.speed = 1 / near_.slowdown(slot);
    const double left = std::max(0.0, cohorts_[g.oldest].ends - g.progress) / g.speed;
    g.next_end = now + duration{static_cast<duration::rep>(left + 0.5)};
  }

  resource_packer packer_;
  sm_map map_;
  neighbours near_;
  bool contended_;
  bool beside_ = false;
  replay_law replays_;
  float warps_to_fill_;
  std::uint32_t all_; ///< number of SMs
  double passing_ns_;
  double listing_ns_;
  std::vector<grid> grids_;
  cohorts cohorts_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> running_; ///< in the order of their starts
  std::vector<std::uint32_t> placing_; ///< in the order in which they may place
  std::vector<std::uint32_t> ended_;
  std::vector<sm_range> blocked_;
  std::vector<freed> freed_; ///< capacity that was freed since blocks were placed
  std::uint64_t arrivals_ = 0;
  time_point started_{}; ///< when a grid last did
  bool capacity_changed_ = false;
  bool changed_ = false;   ///< the running grids, or their SMs
  bool regrouped_ = false; ///< the running grids
  time_point next_end_ = time_point::max();
};

} // namespace gsched::sim
