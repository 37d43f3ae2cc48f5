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

/// The capacity that one real-time kernel leaves unused while it runs: block slots (SMs x level,
/// less its own blocks in its last wave), each for some time. Blocks of co-runners follow those of
/// the real-time kernel in the grid, and the hardware starts blocks in that order, each in the slot
/// that is free first. So a slot runs several short blocks one after another, and a later
/// co-runner's block after an earlier one's.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5.2: the real-time kernel
///          first, the rest for others, until no slot or no candidate is left.
/// Differs  the paper counts whole compute units and adds to each what fits at once; here the unit
///          is a block slot of an SM, and blocks of less than half of the time run one after
///          another. A real-time kernel of several waves leaves slots only in its last wave, for
///          the time of that wave: blocks that started earlier would delay its own. A co-runner
///          with a level below that of the real-time kernel (level_rule::needed) lowers the level
///          of the whole kernel, and later co-runners need at least that level.
/// Order    the blocks of a co-runner are taken in order, from the first on.
/// Cost     terms O(1), take O(parts squared); no allocation.
/// Threads  a value.
class pad_capacity {
public:
  pad_capacity(const kernel_variant& real_time, const pad_options& o) noexcept
      : blocks_(real_time.blocks), own_(real_time.level), level_(real_time.level) {
    const std::uint64_t waves = waves_of(real_time.blocks, std::uint64_t{o.sms.count()} * own_);
    const auto wave = static_cast<double>(real_time.kernel_time.count()) / double(waves);
    until_ = duration{static_cast<duration::rep>(o.share * wave)};
    sms_by_waves_ = o.sms.count() * waves;
    least_ = required_level(real_time, o.level, o.sms);
    while (least_ < own_ && spare(least_) == 0) ++least_; // at most once
    if (spare(least_) > 0) parts_left_ = o.parts;
  }

  /// The conditions for the next co-runner: if it meets them, at least one of its blocks fits.
  [[nodiscard]] pad_terms terms() const noexcept {
    if (parts_left_ == 0) return {duration::zero(), least_};
    if (places_.empty()) return {until_, least_};
    return {until_ - places_[0].free, level_};
  }

  /// Adds as many of the co-runner's next `blocks` blocks as fit, and returns their number: none if
  /// terms() do not admit it.
  std::uint32_t take(const kernel_variant& corunner, std::uint32_t blocks) noexcept {
    if (blocks == 0 || !terms().admit(corunner)) return 0;
    if (places_.empty()) {
      level_ = std::min(own_, corunner.level);
      places_.push_back({duration::zero(), spare(level_)});
    }
    --parts_left_;
    std::uint64_t left = blocks;
    while (left > 0 && places_[0].free + corunner.block_time < until_) {
      if (!all_take(corunner.block_time, left)) first_takes(corunner.block_time, left);
    }
    return static_cast<std::uint32_t>(blocks - left);
  }

  /// The level of the padded kernel: that of the real-time kernel, or of a co-runner with a lower
  /// level.
  [[nodiscard]] std::uint32_t level() const noexcept { return level_; }
  /// The number of co-runners' blocks that can run at once.
  [[nodiscard]] std::uint64_t spare() const noexcept { return spare(level_); }

private:
  /// Slots that become free at the same time.
  struct group {
    duration free{};
    std::uint64_t places = 0;
  };

  [[nodiscard]] std::uint64_t spare(std::uint32_t level) const noexcept {
    return sms_by_waves_ * level - blocks_; // because the waves before the last are full
  }

  /// How many blocks one after another a slot that is free at `from` can run in time.
  [[nodiscard]] std::uint64_t rounds(duration from, duration block) const noexcept {
    return static_cast<std::uint64_t>((until_ - duration{1} - from) / block);
  }

  /// Gives each slot as many blocks as all slots can run.
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

  /// Gives each of the earliest free slots a block, or as many as end before others are free.
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

  std::uint64_t blocks_; ///< blocks of the real-time kernel
  std::uint64_t sms_by_waves_ = 0;
  std::uint32_t own_;
  std::uint32_t level_;
  std::uint32_t least_ = 0;
  std::uint32_t parts_left_ = 0;
  duration until_{};
  /// by rising free time; empty: no slot is taken
  inline_vector<group, pad_options::most_parts + 1> places_;
};

} // namespace gsched
