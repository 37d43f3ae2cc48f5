// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched {

/// Records of the segments in flight, by id. A record keeps its slot, a number below capacity(), so
/// that other arrays can be indexed by it.
///
/// Errors   too_small: a capacity of zero.
/// Cost     find, insert and erase O(1) expected (linear probing, at most half full); only the
///          constructor allocates.
/// Threads  one owner; no locking.
template <class Record>
class segment_table {
public:
  static constexpr std::uint32_t none = 0xffffffffu;

  explicit segment_table(std::size_t capacity) : records_(capacity) {
    if (capacity == 0 || capacity >= none / 4)
      throw error(errc::too_small,
                  "room for " + std::to_string(capacity) + " segments, expected at least 1");
    buckets_.resize(std::bit_ceil(2 * capacity));
    shift_ = 64 - std::countr_zero(buckets_.size());
    free_.reserve(capacity);
    for (std::size_t i = capacity; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
  }

  /// The slot of a segment; none if the table lacks it.
  [[nodiscard]] std::uint32_t find(segment_id id) const noexcept {
    for (std::size_t b = home(id);; b = next(b)) {
      if (buckets_[b].slot == none) return none;
      if (buckets_[b].id == id) return buckets_[b].slot;
    }
  }

  /// Adds a new segment and returns a slot with a fresh record; none if the table is full.
  [[nodiscard]] std::uint32_t try_insert(segment_id id) noexcept {
    assert(find(id) == none);
    if (free_.empty()) return none;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    std::size_t b = home(id);
    while (buckets_[b].slot != none) b = next(b);
    buckets_[b] = {id, slot};
    records_[slot] = Record{};
    return slot;
  }

  /// Frees the slot of a segment in the table.
  void erase(segment_id id) noexcept {
    std::size_t hole = home(id);
    while (buckets_[hole].id != id || buckets_[hole].slot == none) {
      assert(buckets_[hole].slot != none);
      hole = next(hole);
    }
    free_.push_back(buckets_[hole].slot); // within the reserved capacity
    // Moves each entry that was displaced past the hole into it, because searches end at a hole.
    for (std::size_t b = next(hole); buckets_[b].slot != none; b = next(b)) {
      const std::size_t wanted = home(buckets_[b].id);
      const std::size_t mask = buckets_.size() - 1;
      // its home position lies after the hole
      if (((b - wanted) & mask) < ((b - hole) & mask)) continue;
      buckets_[hole] = buckets_[b];
      hole = b;
    }
    buckets_[hole] = {};
  }

  [[nodiscard]] Record& operator[](std::uint32_t slot) noexcept { return records_[slot]; }
  [[nodiscard]] const Record& operator[](std::uint32_t slot) const noexcept {
    return records_[slot];
  }
  [[nodiscard]] std::size_t size() const noexcept { return records_.size() - free_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return records_.size(); }
  [[nodiscard]] bool full() const noexcept { return free_.empty(); }

private:
  struct bucket {
    segment_id id{};
    std::uint32_t slot = none;
  };

  [[nodiscard]] std::size_t home(segment_id id) const noexcept {
    return static_cast<std::size_t>((index(id) * 0x9e3779b97f4a7c15u) >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t b) const noexcept {
    return (b + 1) & (buckets_.size() - 1);
  }

  std::vector<Record> records_;
  std::vector<bucket> buckets_;
  std::vector<std::uint32_t> free_;
  int shift_ = 0;
};

} // namespace gsched
