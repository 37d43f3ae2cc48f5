// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/flight.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gsched {

/// The lanes of one device as the dispatcher fills them: what is queued on each, in order, and
/// which want more.
///
/// A lane wants work from when its queued time falls below the low mark until it reaches the high
/// mark: the gap between the marks makes decisions come in runs, not one by one.
///
/// Order    least queued time first, then lowest lane.
/// Cost     add and remove O(1); hungriest and any_hungry O(lanes), lanes being few.
/// Threads  one owner; no locking.
class lane_set {
public:
  lane_set(duration low, duration high) noexcept : low_(low), high_(high) {}

  /// Set-up: all lanes are opened before the first add.
  void open(lane_id id) {
    lanes_.emplace_back().id = id;
    settle(lanes_.back());
  }

  [[nodiscard]] std::size_t size() const noexcept { return lanes_.size(); }
  [[nodiscard]] bool any_hungry() const noexcept { return hungry_ > 0; }

  /// The place of the lane that wants work most; none when no lane wants any.
  [[nodiscard]] std::optional<std::uint32_t> hungriest() const noexcept {
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].hungry && (!best || lanes_[i].queued < lanes_[*best].queued)) best = i;
    return best;
  }

  /// The lanes in turn, whatever is queued on them.
  [[nodiscard]] std::uint32_t next_in_turn() noexcept {
    const std::uint32_t place = turn_;
    turn_ = (turn_ + 1) % static_cast<std::uint32_t>(lanes_.size());
    return place;
  }

  [[nodiscard]] lane_id id(std::uint32_t place) const noexcept { return lanes_[place].id; }
  [[nodiscard]] duration queued(std::uint32_t place) const noexcept { return lanes_[place].queued; }
  /// What was submitted last and not yet seen to end; null when nothing.
  [[nodiscard]] flight* newest(std::uint32_t place) noexcept {
    lane& l = lanes_[place];
    return l.flights.empty() ? nullptr : &l.flights.back();
  }
  [[nodiscard]] flight* oldest(std::uint32_t place) noexcept {
    lane& l = lanes_[place];
    return l.flights.empty() ? nullptr : &l.flights.front();
  }
  /// When the last segment of this lane was seen to end.
  [[nodiscard]] time_point last_end(std::uint32_t place) const noexcept {
    return lanes_[place].last_end;
  }

  void add(std::uint32_t place, flight& f) noexcept {
    lane& l = lanes_[place];
    l.flights.push_back(f);
    l.queued += f.expected;
    settle(l);
  }

  void remove(std::uint32_t place, flight& f) noexcept {
    lane& l = lanes_[place];
    l.flights.erase(l.flights.iterator_to(f));
    l.queued -= f.expected;
    settle(l);
  }

  void ended(std::uint32_t place, time_point at) noexcept { lanes_[place].last_end = at; }

private:
  struct lane {
    lane_id id{};
    bool hungry = false;
    duration queued{};
    time_point last_end{};
    flight_list flights;
  };

  void settle(lane& l) noexcept {
    const bool now = l.flights.empty() || l.queued < low_ || (l.hungry && l.queued < high_);
    hungry_ += static_cast<std::size_t>(now) - static_cast<std::size_t>(l.hungry);
    l.hungry = now;
  }

  duration low_;
  duration high_;
  std::vector<lane> lanes_;
  std::size_t hungry_ = 0;
  std::uint32_t turn_ = 0;
};

} // namespace gsched
