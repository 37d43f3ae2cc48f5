// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/inline_vector.hpp>
#include <gsched/core/time.hpp>
#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// What one real-time kernel leaves free while it runs: places for blocks (SMs x level, less its
/// own in its last wave), each for so long. Guests' blocks follow the real-time kernel's in the
/// grid, and the hardware starts blocks in that order, each in the place that is free first; so a
/// place takes several short blocks one after the other, and a later guest's where an earlier one
/// has ended.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5.2: the real-time
///          kernel first, the rest for others, until no place or no candidate is left.
/// Differs  the paper counts whole compute units and adds to each what fits at once; here a unit is
///          a block's place on an SM, and blocks of less than half of the time follow each other.
///          A real-time kernel of several waves is taken to leave places in its last one alone, for
///          that wave's part of its time: blocks that start earlier would hold its own back.
///          A guest of a level below the real-time kernel's own (level_rule::needed) lowers the
///          level of the whole kernel, and guests after it have to have that one.
/// Order    a guest's blocks are taken in their order, from the first on.
/// Cost     terms O(1), take O(parts squared); no allocation.
/// Threads  a value.
class pad_room {
public:
  pad_room(const kernel_variant& real_time, const pad_options& o) noexcept
      : blocks_(real_time.blocks), own_(real_time.level), level_(real_time.level) {
    const std::uint64_t waves = waves_of(real_time.blocks, std::uint64_t{o.sms.count()} * own_);
    const auto wave = static_cast<double>(real_time.kernel_time.count()) / double(waves);
    until_ = duration{static_cast<duration::rep>(o.share * wave)};
    sms_by_waves_ = o.sms.count() * waves;
    least_ = required_level(real_time, o.level, o.sms);
    while (least_ < own_ && spare(least_) == 0) ++least_; // once at the most
    if (spare(least_) > 0) parts_left_ = o.parts;
  }

  /// What the next guest has to meet: then at least one of its blocks finds a place.
  [[nodiscard]] pad_terms terms() const noexcept {
    if (parts_left_ == 0) return {duration::zero(), least_};
    if (places_.empty()) return {until_, least_};
    return {until_ - places_[0].free, level_};
  }

  /// Adds as many of the guest's next `blocks` blocks as find a place and says how many: none if
  /// terms() do not admit it.
  std::uint32_t take(const kernel_variant& guest, std::uint32_t blocks) noexcept {
    if (blocks == 0 || !terms().admit(guest)) return 0;
    if (places_.empty()) {
      level_ = std::min(own_, guest.level);
      places_.push_back({duration::zero(), spare(level_)});
    }
    --parts_left_;
    std::uint64_t left = blocks;
    while (left > 0 && places_[0].free + guest.block_time < until_) {
      if (!all_take(guest.block_time, left)) first_takes(guest.block_time, left);
    }
    return static_cast<std::uint32_t>(blocks - left);
  }

  /// The level of the padded kernel: the real-time kernel's own, or that of a lower guest.
  [[nodiscard]] std::uint32_t level() const noexcept { return level_; }
  /// Blocks of guests that run at once, if they have as many.
  [[nodiscard]] std::uint64_t spare() const noexcept { return spare(level_); }

private:
  /// So many places, free from then on.
  struct group {
    duration free{};
    std::uint64_t places = 0;
  };

  [[nodiscard]] std::uint64_t spare(std::uint32_t level) const noexcept {
    return sms_by_waves_ * level - blocks_; // as the waves before the last are full
  }

  /// How often a place that is free at `from` takes a block before it is too late.
  [[nodiscard]] std::uint64_t rounds(duration from, duration block) const noexcept {
    return static_cast<std::uint64_t>((until_ - duration{1} - from) / block);
  }

  /// Gives each place as many blocks as all of them can take, if they take turns.
  bool all_take(duration block, std::uint64_t& left) noexcept {
    const duration last = places_[places_.size() - 1].free;
    if (last - places_[0].free > block || last + block >= until_) return false;
    std::uint64_t all = 0;
    for (const group& g : places_) all += g.places;
    const std::uint64_t n = std::min(left / all, rounds(last, block));
    for (group& g : places_) g.free += block * static_cast<duration::rep>(n);
    left -= n * all;
    return n > 0;
  }

  /// The places that are free first take a block each, or as many as until others are free.
  void first_takes(duration block, std::uint64_t& left) noexcept {
    const group first = places_[0];
    const std::uint64_t here = std::min(first.places, left);
    std::uint64_t n = std::min(left / here, rounds(first.free, block));
    if (places_.size() > 1)
      n = std::min(n, static_cast<std::uint64_t>((places_[1].free - first.free) / block));
    n = std::max<std::uint64_t>(n, 1);
    if (here < first.places) n = 1;
    left -= n * here;
    const group moved{first.free + block * static_cast<duration::rep>(n), here};
    inline_vector<group, pad_options::most_parts + 1> now;
    if (here < first.places) now.push_back({first.free, first.places - here});
    bool placed = false;
    for (std::size_t i = 1; i < places_.size(); ++i) {
      if (!placed && moved.free <= places_[i].free) {
        placed = true;
        now.push_back(moved);
        if (moved.free == places_[i].free) {
          now[now.size() - 1].places += places_[i].places;
          continue;
        }
      }
      now.push_back(places_[i]);
    }
    if (!placed) now.push_back(moved);
    places_ = now;
  }

  std::uint64_t blocks_; ///< of the real-time kernel
  std::uint64_t sms_by_waves_ = 0;
  std::uint32_t own_;
  std::uint32_t level_;
  std::uint32_t least_ = 0;
  std::uint32_t parts_left_ = 0;
  duration until_{};
  inline_vector<group, pad_options::most_parts + 1> places_; ///< free rising; empty: none taken
};

} // namespace gsched
