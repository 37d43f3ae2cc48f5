// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>

#include <boost/intrusive/list.hpp>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gsched {

namespace bi = boost::intrusive;
struct active_job;

/// A flight: one segment that was submitted and has not been seen to end.
struct flight {
  static constexpr std::size_t max_loose = 64; ///< limit for a segment outside programs

  segment_id id{};
  active_job* owner = nullptr; ///< null: not in use
  std::uint32_t place = 0;     ///< index of its lane in the lane_set
  stream_id stream{};
  program_id program = no_program; ///< with `first`, the range, if it is part of a program
  std::uint32_t first = 0;
  program_id runs = no_program; ///< the program that the device runs: `program`, or a padded one
  /// operations of another job that a padded program runs; unknown to the device
  flight* carries = nullptr;
  bool preempted = false;  ///< it was preempted, and its lane has not yielded yet
  bool last = false;       ///< no segment is queued behind it on its lane
  bool has_long = false;   ///< contains kernels for which lanes leave SMs unused
  bool copies = false;     ///< only copies and memsets
  bool remainder = false;  ///< the rest of a job that is ending: see active_job::remainders
  std::uint32_t ended = 0; ///< ended operations, if it was preempted
  duration expected{};
  time_point submitted{};
  std::span<const operation* const> operations{};
  bi::list_member_hook<bi::link_mode<bi::safe_link>> lane_hook{};
  std::array<const operation*, max_loose> loose{}; ///< storage of `operations` outside programs
};

using flight_list = bi::list<
    flight,
    bi::member_hook<flight, bi::list_member_hook<bi::link_mode<bi::safe_link>>, &flight::lane_hook>,
    bi::constant_time_size<true>>;

/// All flights of one dispatcher. The id of a segment contains the slot of its flight and a serial
/// number, so an event finds its flight without a search, and an event for an earlier flight is
/// detected.
///
/// Errors   try_take returns null when all are in use.
/// Cost     O(1) each; never allocates after construction.
/// Threads  one owner; no locking.
class flight_table {
public:
  static constexpr unsigned slot_bits = 20;

  explicit flight_table(std::size_t slots) : flights_(std::make_unique<flight[]>(slots)) {
    assert(slots <= std::size_t{1} << slot_bits);
    free_.reserve(slots);
    for (std::size_t i = slots; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
    slots_ = slots;
  }

  [[nodiscard]] flight* try_take(active_job& owner) noexcept {
    if (free_.empty()) return nullptr;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    flight& f = flights_[slot];
    f.id = segment_id{(serial_++ << slot_bits) | slot};
    f.owner = &owner;
    f.preempted = f.remainder = f.last = f.has_long = f.copies = false;
    f.carries = nullptr;
    return &f;
  }

  /// The flight of a segment; null if it is not in flight.
  [[nodiscard]] flight* find(segment_id id) noexcept {
    const std::uint64_t slot = index(id) & ((std::uint64_t{1} << slot_bits) - 1);
    if (slot >= slots_) return nullptr;
    flight& f = flights_[slot];
    return f.owner != nullptr && f.id == id ? &f : nullptr;
  }

  void give_back(flight& f) noexcept {
    f.owner = nullptr;
    // within the reserved capacity
    free_.push_back(static_cast<std::uint32_t>(&f - flights_.get()));
  }

  [[nodiscard]] bool full() const noexcept { return free_.empty(); }
  [[nodiscard]] std::size_t slots() const noexcept { return slots_; }
  [[nodiscard]] std::size_t in_use() const noexcept { return slots_ - free_.size(); }

private:
  std::unique_ptr<flight[]> flights_;
  std::vector<std::uint32_t> free_;
  std::size_t slots_ = 0;
  std::uint64_t serial_ = 1;
};

} // namespace gsched
