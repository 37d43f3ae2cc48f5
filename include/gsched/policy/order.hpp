// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/job.hpp>
#include <gsched/policy/policy.hpp>

#include <boost/intrusive/set.hpp>

#include <cassert>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

namespace gsched {

/// Waiting jobs in rising (key, id). Each keeps the key with which it was inserted.
///
/// A red-black tree whose nodes hold their keys. A served job returns near the front, which is in
/// the cache. There the tree is as fast as a 4-ary heap with adjacent keys, and faster than
/// std::set. If keys change at random among 10^6 jobs, that heap is three times faster, but it
/// allocates as it grows. A pairing heap defers its work: the first pick after 10^6 arrivals takes
/// 80 ms. bench/policy_decision compares them.
///
/// Errors   none; inserting a linked job is a bug (asserted).
/// Cost     insert, pop_front, erase O(log n); the rest O(1). Never allocates.
/// Threads  one owner; no locking.
template <class K>
class keyed_jobs {
public:
  /// The state of a job in this order.
  struct per_job : queued_job {
    set_hook order_hook{};
    K key{};
    job_id id{};
  };

  void insert(per_job& j, K key) noexcept {
    assert(!j.order_hook.is_linked());
    j.key = key;
    j.id = j->id;
    jobs_.insert(j);
  }

  [[nodiscard]] per_job* front() const noexcept {
    return jobs_.empty() ? nullptr : const_cast<per_job*>(&*jobs_.begin());
  }

  per_job* pop_front() noexcept {
    if (jobs_.empty()) return nullptr;
    per_job& first = *jobs_.begin();
    jobs_.erase(jobs_.begin());
    return &first;
  }

  void erase(per_job& j) noexcept {
    assert(j.order_hook.is_linked());
    jobs_.erase(jobs_.iterator_to(j));
  }

  /// Unlinks all jobs.
  void clear() noexcept { jobs_.clear(); }

  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }

private:
  struct before {
    bool operator()(const per_job& a, const per_job& b) const noexcept {
      return std::pair(a.key, a.id) < std::pair(b.key, b.id);
    }
  };
  using hook = bi::member_hook<per_job, set_hook, &per_job::order_hook>;
  bi::set<per_job, hook, bi::compare<before>> jobs_;
};

/// Waiting jobs in rising (Key(job), id): the order of most policies. Key is a function of the
/// job's facts, or a member of job. A policy's per_job is that of the order, or derives from it.
template <auto Key>
class job_order
    : public keyed_jobs<std::remove_cvref_t<std::invoke_result_t<decltype(Key), const job&>>> {
  using base = keyed_jobs<std::remove_cvref_t<std::invoke_result_t<decltype(Key), const job&>>>;

public:
  using typename base::per_job;

  void insert(per_job& j) noexcept { base::insert(j, std::invoke(Key, *j)); }
};

} // namespace gsched
