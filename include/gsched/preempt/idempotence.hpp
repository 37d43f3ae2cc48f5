// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>
#include <gsched/preempt/access.hpp>
#include <gsched/preempt/detail/access_history.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace gsched {

/// How an operation that was killed while it ran is run again.
enum class restart : std::uint8_t {
  alone,      ///< by itself: it is idempotent
  with_group, ///< together with operations before it
  never       ///< not at all: it must not be killed, only waited for
};

/// An input that is overwritten: `read_by` reads it, `overwritten_by` writes it later (both may be
/// the same operation), and no earlier operation of the affected group writes it.
struct clobber {
  byte_range range{};
  std::size_t read_by = 0;
  std::size_t overwritten_by = 0;
  bool operator==(const clobber&) const noexcept = default;
};

/// Whether an operation may be killed, and where its program then continues.
struct idempotence_verdict {
  restart how = restart::alone;
  /// The operations [group_first, operation] are run again: the shortest possible group; the
  /// operation itself for restart::alone and never.
  std::size_t group_first = 0;
  /// The input of its own that it overwrites. None, like the next member, for restart::alone,
  /// barriers and declared operations.
  std::optional<clobber> own{};
  /// Why no shorter group is possible or, for restart::never, not even the longest.
  std::optional<clobber> why{};
  bool barrier = false;  ///< no group extends across it
  bool declared = false; ///< decided by the user's declaration
  bool assumed = false;  ///< depends on accesses that were not recorded
  bool operator==(const idempotence_verdict&) const noexcept = default;
};

/// Whether an operation runs exactly once and no group contains it: all operations except kernels,
/// and kernels declared to clobber.
///
/// The other end of a copy belongs to the host, and that of an event to another stream; both have
/// advanced by the time a group would run again. A memset is visible to them in the same way. An
/// operation that is known to be harmless can be declared idempotent: it may then be killed, and be
/// part of a group. A memset that clears a kernel's accumulator is the usual case.
[[nodiscard]] inline bool is_barrier(const operation_access& o) noexcept {
  return o.says == declared::clobbers ||
         (o.kind != operation_kind::kernel && o.says != declared::idempotent);
}

namespace detail {

/// Finds where groups can begin, while operations are added one by one.
///
/// A group [f, k] is idempotent if and only if no byte that it accesses is first read and then
/// written, later or by the same operation. If it is not idempotent, [f, k + 1] is not either, so a
/// lost beginning remains lost: a write by k excludes all beginnings after the byte's last write
/// and up to its last read.
class group_finder {
public:
  explicit group_finder(std::size_t operations) : alive_(operations + 1), why_(operations + 1) {
    std::iota(alive_.begin(), alive_.end(), 0u);
  }

  void add(std::size_t index, const operation_access& o) {
    now_ = static_cast<std::uint32_t>(index + 1);
    if (is_barrier(o)) {
      floor_ = now_;
      history_.clear();
      return;
    }
    const bool forgiven = o.says == declared::idempotent;
    const access_set reads = o.reads - o.writes_first;
    const access_set writes = o.writes | o.writes_first;
    if (!forgiven) read(reads);
    // A write that may not happen does not replace the previous value. A declared kernel that reads
    // and writes a byte may read it only, or write it first; which one is unknown.
    if (o.assumed)
      write(writes, false);
    else if (!forgiven)
      write(writes, true);
    else {
      write(writes & reads, false);
      write(writes - reads, true);
    }
    if (forgiven) read(reads);
  }

  /// The last possible beginning of a group that ends with the operation added last; none if there
  /// is none.
  [[nodiscard]] std::optional<std::size_t> group_first() noexcept {
    const std::uint32_t first = last_alive(now_);
    if (first <= floor_) return std::nullopt;
    return first - 1;
  }
  /// Why no group begins at an operation.
  [[nodiscard]] const clobber& lost(std::size_t operation) const noexcept {
    return why_[operation + 1];
  }
  /// The first operation behind the last barrier.
  [[nodiscard]] std::size_t floor() const noexcept { return floor_; }

private:
  void read(const access_set& bytes) {
    for (const byte_range& r : bytes.ranges())
      history_.update(r, [this](const byte_range&, auto& s) { s.read = now_; });
  }

