// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/detail/flight.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace gsched {

/// The lanes of one device as the dispatcher fills them: what is queued on each, in order, and
/// which want more. Lanes are opened in groups, each with marks of its own. A lane can have
/// alternates, which take some of the work in its place: what is queued on them counts for the
/// lane. A lane can be spare: it counts only where it is asked for.
///
/// A lane wants work from when its queued time falls below the low mark until it reaches the high
/// mark: the gap between the marks makes decisions come in runs, not one by one. An empty lane
/// always does, and one with a flight::last never.
///
/// Order    least queued time first, then lowest lane.
/// Cost     add and remove O(1); hungriest and set_marks O(lanes of the group), lanes being few.
/// Threads  one owner; no locking.
class lane_set {
public:
  /// Set-up: groups, and then the lanes of each, are opened before the first add. The first group
  /// is made here.
  lane_set(duration low, duration high) { add_group(low, high); }
  void add_group(duration low, duration high) {
    groups_.push_back({low, high, static_cast<std::uint32_t>(lanes_.size()), 0, 0, 0, 0, 0});
  }
  /// A lane of the last group.
  void open(lane_id id) {
    lane& l = lanes_.emplace_back();
    l.id = id;
    l.group = static_cast<std::uint32_t>(groups_.size() - 1);
    l.counts_for = static_cast<std::uint32_t>(lanes_.size() - 1);
    ++groups_.back().lanes;
    settle(l);
  }
  /// A spare lane of the last group, behind all its other lanes.
  void open_spare(lane_id id) {
    lane& l = lanes_.emplace_back();
    l.id = id;
    l.group = static_cast<std::uint32_t>(groups_.size() - 1);
    l.counts_for = static_cast<std::uint32_t>(lanes_.size() - 1);
    l.spare = true;
    ++groups_.back().spares;
    settle(l);
  }
  /// An alternate of the lane at `place`, in the same group. After the last group's lanes.
  void open_alternate(lane_id id, std::uint32_t place) {
    const std::uint32_t group = lanes_[place].group;
    lane& l = lanes_.emplace_back();
    l.id = id;
    l.group = group;
    l.counts_for = place;
  }

  [[nodiscard]] std::size_t size() const noexcept { return lanes_.size(); }
  [[nodiscard]] std::size_t groups() const noexcept { return groups_.size(); }
  [[nodiscard]] std::uint32_t first(std::size_t group) const noexcept {
    return groups_[group].first;
  }
  [[nodiscard]] std::uint32_t lanes(std::size_t group) const noexcept {
    return groups_[group].lanes;
  }
  [[nodiscard]] std::uint32_t group_of(std::uint32_t place) const noexcept {
    return lanes_[place].group;
  }
  [[nodiscard]] std::uint32_t spares(std::size_t group) const noexcept {
    return groups_[group].spares;
  }
  [[nodiscard]] bool any_hungry(std::size_t group = 0, bool with_spares = false) const noexcept {
    const lane_group& g = groups_[group];
    return g.hungry > 0 || (with_spares && g.hungry_spares > 0);
  }

