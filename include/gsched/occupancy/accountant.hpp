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

/// How far beyond a full GPU an accountant lets work be dispatched, so that the GPU never waits for
/// the host (Paella, section 6 (3)).
///
/// Differs  Paella has B blocks alone. A queue is as long as it takes to run, so where only segment
///          ends are known the overshoot is a share of the GPU and device time, whichever is more.
struct accountant_options {
  static constexpr std::size_t most_outstanding = 4096;

  std::size_t max_outstanding = most_outstanding; ///< segments charged and not yet released
  std::uint64_t overshoot_blocks = 64;            ///< per_sm_accountant: Paella's B
  double overshoot_fill = 4.0;                    ///< aggregate_accountant: beyond 1, the full GPU
  duration overshoot_time = from_us(100.0);       ///< aggregate_accountant: device time that waits
};

/// Errors   bad_option for options, or a number of SMs, that no accountant can work with.
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

/// Calls that contradict the account, by kind. None of them changes it, but for what is returned in
/// place of reports that never came.
struct accountant_violations {
  std::uint64_t unknown_segment = 0;   ///< a release or a report of a segment not charged
  std::uint64_t duplicate_segment = 0; ///< a charge of a segment that is charged
  std::uint64_t no_slot = 0;           ///< a charge beyond max_outstanding
  std::uint64_t bad_report = 0;        ///< an SM or a number of blocks that cannot be
  std::uint64_t late_reports = 0;      ///< blocks of an operation whose successor has started
  std::uint64_t excess_starts = 0;     ///< blocks started beyond those the kernel has
  std::uint64_t excess_ends = 0;       ///< blocks ended beyond those that started
  std::uint64_t lost_starts = 0;       ///< blocks whose start never came, though others' did
  std::uint64_t lost_ends = 0;         ///< blocks whose end never came; returned in its stead

  [[nodiscard]] constexpr std::uint64_t total() const noexcept {
    return unknown_segment + duplicate_segment + no_slot + bad_report + late_reports +
           excess_starts + excess_ends + lost_starts + lost_ends;
  }
  bool operator==(const accountant_violations&) const noexcept = default;
};

// It breaks compound requirements:
// clang-format off

/// Knows how full the GPU is with what was dispatched and says when more is wanted. A model also
/// keeps:
///  C1 conservation  once all charged segments are released, load() and every account are exactly
///                   zero, whatever was reported in between.
///  C2 progress      with nothing outstanding, has_room() and admits(f) for every f.
///  C3 agreement     admits(f) implies has_room().
///  C4 monotone      charge never makes room; release never takes it, but for the work that was
///                   queued behind what is released and is next.
///  C5 honesty       what contradicts the account is counted in violations(), when its segment is
///                   released at the latest; nothing else is. load() is never negative.
///  C6 saturation    has_room() while what is outstanding cannot fill the GPU and a slot is free.
///  C7 hot path      no call but the constructor allocates, locks or throws; each is O(1), release
///                   amortised over the reports of its segment.
///  C8 determinism   answers depend on the calls alone.
/// has_room() asks before a pick whether anything more is wanted (the last one may reach beyond the
/// overshoot, as in Paella); admits(f) asks whether f stays within it. wants_blocks says whether
/// started and ended matter; where they do not, they may be left out.
/// The caller owes: a segment's operations run in order, one at a time; a segment that is charged as
/// queued behind another one starts when that one has been released, and is the only one behind it.
template <class A>
concept accountant =
    std::constructible_from<A, const architecture_limits&, sm_count, const accountant_options&> &&
    std::same_as<decltype(A::wants_blocks), const bool> &&
    requires(A a, const A c, segment_id s, const footprint& f, const kernel_demand& k,
             std::uint32_t n, std::optional<segment_id> behind) {
      { c.has_room() } noexcept -> std::same_as<bool>;
      { c.admits(f) } noexcept -> std::same_as<bool>;
      { a.charge(s, f) } noexcept -> std::same_as<void>;
      { a.charge(s, f, behind) } noexcept -> std::same_as<void>; // which is next on s's lane
      { a.release(s) } noexcept -> std::same_as<void>;
      { a.started(s, n, k, n, n) } noexcept -> std::same_as<void>; // operation, demand, SM, blocks
      { a.ended(s, n, n, n) } noexcept -> std::same_as<void>;      // operation, SM, blocks
      { c.load() } noexcept -> std::same_as<double>;
      { c.outstanding() } noexcept -> std::same_as<std::size_t>;
      { c.slots() } noexcept -> std::same_as<std::size_t>; // of these, at most
      { c.violations() } noexcept -> std::same_as<const accountant_violations&>;
    };
// clang-format on

} // namespace gsched
