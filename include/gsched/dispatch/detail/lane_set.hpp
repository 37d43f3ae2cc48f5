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

/// The lanes of one device: the segments queued on each, in order, and which lanes take more. Lanes
/// are opened in groups, each with marks of its own. A lane can have alternates, which take some of
/// its work; their queued time counts for the lane. A spare lane counts only where the caller asks
/// for spares.
///
/// A lane is refilling from the moment its queued time falls below the low mark until it reaches
/// the high mark; the gap between the marks batches decisions. An empty lane is always refilling; a
/// lane with a flight::last never is.
///
/// Order    least queued time first, then lowest lane.
/// Cost     add and remove O(1); least_queued and set_marks O(lanes of the group).
/// Threads  one owner; no locking.
class lane_set {
public:
  /// Groups and their lanes are opened before the first add. The constructor adds the first group.
  /// Set-up.
  lane_set(duration low, duration high) { add_group(low, high); }
  void add_group(duration low, duration high) {
    groups_.push_back({low, high, static_cast<std::uint32_t>(lanes_.size()), 0, 0, 0, 0, 0});
  }
  /// Adds a lane to the last group.
  void open(lane_id id) {
    lane& l = lanes_.emplace_back();
    l.id = id;
    l.group = static_cast<std::uint32_t>(groups_.size() - 1);
    l.counts_for = static_cast<std::uint32_t>(lanes_.size() - 1);
    ++groups_.back().lanes;
    update(l);
  }
  /// Adds a spare lane to the last group, behind all its other lanes.
  void open_spare(lane_id id) {
    lane& l = lanes_.emplace_back();
    l.id = id;
    l.group = static_cast<std::uint32_t>(groups_.size() - 1);
    l.counts_for = static_cast<std::uint32_t>(lanes_.size() - 1);
    l.spare = true;
    ++groups_.back().spares;
    update(l);
  }
  /// Adds an alternate of the lane at `place`, to the same group. Called after the last group's
  /// lanes.
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
  [[nodiscard]] bool any_refilling(std::size_t group = 0, bool with_spares = false) const noexcept {
    const lane_group& g = groups_[group];
    return g.refilling > 0 || (with_spares && g.refilling_spares > 0);
  }