  /// The place of the group's lane that wants work most; none when no lane wants any.
  [[nodiscard]] std::optional<std::uint32_t> hungriest(std::size_t group = 0,
                                                       bool with_spares = false) const noexcept {
    const lane_group& g = groups_[group];
    const std::uint32_t end = g.first + g.lanes + (with_spares ? g.spares : 0);
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = g.first; i < end; ++i) {
      if (!lanes_[i].hungry || (best && lanes_[i].queued >= lanes_[*best].queued)) continue;
      best = i;
      if (lanes_[i].queued == duration::zero()) break; // nothing wants more
    }
    return best;
  }

  /// The group's lanes in turn, whatever is queued on them.
  [[nodiscard]] std::uint32_t next_in_turn(std::size_t group = 0) noexcept {
    lane_group& g = groups_[group];
    const std::uint32_t place = g.first + g.turn;
    g.turn = (g.turn + 1) % g.lanes;
    return place;
  }

  void set_marks(std::size_t group, duration low, duration high) noexcept {
    lane_group& g = groups_[group];
    if (g.low == low && g.high == high) return;
    g.low = low;
    g.high = high;
    for (std::uint32_t i = g.first; i < g.first + g.lanes + g.spares; ++i) settle(lanes_[i]);
  }

  [[nodiscard]] lane_id id(std::uint32_t place) const noexcept { return lanes_[place].id; }
  /// The place of a lane; none when it is not of this set.
  [[nodiscard]] std::optional<std::uint32_t> find(lane_id id) const noexcept {
    for (std::uint32_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].id == id) return i;
    return std::nullopt;
  }
  /// On the lane and its alternates.
  [[nodiscard]] duration queued(std::uint32_t place) const noexcept { return lanes_[place].queued; }
  /// Where flights with long kernels are, the lane or one of its alternates; none without any.
  [[nodiscard]] std::optional<std::uint32_t> long_place(std::uint32_t place) const noexcept {
    const lane& l = lanes_[place];
    return l.with_long > 0 ? std::optional(l.long_place) : std::nullopt;
  }
  /// What was submitted last and not yet seen to end; null when nothing.
  [[nodiscard]] flight* newest(std::uint32_t place) noexcept {
    lane& l = lanes_[place];
    return l.flights.empty() ? nullptr : &l.flights.back();
  }
  [[nodiscard]] flight* oldest(std::uint32_t place) noexcept {
    lane& l = lanes_[place];
    return l.flights.empty() ? nullptr : &l.flights.front();
  }
  /// What was submitted to the flight's lane just before it; null when nothing.
  [[nodiscard]] flight* before(flight& f) noexcept {
    flight_list& all = lanes_[f.place].flights;
    auto at = all.iterator_to(f);
    return at == all.begin() ? nullptr : &*--at;
  }
  /// When the last segment of this lane was seen to end.
  [[nodiscard]] time_point last_end(std::uint32_t place) const noexcept {
    return lanes_[place].last_end;
  }

  void add(std::uint32_t place, flight& f) noexcept {
    lanes_[place].flights.push_back(f);
    lane& l = lanes_[lanes_[place].counts_for];
    l.queued += f.expected;
    ++l.in_flight;
    l.closed += f.last;
    l.with_long += f.has_long;
    if (f.has_long) l.long_place = place;
    settle(l);
  }

  void remove(std::uint32_t place, flight& f) noexcept {
    flight_list& all = lanes_[place].flights;
    all.erase(all.iterator_to(f));
    lane& l = lanes_[lanes_[place].counts_for];
    l.queued -= f.expected;
    --l.in_flight;
    l.closed -= f.last;
    l.with_long -= f.has_long;
    settle(l);
  }

  /// The lane gets no more work before that segment, which is on it no longer, is found.
  void lose(std::uint32_t place, segment_id id) noexcept {
    lane& own = lanes_[place];
    lane& l = lanes_[own.counts_for];
    if (!std::exchange(own.lost, id)) ++l.closed;
    settle(l);
  }
  /// The device has reported it after all. False if no lane has lost it.
  bool find_lost(segment_id id) noexcept {
    for (lane& own : lanes_) {
      if (own.lost != id) continue;
      own.lost.reset();
      lane& l = lanes_[own.counts_for];
      --l.closed;
      settle(l);
      return true;
    }
    return false;
  }
  /// No lane of the group gets work any more.
  [[nodiscard]] bool all_lost(std::size_t group) const noexcept {
    const lane_group& g = groups_[group];
    for (std::uint32_t i = g.first; i < g.first + g.lanes; ++i)
      if (!lanes_[i].lost) return false;
    return g.lanes > 0;
  }

  void ended(std::uint32_t place, time_point at) noexcept { lanes_[place].last_end = at; }

  /// What had stayed on the lane while it yielded goes on.
  void let_on(std::uint32_t place, time_point at) noexcept { lanes_[place].let_on = at; }
  [[nodiscard]] time_point last_let_on(std::uint32_t place) const noexcept {
    return lanes_[place].let_on;
  }

private:
  struct lane {
    lane_id id{};
    std::uint32_t group = 0;
    std::uint32_t counts_for = 0;     ///< its own place, or of an alternate the lane's
    std::uint32_t in_flight = 0;      ///< these six: with its alternates; unused in those
    std::uint32_t closed = 0;         ///< flights behind which nothing is queued
    std::optional<segment_id> lost{}; ///< it was given up, and may run yet
    std::uint32_t with_long = 0;      ///< flights with long kernels ...
    std::uint32_t long_place = 0;     ///< ... and where they are
    bool hungry = false;
    bool spare = false;
    duration queued{};
    time_point last_end{};
    time_point let_on{};
    flight_list flights;
  };
  struct lane_group {
    duration low{};
    duration high{};
    std::uint32_t first = 0; ///< place
    std::uint32_t lanes = 0; ///< without the spare ones, which are behind them
    std::uint32_t spares = 0;
    std::uint32_t hungry = 0;
    std::uint32_t hungry_spares = 0;
    std::uint32_t turn = 0;
  };

  void settle(lane& l) noexcept {
    lane_group& g = groups_[l.group];
    const bool now = (l.in_flight == 0 && !l.lost) ||
                     (l.closed == 0 && (l.queued < g.low || (l.hungry && l.queued < g.high)));
    std::uint32_t& hungry = l.spare ? g.hungry_spares : g.hungry;
    hungry += static_cast<std::uint32_t>(now) - static_cast<std::uint32_t>(l.hungry);
    l.hungry = now;
  }

  std::vector<lane> lanes_;
  std::vector<lane_group> groups_;
};

} // namespace gsched
