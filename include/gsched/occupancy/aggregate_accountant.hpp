// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/occupancy/demand.hpp>
#include <gsched/occupancy/detail/segment_queue.hpp>
#include <gsched/occupancy/detail/segment_table.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gsched {

/// An accountant for unmodified kernels. It knows when segments were dispatched and when they
/// ended, and assumes that each occupies its mean fill in between.
///
/// Source   the loop of Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6 (3).
/// Differs  blocks are not reported, so the overshoot B is a share of the GPU and a time. There is
///          room while the fills sum to less than the full GPU plus overshoot_fill, or while the
///          work that waits behind a full GPU takes less than overshoot_time. A segment that is
///          queued behind another one adds its fill when that one is released. Of outstanding work
///          W (the sum of fill x time) with fills that sum to F > 1, the part W / F is assumed to
///          run and the rest to wait.
/// Units    sums are integers (2^-32 of the GPU, and ns of the whole GPU), so that they return to
///          exactly zero.
/// Errors   the constructor: bad_option, as check().
/// Threads  one owner; no locking.
class aggregate_accountant {
public:
  static constexpr bool wants_blocks = false;

  aggregate_accountant(const architecture_limits&, sm_count sms, const accountant_options& o = {})
      : segments_((check(o, sms), o.max_outstanding)), full_(full + fixed(o.overshoot_fill)),
        most_queued_(o.overshoot_time) {}

  [[nodiscard]] bool has_room() const noexcept {
    return !segments_.full() && (fill_ < full_ || queued(fill_, work_) < most_queued_);
  }

  [[nodiscard]] bool admits(const footprint& f) const noexcept {
    if (segments_.size() == 0) return true;
    const charged c = charged_for(f);
    return has_room() &&
           (fill_ + c.fill <= full_ || queued(fill_ + c.fill, work_ + c.work) <= most_queued_);
  }

  void charge(segment_id s, const footprint& f,
              std::optional<segment_id> behind = std::nullopt) noexcept {
    if (segments_.find(s) != no_slot) {
      ++violations_.duplicate_segment;
      return;
    }
    const std::uint32_t slot = segments_.try_insert(s);
    if (slot == no_slot) {
      ++violations_.no_slot;
      return;
    }
    const charged c = charged_for(f);
    segments_[slot] = c;
    const std::uint32_t before = behind ? segments_.find(*behind) : no_slot;
    if (before == no_slot || !queue_behind(segments_, slot, before)) fill_ += c.fill;
    work_ += c.work;
  }

  void release(segment_id s) noexcept {
    const std::uint32_t slot = segments_.find(s);
    if (slot == no_slot) {
      ++violations_.unknown_segment;
      return;
    }
    const charged c = segments_[slot];
    const std::uint32_t after = leave_queue(segments_, slot);
    if (c.queue.before == no_slot) {
      fill_ -= c.fill;
      if (after != no_slot) fill_ += segments_[after].fill;
    }
    work_ -= c.work;
    segments_.erase(s);
  }

  void started(segment_id s, std::uint32_t, const kernel_demand&, std::uint32_t,
               std::uint32_t) noexcept {
    report(s);
  }
  void ended(segment_id s, std::uint32_t, std::uint32_t, std::uint32_t) noexcept { report(s); }

  [[nodiscard]] double load() const noexcept { return static_cast<double>(fill_) / full; }
  [[nodiscard]] std::size_t slots() const noexcept { return segments_.capacity(); }
  [[nodiscard]] std::size_t outstanding() const noexcept { return segments_.size(); }
  [[nodiscard]] const accountant_violations& violations() const noexcept { return violations_; }

  /// The time that the GPU would need for the work that waits behind the running segments.
  [[nodiscard]] duration queued() const noexcept { return queued(fill_, work_); }

private:
  static constexpr std::uint64_t full = std::uint64_t{1} << 32;
  static constexpr double longest_ns = 1e15; // the sum of 4096 segments does not overflow

  static constexpr std::uint32_t no_slot = segment_queue::none;
  struct charged {
    std::uint64_t fill = 0;
    std::uint64_t work = 0;
    segment_queue queue{}; ///< position on its lane
  };

  [[nodiscard]] static std::uint64_t fixed(double share) noexcept {
    return static_cast<std::uint64_t>(std::clamp(share, 0.0, 1e6) * full + 0.5);
  }

  [[nodiscard]] static charged charged_for(const footprint& f) noexcept {
    const double fill = f.fill > 0 ? std::min(f.fill, 1.0) : 0.0;
    const double ns = std::clamp(static_cast<double>(f.time.count()), 0.0, longest_ns);
    return {.fill = fixed(fill), .work = static_cast<std::uint64_t>(fill * ns + 0.5), .queue = {}};
  }

  [[nodiscard]] static duration queued(std::uint64_t fill, std::uint64_t work) noexcept {
    if (fill <= full) return duration::zero();
    const double waits = static_cast<double>(fill - full) / static_cast<double>(fill);
    return duration{static_cast<duration::rep>(static_cast<double>(work) * waits)};
  }

  void report(segment_id s) noexcept {
    if (segments_.find(s) == no_slot) ++violations_.unknown_segment;
  }

  segment_table<charged> segments_;
  std::uint64_t full_; ///< including the overshoot
  duration most_queued_;
  std::uint64_t fill_ = 0;
  std::uint64_t work_ = 0;
  accountant_violations violations_;
};

static_assert(accountant<aggregate_accountant>);

} // namespace gsched
