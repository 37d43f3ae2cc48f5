// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>
#include <gsched/preempt/access.hpp>
#include <gsched/preempt/access_history.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace gsched {

/// How an operation that was killed half-way is run again.
enum class restart : std::uint8_t {
  alone,      ///< by itself: it is idempotent
  with_group, ///< together with operations before it
  never       ///< not at all: it is not killed, only waited for
};

/// An input that is overwritten: `read_by` reads it, `overwritten_by` writes it then (both may be
/// the same operation), and nothing in the group that it spoils writes it before.
struct clobber {
  byte_range range{};
  std::size_t read_by = 0;
  std::size_t overwritten_by = 0;
  bool operator==(const clobber&) const noexcept = default;
};

/// Whether an operation may be killed, and where its program goes on then.
struct idempotence_verdict {
  restart how = restart::alone;
  /// What is run again is [group_first, operation], the shortest such group; the operation itself
  /// for restart::alone and never.
  std::size_t group_first = 0;
  /// What it does to its own input. None, as the next, for restart::alone, barriers and what is
  /// declared.
  std::optional<clobber> own{};
  /// Why no shorter group will do or, for restart::never, not even the longest.
  std::optional<clobber> why{};
  bool barrier = false;  ///< no group reaches across it
  bool declared = false; ///< the user's word, not the accesses'
  bool assumed = false;  ///< rests on accesses that nobody saw
  bool operator==(const idempotence_verdict&) const noexcept = default;
};

/// Operations that run once and that no group holds: all but kernels, and kernels declared to
/// clobber.
///
/// A copy's other end is the host's, an event's the other stream's, and both have moved on by the
/// time that a group would run again; a set is no different for them who look at its bytes. Where
/// one is known to do no harm it can be declared idempotent: it may be killed then, and stand
/// inside a group. A set that clears what a kernel adds to is the usual case.
[[nodiscard]] inline bool is_barrier(const operation_access& o) noexcept {
  return o.says == declared::clobbers ||
         (o.kind != operation_kind::kernel && o.says != declared::idempotent);
}

namespace detail {

/// Where groups can begin, as operations are added one by one.
///
/// A group [f, k] is idempotent iff no byte that it accesses is first read and later, or by the
/// same operation, written. If it is not, neither is [f, k + 1], so a beginning that is lost is
/// lost for good: a write of k takes all beginnings behind the byte's last write up to its last
/// read.
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
    // What may not be written does not replace what was there. What a declared kernel both reads
    // and writes it reads only, or writes first, and nobody knows which.
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

  /// The last beginning of a group that ends with the operation added last; none: there is none.
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
      history_.update(r, [&](const byte_range& piece, auto& s) {
        lose(s.wrote_first, s.read, piece);
        if (surely) s.wrote_first = now_;
      });
  }

  /// Beginnings (after, last]; each once, so all together cost as much as there are operations.
  void lose(std::uint32_t after, std::uint32_t last, const byte_range& piece) {
    const std::uint32_t stop = after < floor_ ? floor_ : after;
    for (std::uint32_t f = last_alive(last); f > stop; f = last_alive(f)) {
      why_[f] = {piece, last - std::size_t{1}, now_ - std::size_t{1}};
      alive_[f] = f - 1;
    }
  }

  [[nodiscard]] std::uint32_t last_alive(std::uint32_t f) noexcept {
    while (alive_[f] != f) f = alive_[f] = alive_[alive_[f]];
    return f;
  }

  access_history history_;
  std::vector<std::uint32_t> alive_; ///< itself, or something before it; 0 stands for none
  std::vector<clobber> why_;
  std::uint32_t now_ = 0;
  std::uint32_t floor_ = 0;
};

} // namespace detail

/// For each operation, whether it may be killed half-way, and the shortest group of consecutive
/// operations up to it that can be run again: one in which every byte is only read, or written
/// before it is read. No group reaches across a barrier.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 4.4, doi:10.1145/3768622; the condition is
/// that
///          of de Kruijf et al., PLDI 2012, doi:10.1145/2254064.2254120.
/// Differs  operations other than kernels end a group, where the paper runs them again with it; see
///          is_barrier for how to have that. What is declared clobbers ends it too. One pass over
///          all operations instead of one search backwards for each.
/// Cost     O((a + p) log a) for a ranges in all operations together and p pieces of unlike history
///          that they go over, and almost O(1) an operation to find its group, however long.
[[nodiscard]] inline std::vector<idempotence_verdict> find_verdicts(const access_trace& trace) {
  const auto& operations = trace.operations;
  std::vector<idempotence_verdict> verdicts(operations.size());
  std::vector<std::size_t> assumed(operations.size() + 1, 0); // before each
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

/// The operation from which a program goes on, when `operation` is the first that has not ended. If
/// it was not killed, but has not started, that is the operation itself.
///
/// As often as need be, also while a group runs again: the group of an operation within it begins
/// in it, and reads nothing that the rest of it has overwritten and that has not been written anew.
///
/// Errors   none if it was killed and must not have been.
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
