// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/notify/grouping.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/occupancy/demand.hpp>
#include <gsched/occupancy/detail/gpu_claims.hpp>
#include <gsched/occupancy/detail/segment_queue.hpp>
#include <gsched/occupancy/detail/segment_table.hpp>
#include <gsched/occupancy/detail/sm_ledger.hpp>
#include <gsched/occupancy/detail/sm_shares.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gsched {

/// The resident blocks of one SM according to the notifications (Paella, table 1).
struct sm_usage {
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared_bytes = 0;
  bool operator==(const sm_usage&) const noexcept = default;
};

/// An accountant for instrumented kernels. It counts, by groups of blocks, the blocks that are
/// resident on each SM and the dispatched blocks that wait for room.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, sections 4.1 and 6 (3), table 1.
/// Differs  the unit of dispatch is a segment. It demands the blocks of one kernel at a time: of
///          its widest kernel until one has started, and between two kernels. A segment that is
///          queued behind another one demands nothing until all blocks of that one were reported as
///          ended, that one was released, or a block of its own has started. There is room until
///          some resource of all SMs is demanded in full, and beyond that while fewer than
///          overshoot_blocks wait for room. Which blocks wait is not known; the mean waiting block
///          represents them. Sums over all SMs decide: decisions by the free resources of each SM
///          were measured to be no better (docs/research/measurements.md), so usage() is for
///          tools.
/// Errors   the constructor: bad_option, as check().
/// Threads  one owner; no locking.
class per_sm_accountant {
public:
  static constexpr bool wants_blocks = true;

  per_sm_accountant(const architecture_limits& l, sm_count sms, const accountant_options& o = {})
      : limits_(l), segments_((check(o, sms), o.max_outstanding)),
        placed_(o.max_outstanding, sms.count()), usage_(sms.count()),
        claims_(sms.count(), o.overshoot_blocks) {}

  [[nodiscard]] bool has_room() const noexcept { return !segments_.full() && claims_.has_room(); }

  [[nodiscard]] bool admits(const footprint& f) const noexcept {
    if (segments_.size() == 0) return true;
    if (!has_room()) return false;
    gpu_claims with = claims_;
    with.wait(shares_of(limits_, f.widest), std::min(f.widest.blocks, gpu_claims::most_waiting));
    return with.within();
  }

  void charge(segment_id s, const footprint& f,
              std::optional<segment_id> behind = std::nullopt) noexcept {
    if (segments_.find(s) != segments_.none) {
      ++violations_.duplicate_segment;
      return;
    }
    const std::uint32_t slot = segments_.try_insert(s);
    if (slot == segments_.none) {
      ++violations_.no_slot;
      return;
    }
    record& r = segments_[slot];
    r.widest = shares_of(limits_, f.widest);
    r.widest_blocks = f.widest.blocks;
    r.unreported = f.blocks;
    const std::uint32_t before = behind ? segments_.find(*behind) : segments_.none;
    if (before == segments_.none || is_over(segments_[before]) ||
        !queue_behind(segments_, slot, before))
      expect_next(r);
  }

  void release(segment_id s) noexcept {
    const std::uint32_t slot = segments_.find(s);
    if (slot == segments_.none) {
      ++violations_.unknown_segment;
      return;
    }
    record& r = segments_[slot];
    close_kernel(slot, r);
    if (r.reported) violations_.lost_starts += r.unreported;
    wait_for(r, 0);
    const bool was_next = r.queue.before == segments_.none;
    const std::uint32_t after = leave_queue(segments_, slot);
    segments_.erase(s);
    if (was_next && after != segments_.none) expect_next(segments_[after]);
  }