  /// The refilling lane of the group with the least queued time; none if no lane is refilling.
  [[nodiscard]] std::optional<std::uint32_t> least_queued(std::size_t group = 0,
                                                          bool with_spares = false) const noexcept {
    const lane_group& g = groups_[group];
    const std::uint32_t end = g.first + g.lanes + (with_spares ? g.spares : 0);
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = g.first; i < end; ++i) {
      if (!lanes_[i].refilling || (best && lanes_[i].queued >= lanes_[*best].queued)) continue;
      best = i;
      if (lanes_[i].queued == duration::zero()) break; // an empty lane is the first choice
    }
    return best;
  }

  /// The group's lanes round robin, whatever is queued on them.
  [[nodiscard]] std::uint32_t next_round_robin(std::size_t group = 0) noexcept {
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
    for (std::uint32_t i = g.first; i < g.first + g.lanes + g.spares; ++i) update(lanes_[i]);
  }

  [[nodiscard]] lane_id id(std::uint32_t place) const noexcept { return lanes_[place].id; }
  /// The index of a lane; none if it is not in this set.
  [[nodiscard]] std::optional<std::uint32_t> find(lane_id id) const noexcept {
    for (std::uint32_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].id == id) return i;
    return std::nullopt;
  }
  /// The queued time of the lane and its alternates.
  [[nodiscard]] duration queued(std::uint32_t place) const noexcept { return lanes_[place].queued; }
  /// The lane or alternate that holds flights with long kernels; none without such flights.
  [[nodiscard]] std::optional<std::uint32_t> long_place(std::uint32_t place) const noexcept {
    const lane& l = lanes_[place];
    return l.with_long > 0 ? std::optional(l.long_place) : std::nullopt;
  }
  /// The segment that was submitted last and has not been seen to end; null if there is none.
  [[nodiscard]] flight* newest(std::uint32_t place) noexcept {
    lane& l = lanes_[place];
    return l.flights.empty() ? nullptr : &l.flights.back();
  }
  [[nodiscard]] flight* oldest(std::uint32_t place) noexcept {
    lane& l = lanes_[place];
    return l.flights.empty() ? nullptr : &l.flights.front();
  }
  /// The segment that was submitted to the flight's lane just before it; null if there is none.
  [[nodiscard]] flight* before(flight& f) noexcept {
    flight_list& all = lanes_[f.place].flights;
    auto at = all.iterator_to(f);
    return at == all.begin() ? nullptr : &*--at;
  }
  /// The time at which the last segment of this lane was seen to end.
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
    update(l);
  }

  void remove(std::uint32_t place, flight& f) noexcept {
    flight_list& all = lanes_[place].flights;
    all.erase(all.iterator_to(f));
    lane& l = lanes_[lanes_[place].counts_for];
    l.queued -= f.expected;
    --l.in_flight;
    l.closed -= f.last;
    l.with_long -= f.has_long;
    update(l);
  }

  /// The lane takes no more work until that segment, which is no longer queued on it, is found.
  void lose(std::uint32_t place, segment_id id) noexcept {
    lane& own = lanes_[place];
    lane& l = lanes_[own.counts_for];
    if (!std::exchange(own.lost, id)) ++l.closed;
    update(l);
  }
  /// The device has reported a lost segment. Returns false if no lane has lost it.
  bool find_lost(segment_id id) noexcept {
    for (lane& own : lanes_) {
      if (own.lost != id) continue;
      own.lost.reset();
      lane& l = lanes_[own.counts_for];
      --l.closed;
      update(l);
      return true;
    }
    return false;
  }
  /// Whether no lane of the group takes work any more.
  [[nodiscard]] bool all_lost(std::size_t group) const noexcept {
    const lane_group& g = groups_[group];
    for (std::uint32_t i = g.first; i < g.first + g.lanes; ++i)
      if (!lanes_[i].lost) return false;
    return g.lanes > 0;
  }

  void ended(std::uint32_t place, time_point at) noexcept { lanes_[place].last_end = at; }

  /// The work that stayed on the lane while it yielded continues.
  void resumed(std::uint32_t place, time_point at) noexcept { lanes_[place].resumed = at; }
  [[nodiscard]] time_point last_resumed(std::uint32_t place) const noexcept {
    return lanes_[place].resumed;
  }

private:
  struct lane {
    lane_id id{};
    std::uint32_t group = 0;
    std::uint32_t counts_for = 0;     ///< its own index; of an alternate, that of its lane
    std::uint32_t in_flight = 0;      ///< these six include the alternates, and are unused there
    std::uint32_t closed = 0;         ///< flights behind which no segment is queued
    std::optional<segment_id> lost{}; ///< a segment that was given up and may still run
    std::uint32_t with_long = 0;      ///< flights with long kernels
    std::uint32_t long_place = 0;     ///< the lane or alternate that holds these
    bool refilling = false;
    bool spare = false;
    duration queued{};
    time_point last_end{};
    time_point resumed{};
    flight_list flights;
  };
  struct lane_group {
    duration low{};
    duration high{};
    std::uint32_t first = 0; ///< index of the first lane
    std::uint32_t lanes = 0; ///< without the spare lanes, which follow
    std::uint32_t spares = 0;
    std::uint32_t refilling = 0;
    std::uint32_t refilling_spares = 0;
    std::uint32_t turn = 0;
  };

  void update(lane& l) noexcept {
    lane_group& g = groups_[l.group];
    const bool now = (l.in_flight == 0 && !l.lost) ||
                     (l.closed == 0 && (l.queued < g.low || (l.refilling && l.queued < g.high)));
    std::uint32_t& refilling = l.spare ? g.refilling_spares : g.refilling;
    refilling += static_cast<std::uint32_t>(now) - static_cast<std::uint32_t>(l.refilling);
    l.refilling = now;
  }

  std::vector<lane> lanes_;
  std::vector<lane_group> groups_;
};

} // namespace gsched