  void write(const access_set& bytes, bool surely) {
    for (const byte_range& r : bytes.ranges())
      history_.update(r, [&](const byte_range& overlap, auto& s) {
        lose(s.wrote_first, s.read, overlap);
        if (surely) s.wrote_first = now_;
      });
  }

  /// Excludes the beginnings (after, last]. Each is excluded once, so the total cost is the number
  /// of operations.
  void lose(std::uint32_t after, std::uint32_t last, const byte_range& overlap) {
    const std::uint32_t stop = after < floor_ ? floor_ : after;
    for (std::uint32_t f = last_alive(last); f > stop; f = last_alive(f)) {
      why_[f] = {overlap, last - std::size_t{1}, now_ - std::size_t{1}};
      alive_[f] = f - 1;
    }
  }

  [[nodiscard]] std::uint32_t last_alive(std::uint32_t f) noexcept {
    while (alive_[f] != f) f = alive_[f] = alive_[alive_[f]];
    return f;
  }

  access_history history_;
  std::vector<std::uint32_t> alive_; ///< itself, or an earlier beginning; 0: none
  std::vector<clobber> why_;
  std::uint32_t now_ = 0;
  std::uint32_t floor_ = 0;
};

} // namespace detail

/// For each operation: whether it may be killed while it runs, and the shortest group of
/// consecutive operations up to it that can be run again, in which every byte is only read, or is
/// written before it is read. No group extends across a barrier.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 4.4, doi:10.1145/3768622; the condition is
///          that of de Kruijf et al., PLDI 2012, doi:10.1145/2254064.2254120.
/// Differs  operations other than kernels end a group, where the paper runs them again with it;
///          is_barrier() says how to change that. An operation declared to clobber ends a group
///          too. One pass over all operations instead of one backward search for each.
/// Cost     O((a + p) log a) for a ranges in all operations together and p touched intervals of
///          different history; almost O(1) an operation to find its group, however long.
[[nodiscard]] inline std::vector<idempotence_verdict> find_verdicts(const access_trace& trace) {
  const auto& operations = trace.operations;
  std::vector<idempotence_verdict> verdicts(operations.size());
  std::vector<std::size_t> assumed(operations.size() + 1, 0); // before each operation
  detail::group_finder finder(operations.size());
  for (std::size_t k = 0; k < operations.size(); ++k) {
    const operation_access& o = operations[k];
    idempotence_verdict& v = verdicts[k];
    assumed[k + 1] = assumed[k] + (o.assumed ? 1u : 0u);
    finder.add(k, o);
    v.group_first = k;
    v.declared = o.says == declared::idempotent || o.says == declared::clobbers;
    v.barrier = is_barrier(o);
    if (v.barrier) v.how = restart::never;
    if (v.barrier || v.declared) continue;
    const std::optional<std::size_t> first = finder.group_first();
    const std::size_t from = first.value_or(finder.floor());
    v.assumed = assumed[k + 1] > assumed[from];
    if (first == k) continue;
    v.how = first ? restart::with_group : restart::never;
    v.group_first = first.value_or(k);
    v.own = finder.lost(k);
    v.why = finder.lost(first ? from + 1 : from);
  }
  return verdicts;
}

/// The operation from which a program continues, if `operation` is the first that has not ended. If
/// that was not killed because it has not started, it is the operation itself.
///
/// The result is valid any number of times, also while a group runs again: the group of an
/// operation within it begins within it, and reads nothing that the rest has overwritten and that
/// was not written anew.
///
/// Errors   none: the operation was killed and must not have been.
[[nodiscard]] inline std::optional<std::size_t>
restore_point(std::span<const idempotence_verdict> verdicts, std::size_t operation,
              bool killed_mid_way) noexcept {
  if (!killed_mid_way) return operation;
  assert(operation < verdicts.size());
  const idempotence_verdict& v = verdicts[operation];
  if (v.how == restart::never) return std::nullopt;
  return v.group_first;
}

} // namespace gsched