  /// A group of blocks of an operation of the segment has started on an SM. `k` is the demand of
  /// the operation.
  void started(segment_id s, std::uint32_t operation, const kernel_demand& k, std::uint32_t sm,
               std::uint32_t blocks) noexcept {
    const std::uint32_t slot = accept(s, sm, blocks);
    if (slot == segments_.none) return;
    record& r = segments_[slot];
    if (r.reported && operation < r.operation) {
      violations_.late_reports += blocks;
      return;
    }
    if (r.queue.before != segments_.none) leave_front(slot);
    if (!r.reported || operation != r.operation) open_kernel(slot, r, operation, k);
    const auto most =
        static_cast<std::uint32_t>(std::min<std::uint64_t>({blocks, r.to_start, r.unreported}));
    violations_.excess_starts += blocks - most;
    r.to_start -= most;
    r.unreported -= most;
    // If two groups take their tickets at the same time, the end of one can be reported before its
    // start.
    std::uint32_t already_over = 0;
    if (r.early_operation == operation) {
      already_over = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, r.early));
      r.early -= already_over;
    }
    place(slot, r, sm, most - already_over);
    expect_rest(r);
  }

  /// A group of blocks of an operation of the segment has ended.
  void ended(segment_id s, std::uint32_t operation, std::uint32_t sm,
             std::uint32_t blocks) noexcept {
    const std::uint32_t slot = accept(s, sm, blocks);
    if (slot == segments_.none) return;
    record& r = segments_[slot];
    if (r.reported && operation < r.operation) {
      violations_.late_reports += blocks;
      return;
    }
    std::uint32_t left = blocks;
    if (r.reported && operation == r.operation)
      left -= static_cast<std::uint32_t>(take(slot, r, sm, blocks));
    if (left > 0) keep_early(r, operation, left);
    expect_rest(r);
  }

  [[nodiscard]] double load() const noexcept { return claims_.load(); }
  [[nodiscard]] std::size_t slots() const noexcept { return segments_.capacity(); }
  [[nodiscard]] std::size_t outstanding() const noexcept { return segments_.size(); }
  [[nodiscard]] const accountant_violations& violations() const noexcept { return violations_; }

  [[nodiscard]] const sm_usage& usage(std::uint32_t sm) const noexcept { return usage_[sm]; }
  [[nodiscard]] std::uint64_t resident_blocks() const noexcept { return claims_.resident_blocks(); }
  /// The number of dispatched blocks without a reported start.
  [[nodiscard]] std::uint64_t waiting_blocks() const noexcept { return claims_.waiting_blocks(); }

