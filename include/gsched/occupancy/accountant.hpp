// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/occupancy/demand.hpp>
#include <gsched/occupancy/limits.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

namespace gsched {

/// How much work an accountant admits beyond a full GPU, so that the GPU never waits for the host.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6 (3).
/// Differs  the paper has a number of blocks, B. If only segment ends are known, the overshoot is
///          the larger of a share of the GPU and a device time, because the length of a queue is
///          its run time.
struct accountant_options {
  static constexpr std::size_t most_outstanding = 4096;

  std::size_t max_outstanding = most_outstanding; ///< segments charged and not released
  std::uint64_t overshoot_blocks = 64;            ///< per_sm_accountant: B of the paper
  double overshoot_fill = 4.0; ///< aggregate_accountant: share beyond 1, the full GPU
  /// aggregate_accountant: device time of the waiting work
  duration overshoot_time = from_us(100.0);
};

/// Refuses options or a number of SMs that no accountant supports.
///
/// Errors   bad_option.
inline void check(const accountant_options& o, sm_count sms) {
  constexpr std::uint32_t most_sms = 65534;
  if (o.max_outstanding == 0 || o.max_outstanding > accountant_options::most_outstanding)
    throw error(errc::bad_option, "max_outstanding " + std::to_string(o.max_outstanding) +
                                      ", expected 1 to " +
                                      std::to_string(accountant_options::most_outstanding));
  if (!(o.overshoot_fill >= 0) || o.overshoot_time < duration::zero())
    throw error(errc::bad_option, "negative overshoot, expected zero or more");
  if (sms.count() == 0 || sms.count() > most_sms)
    throw error(errc::bad_option,
                std::to_string(sms.count()) + " SMs, expected 1 to " + std::to_string(most_sms));
}

/// Counts of calls that contradict the account, by kind. Such a call changes nothing, except that a
/// release returns what missing reports would have returned.
struct accountant_violations {
  std::uint64_t unknown_segment = 0;   ///< release or report of a segment that is not charged
  std::uint64_t duplicate_segment = 0; ///< charge of a segment that is already charged
  std::uint64_t no_slot = 0;           ///< charge beyond max_outstanding
  std::uint64_t bad_report = 0;        ///< an impossible SM or number of blocks
  std::uint64_t late_reports = 0;      ///< blocks of an operation whose successor has started
  std::uint64_t excess_starts = 0;     ///< started blocks beyond the blocks of the kernel
  std::uint64_t excess_ends = 0;       ///< ended blocks beyond the started blocks
  /// blocks without a start report, although others of the kernel had one
  std::uint64_t lost_starts = 0;
  std::uint64_t lost_ends = 0; ///< blocks without an end report; the release returned them

  [[nodiscard]] constexpr std::uint64_t total() const noexcept {
    return unknown_segment + duplicate_segment + no_slot + bad_report + late_reports +
           excess_starts + excess_ends + lost_starts + lost_ends;
  }
  bool operator==(const accountant_violations&) const noexcept = default;
};

/// Tracks how full the dispatched work keeps the GPU, and answers whether more work is wanted. A
/// model also keeps:
///  C1 conservation  once all charged segments are released, load() and every account are exactly
///                   zero, whatever was reported in between.
///  C2 progress      with nothing outstanding, has_room() holds, and admits(f) for every f.
///  C3 agreement     admits(f) implies has_room().
///  C4 monotone      charge never makes room. release never takes room, except for the work that
///                   was queued behind the released segment and is next.
///  C5 honesty       calls that contradict the account, and no others, are counted in violations(),
///                   at the latest when their segment is released. load() is never negative.
///  C6 saturation    has_room() holds while the outstanding work cannot fill the GPU and a slot is
///                   free.
///  C7 hot path      only the constructor allocates, locks or throws; each call is O(1), release
///                   amortised over the reports of its segment.
///  C8 determinism   results depend on the calls alone.
/// has_room() answers before a pick whether more work is wanted; the last segment may exceed the
/// overshoot, as in Paella. admits(f) answers whether f stays within the overshoot. wants_blocks
/// says whether started and ended have an effect; otherwise they may be omitted.
///
/// The caller guarantees: the operations of a segment run in order, one at a time. A segment that
/// is charged as queued behind another one starts when that one was released, and is the only one
/// behind it.
template <class A>
concept accountant =
    std::constructible_from<A, const architecture_limits&, sm_count, const accountant_options&> &&
    std::same_as<decltype(A::wants_blocks), const bool> &&
    requires(A a, const A c, segment_id s, const footprint& f, const kernel_demand& k,
             std::uint32_t n, std::optional<segment_id> behind) {
      { c.has_room() } noexcept -> std::same_as<bool>;
      { c.admits(f) } noexcept -> std::same_as<bool>;
      { a.charge(s, f) } noexcept -> std::same_as<void>;
      { a.charge(s, f, behind) } noexcept -> std::same_as<void>; // the segment before s on its lane
      { a.release(s) } noexcept -> std::same_as<void>;
      { a.started(s, n, k, n, n) } noexcept -> std::same_as<void>; // operation, demand, SM, blocks
      { a.ended(s, n, n, n) } noexcept -> std::same_as<void>;      // operation, SM, blocks
      { c.load() } noexcept -> std::same_as<double>;
      { c.outstanding() } noexcept -> std::same_as<std::size_t>;
      { c.slots() } noexcept -> std::same_as<std::size_t>; // limit of outstanding()
      { c.violations() } noexcept -> std::same_as<const accountant_violations&>;
    };

} // namespace gsched
