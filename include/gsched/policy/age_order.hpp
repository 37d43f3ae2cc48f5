// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/job.hpp>

#include <cassert>
#include <iterator>

/// The waiting jobs of one client by age: what fairness needs beside the order of a policy. New
/// jobs have the highest id and go to the end of a list. A job that is served comes back before
/// another of its client is taken, as a rule, and its place in the list is kept for it; else it
/// goes to a set. One set for all would read cold lines of other jobs at each pick, the list reads
/// none: that took srpt+deficit at 10^6 jobs from 309 to 170 ns a decision.
///
/// Order    id rising, over list and set.
/// Errors   none; inserting a linked job is a bug (asserted).
/// Cost     O(1) in the list; O(log n) of the n jobs in the set. Never allocates.
/// Threads  one owner; no locking.
namespace gsched::age_order {

[[nodiscard]] inline bool empty(const client& c) noexcept {
  return c.queue.empty() && c.returned.empty();
}

/// Whether c has exactly one waiting job.
[[nodiscard]] inline bool has_one(const client& c) noexcept {
  if (c.queue.empty())
    return !c.returned.empty() && std::next(c.returned.begin()) == c.returned.end();
  return c.returned.empty() && &c.queue.front() == &c.queue.back();
}

[[nodiscard]] inline job& oldest(client& c) noexcept {
  assert(!empty(c));
  if (c.returned.empty()) return c.queue.front();
  job& back = *c.returned.begin();
  return c.queue.empty() || back.id < c.queue.front().id ? back : c.queue.front();
}

inline void insert(job& j) noexcept {
  assert(j.owner != nullptr && !j.fair_hook.is_linked() && !j.queue_hook.is_linked());
  client& c = *j.owner;
  if (c.gap == j.id) {
    c.queue.insert(c.after_gap == nullptr ? c.queue.end() : c.queue.iterator_to(*c.after_gap), j);
    c.gap.reset();
  } else if (c.queue.empty() || c.queue.back().id < j.id) {
    c.queue.push_back(j);
    if (c.after_gap == nullptr) { // the gap was at the end
      if (c.gap < j.id)
        c.after_gap = &j;
      else
        c.gap.reset();
    }
  } else {
    c.returned.insert(j);
  }
}

inline void erase(job& j) noexcept {
  client& c = *j.owner;
  if (!j.queue_hook.is_linked()) {
    assert(j.fair_hook.is_linked());
    c.returned.erase(c.returned.iterator_to(j));
    return;
  }
  const auto next = c.queue.erase(c.queue.iterator_to(j));
  c.gap = j.id;
  c.after_gap = next == c.queue.end() ? nullptr : &*next; // so it is never a job that left
}

/// All of c's jobs leave.
inline void clear(client& c) noexcept {
  c.queue.clear();
  c.returned.clear();
  c.gap.reset();
  c.after_gap = nullptr;
}

} // namespace gsched::age_order
