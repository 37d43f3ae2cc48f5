// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/detail/recycler.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/stream.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched {

/// An event of one job. It is complete when its latest record has completed.
struct waitlist_event {
  waitlist_entry* last = nullptr;      ///< the latest record, until it completes
  const waitlist_stream* in = nullptr; ///< the stream of that record
  bool alive = false;
};

/// Consecutive launches that all went to the legacy stream, or all to blocking streams. By CUDA's
/// legacy rule these phases exclude each other: work of one starts after all work of the earlier
/// ones has ended.
struct waitlist_phase {
  std::size_t unended = 0;
  bool legacy = false;
  waitlist_phase* next = nullptr;
  waitlist_phase* spare = nullptr;
  waitlist_queue blocked{}; ///< streams whose next entry belongs to this phase
};

/// Storage of an operation that was launched outside a program.
struct waitlist_operation {
  operation value{};
  waitlist_operation* spare = nullptr;
};

/// One launch: an operation, a whole program, or an ordering entry.
struct waitlist_entry {
  enum class kind : std::uint8_t { loose, program, record, wait, call };

  kind what = kind::loose;
  std::uint32_t size = 0;       ///< device operations of the launch
  std::uint32_t dispatched = 0; ///< operations that were dispatched
  std::uint32_t ended = 0;      ///< operations that have ended
  std::uint64_t serial = 0;     ///< unique among launches of one pool, rising; 0: not in use
  waitlist_entry* next = nullptr;
  waitlist_entry* previous = nullptr;
  waitlist_phase* phase = nullptr;        ///< null in a non-blocking stream
  const gsched::program* graph = nullptr; ///< program
  waitlist_operation* own = nullptr;      ///< loose
  waitlist_event* event = nullptr;        ///< record
  waitlist_queue waiters{};               ///< record: streams whose next entry waits for it
  waitlist_entry* record = nullptr;       ///< wait; null waits for nothing
  std::uint64_t record_serial = 0; ///< wait: the record has completed once its serial differs
  host_call call{};                ///< call
  waitlist_entry* spare = nullptr;

  [[nodiscard]] bool is_device_work() const noexcept {
    return what == kind::loose || what == kind::program;
  }
};

/// The storage that the waitlists of one dispatcher share.
///
/// Cost     grows in chunks, when more unended launches exist than ever before.
/// Threads  one owner; no locking. Outlives its waitlists.
class entry_pool {
public:
  using stream_table = paged_table<waitlist_stream, 8>;
  using event_table = paged_table<waitlist_event, 32>;

  /// `entries` is the number of unended launches before the pool first grows, and the size of each
  /// growth.
  explicit entry_pool(std::size_t entries = 1024)
      : entries_(entries), operations_(entries), phases_(entries / 8 + 1), streams_(16),
        events_(16) {
    reserve(entries);
  }

  void reserve(std::size_t entries) {
    entries_.reserve(entries);
    operations_.reserve(entries);
    phases_.reserve(entries / 8 + 1);
  }

  /// Reserves storage for the created streams and events of this many concurrent jobs.
  void reserve_pages(std::size_t jobs) {
    streams_.reserve(jobs);
    events_.reserve(jobs);
  }

  [[nodiscard]] std::size_t made() const noexcept { return entries_.made(); }

private:
  friend class waitlist;
  recycler<waitlist_entry> entries_;
  recycler<waitlist_operation> operations_;
  recycler<waitlist_phase> phases_;
  recycler<stream_table::page> streams_;
  recycler<event_table::page> events_;
  std::uint64_t serial_ = 0;
};

} // namespace gsched
