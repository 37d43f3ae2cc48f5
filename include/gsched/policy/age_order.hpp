// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/job.hpp>

#include <cassert>
#include <iterator>

namespace gsched {

/// The waiting jobs of one client by age: what fairness needs beside the order of a policy. They
/// are kept in client::waiting, through job::fair_hook.
///
/// Order    id rising.
/// Errors   none; inserting a linked job is a bug (asserted).
/// Cost     O(log n); O(1) amortised, and in lines that are in the cache, for a job that is new or
/// that
///          comes back before another of its client was taken out, which is how jobs are served.
/// Threads  one owner; no locking.
namespace age_order {

[[nodiscard]] inline job& oldest(client& c) noexcept {
  assert(!c.waiting.empty());
  return *c.waiting.begin();
}

/// Whether c has exactly one waiting job.
[[nodiscard]] inline bool has_one(const client& c) noexcept {
  return !c.waiting.empty() && std::next(c.waiting.begin()) == c.waiting.end();
}

inline void insert(job& j) noexcept {
  assert(j.owner != nullptr && !j.fair_hook.is_linked());
  client::by_age& jobs = j.owner->waiting;
  job* const after = j.owner->after_last;
  const bool is_new = jobs.empty() || jobs.rbegin()->id < j.id;
  jobs.insert(is_new || after == nullptr ? jobs.end() : jobs.iterator_to(*after), j);
}

inline void erase(job& j) noexcept {
  assert(j.fair_hook.is_linked());
  client::by_age& jobs = j.owner->waiting;
  const auto next = jobs.erase(jobs.iterator_to(j));
  j.owner->after_last = next == jobs.end() ? nullptr : &*next; // so it is never a job that left
}

} // namespace age_order

} // namespace gsched
