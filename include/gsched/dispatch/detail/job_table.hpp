// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/dispatch/active_job.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <deque>
#include <vector>

namespace gsched {

/// The active jobs of a dispatcher by id, and the recycled records of ended jobs. Record is
/// active_job, or derives from it.
///
/// Cost     O(1) each; allocates only when more jobs are active than ever before.
/// Threads  one owner; no locking.
template <class Record>
class job_table {
public:
  explicit job_table(std::size_t reserved_jobs, std::size_t reserved_entries)
      : entries_(reserved_entries),
        buckets_(std::bit_ceil(std::max<std::size_t>(reserved_jobs, 16))),
        by_id_(active_jobs_by_id::bucket_traits(buckets_.data(), buckets_.size())) {
    entries_.reserve_pages(reserved_jobs);
    while (records_.size() < reserved_jobs) give_back(records_.emplace_back(entries_, frames_));
  }
  job_table(const job_table&) = delete;
  job_table& operator=(const job_table&) = delete;
  ~job_table() { by_id_.clear(); }

  /// A record in its initial state, except for what its context keeps allocated. May throw
  /// std::bad_alloc.
  [[nodiscard]] active_job& take(job_id id) {
    if (spare_ == nullptr) {
      give_back(records_.emplace_back(entries_, frames_));
      if (records_.size() > buckets_.size()) rehash(2 * buckets_.size());
    }
    active_job& a = *spare_;
    spare_ = a.spare;
    a.id = id;
    by_id_.insert(a);
    return a;
  }

  void remove(active_job& a) noexcept { by_id_.erase(by_id_.iterator_to(a)); }

  /// Recycles the record of a job that was removed.
  void give_back(active_job& a) noexcept {
    a.spare = spare_;
    spare_ = &a;
  }

  [[nodiscard]] active_job* find(job_id id) noexcept {
    const auto at = by_id_.find(id);
    return at == by_id_.end() ? nullptr : &*at;
  }

  [[nodiscard]] std::size_t size() const noexcept { return by_id_.size(); }

  /// Calls f for each active job; f may remove the job that it receives.
  template <class F>
  void for_each(F f) {
    for (Record& a : records_)
      if (a.id_hook.is_linked()) f(a);
  }

private:
  void rehash(std::size_t buckets) {
    std::vector<active_jobs_by_id::bucket_type> larger(buckets);
    by_id_.rehash(active_jobs_by_id::bucket_traits(larger.data(), larger.size()));
    buckets_.swap(larger);
  }

  entry_pool entries_;
  frame_pool frames_;
  std::deque<Record> records_;
  active_job* spare_ = nullptr;
  std::vector<active_jobs_by_id::bucket_type> buckets_;
  active_jobs_by_id by_id_;
};

} // namespace gsched