private:
  struct record {
    segment_queue queue{}; ///< position on its lane
    sm_shares widest{};    ///< share of a block of the segment's widest kernel
    std::uint64_t widest_blocks = 0;
    std::uint64_t unreported = 0; ///< blocks of all kernels without a reported start
    sm_shares share{};            ///< share of a block that is counted as waiting or resident
    std::uint64_t waits = 0;      ///< blocks counted as waiting
    std::uint64_t to_start = 0;   ///< blocks of the running kernel without a reported start
    std::uint64_t resident = 0;   ///< resident blocks of the running kernel
    std::uint64_t early = 0;      ///< ends that were reported before their starts
    kernel_demand kernel{};       ///< the running kernel
    std::uint32_t operation = 0;  ///< the running operation, if `reported`
    std::uint32_t early_operation = 0;
    bool reported = false;
  };

  [[nodiscard]] std::uint32_t accept(segment_id s, std::uint32_t sm,
                                     std::uint32_t blocks) noexcept {
    if (sm >= usage_.size() || blocks == 0 || blocks > max_group_blocks) {
      ++violations_.bad_report;
      return segments_.none;
    }
    const std::uint32_t slot = segments_.find(s);
    if (slot == segments_.none) ++violations_.unknown_segment;
    return slot;
  }

  void wait_for(record& r, std::uint64_t blocks) noexcept {
    claims_.stop_waiting(r.share, r.waits);
    r.waits = std::min(blocks, gpu_claims::most_waiting);
    claims_.wait(r.share, r.waits);
  }

  /// No kernel runs; the next is assumed to be the widest.
  void expect_next(record& r) noexcept {
    wait_for(r, 0);
    r.share = r.widest;
    wait_for(r, std::min(r.widest_blocks, r.unreported));
  }

  void open_kernel(std::uint32_t slot, record& r, std::uint32_t operation,
                   const kernel_demand& k) noexcept {
    close_kernel(slot, r, operation);
    wait_for(r, 0);
    r.reported = true;
    r.operation = operation;
    r.kernel = k;
    r.share = shares_of(limits_, k);
    r.to_start = k.blocks;
  }

  /// The running kernel is over, so its missing reports will not come.
  void close_kernel(std::uint32_t slot, record& r, std::uint32_t next = 0xffffffffu) noexcept {
    if (r.resident > 0) violations_.lost_ends += take(slot, r, 0, r.resident);
    if (r.early > 0 && r.early_operation < next) {
      violations_.excess_ends += r.early;
      r.early = 0;
    }
  }

  void keep_early(record& r, std::uint32_t operation, std::uint32_t blocks) noexcept {
    if (r.early > 0 && r.early_operation != operation) {
      violations_.excess_ends += r.early;
      r.early = 0;
    }
    const bool running = r.reported && operation == r.operation;
    const std::uint64_t can_come = running ? std::min(r.to_start, r.unreported) : r.unreported;
    const auto most = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(blocks, can_come - std::min(can_come, r.early)));
    violations_.excess_ends += blocks - most;
    r.early += most;
    r.early_operation = operation;
  }

  void place(std::uint32_t slot, record& r, std::uint32_t sm, std::uint32_t blocks) noexcept {
    placed_.place(slot, sm, blocks);
    r.resident += blocks;
    claims_.place(r.share, blocks);
    sm_usage& u = usage_[sm];
    u.blocks += blocks;
    u.threads += blocks * r.kernel.threads;
    u.registers += blocks * r.kernel.registers;
    u.shared_bytes += blocks * r.kernel.shared_bytes;
  }

  std::uint64_t take(std::uint32_t slot, record& r, std::uint32_t sm,
                     std::uint64_t blocks) noexcept {
    const std::uint64_t taken =
        placed_.take(slot, sm, blocks, [&](std::uint32_t from, std::uint32_t n) {
          sm_usage& u = usage_[from];
          u.blocks -= n;
          u.threads -= n * r.kernel.threads;
          u.registers -= n * r.kernel.registers;
          u.shared_bytes -= n * r.kernel.shared_bytes;
        });
    r.resident -= taken;
    claims_.take(r.share, taken);
    return taken;
  }

  /// Updates the waiting blocks after a report: the rest of the running kernel, the next kernel if
  /// that is over, or the next segment if all kernels are over.
  void expect_rest(record& r) noexcept {
    if (!r.reported) return;
    if (r.to_start > 0 || r.resident > 0) return wait_for(r, std::min(r.to_start, r.unreported));
    expect_next(r);
    if (!is_over(r) || r.queue.after == segments_.none) return;
    const std::uint32_t after = r.queue.after;
    leave_front(after);
    expect_next(segments_[after]);
  }

  /// Whether all blocks were reported as started and ended. A segment without blocks is over at its
  /// release.
  [[nodiscard]] static bool is_over(const record& r) noexcept {
    return r.reported && r.unreported == 0 && r.resident == 0;
  }

  /// The segment is no longer queued behind another one, and no longer depends on its reports.
  void leave_front(std::uint32_t slot) noexcept {
    record& r = segments_[slot];
    segments_[r.queue.before].queue.after = segments_.none;
    r.queue.before = segments_.none;
  }

  architecture_limits limits_;
  segment_table<record> segments_;
  sm_ledger placed_;
  std::vector<sm_usage> usage_;
  gpu_claims claims_;
  accountant_violations violations_{};
};

static_assert(accountant<per_sm_accountant>);

} // namespace gsched
