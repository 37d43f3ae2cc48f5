// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

/// The policies according to their comments, by examining every job and every client each time.
/// They share nothing with the library except the facts of jobs and the weights of clients.
namespace gsched::test {

using waiting_jobs = std::vector<job*>;

template <class Key>
job* least(const waiting_jobs& jobs, Key key) {
  const auto at = std::min_element(jobs.begin(), jobs.end(), [&](const job* a, const job* b) {
    return std::tuple(key(*a), a->id) < std::tuple(key(*b), b->id);
  });
  return at == jobs.end() ? nullptr : *at;
}

/// Common parts of the naive models; next() chooses the job that leaves, left() is called for it.
template <class Self>
struct naive {
  waiting_jobs jobs;

  void enqueue(job& j, time_point) { jobs.push_back(&j); }
  job* try_pick(time_point) {
    auto& self = static_cast<Self&>(*this);
    job* j = self.next();
    if (j == nullptr) return nullptr;
    self.picked(*j);
    self.erase(*j);
    return j;
  }
  void erase(job& j) { std::erase(jobs, &j); }
  void picked(const job&) {}
  bool wants_preempt(const job&, time_point) const { return false; }
  bool admits(const job&, time_point) const { return true; }
  std::size_t size() const { return jobs.size(); }
};

struct naive_fifo : naive<naive_fifo> {
  job* next() const {
    return least(jobs, [](const job& j) { return j.arrival; });
  }
};

struct naive_sjf : naive<naive_sjf> {
  job* next() const {
    return least(jobs, [](const job& j) { return j.total; });
  }
};

struct naive_srpt : naive<naive_srpt> {
  job* next() const {
    return least(jobs, [](const job& j) { return j.remaining; });
  }
  bool wants_preempt(const job& r, time_point) const {
    return std::any_of(jobs.begin(), jobs.end(),
                       [&](const job* j) { return j->remaining < r.remaining; });
  }
};

struct naive_edf : naive<naive_edf> {
  job* next() const {
    return least(jobs, [](const job& j) { return j.deadline; });
  }
  bool wants_preempt(const job& r, time_point) const {
    return std::any_of(jobs.begin(), jobs.end(),
                       [&](const job* j) { return j->deadline < r.deadline; });
  }
  bool admits(const job& r, time_point now) const {
    if (r.deadline == no_deadline) return true;
    for (const job* j : jobs)
      if (j->deadline <= r.deadline) now += j->remaining;
    return now + r.remaining <= r.deadline;
  }
};

struct naive_rr : naive<naive_rr> {
  std::uint64_t round = 0;
  std::map<job_id, std::uint64_t> turn;

  void enqueue(job& j, time_point) {
    turn[j.id] = round + 1;
    jobs.push_back(&j);
  }
  job* next() const {
    return least(jobs, [&](const job& j) { return turn.at(j.id); });
  }
  void picked(const job& j) { round = turn.at(j.id); }
};

/// Deficits with an explicit number for each client. Base orders jobs while no client is overdue.
template <class Base>
struct naive_deficit : naive<naive_deficit<Base>> {
  struct account {
    std::int64_t deficit = 0; ///< 1/16 ns per unit of weight
    std::uint64_t share = 0;  ///< weight in 2^-16
    bool active = false;
    std::size_t jobs = 0;
    std::int64_t own = 0;    ///< cost of the last pick
    std::int64_t shared = 0; ///< what it gave each active client
  };

  duration threshold{0}; ///< zero: always the client with the largest deficit
  Base base;
  std::map<client_id, account> clients;
  std::uint64_t carry = 0;

  void enqueue(job& j, time_point now) {
    account& a = clients[j.owner->id];
    a.share = share(*j.owner);
    a.active = true;
    ++a.jobs;
    this->jobs.push_back(&j);
    base.enqueue(j, now);
  }

  void erase(job& j) {
    account& a = clients[j.owner->id];
    --a.jobs;
    a.active = a.jobs > 0 || a.deficit < 0;
    std::erase(this->jobs, &j);
    base.erase(j);
  }

  job* next() const {
    const auto owed = leader();
    if (owed == clients.end()) return nullptr;
    const auto [total, count] = active();
    if (!exceeds(owed->second.deficit, total, count)) return base.next();
    waiting_jobs own;
    for (job* j : this->jobs)
      if (j->owner->id == owed->first) own.push_back(j);
    return least(own, [](const job&) { return 0; });
  }

  void picked(const job& j) {
    const auto [all, count] = active();
    // otherwise base was not asked
    if (!exceeds(leader()->second.deficit, all, count)) base.picked(j);
    account& served = clients[j.owner->id];
    const auto ns = static_cast<std::uint64_t>(
        std::clamp<std::int64_t>(j.head.count(), 1, std::int64_t{1} << 40));
    const std::uint64_t amount = ns << 20;
    carry += amount;
    served.shared = 0;
    for (;;) {
      const std::uint64_t total = active().first;
      auto step = static_cast<std::int64_t>(carry / total);
      bool somebody_leaves = false;
      for (const auto& [id, a] : clients)
        if (a.active && a.jobs == 0 && -a.deficit <= step) {
          step = -a.deficit;
          somebody_leaves = true;
        }
      carry -= static_cast<std::uint64_t>(step) * total;
      served.shared += step;
      for (auto& [id, a] : clients) {
        if (a.active) a.deficit += step;
        if (a.jobs == 0 && a.deficit >= 0) a.active = false;
      }
      if (!somebody_leaves) break;
    }
    served.own = static_cast<std::int64_t>(amount / served.share);
    served.deficit = std::max(served.deficit - served.own, -(std::int64_t{1} << 61));
  }

  bool wants_preempt(const job& r, time_point now) const {
    if (!base.wants_preempt(r, now)) return false;
    // With r waiting, and the last pick of its client undone: is the client overdue?
    auto copy = *this;
    account& owner = copy.clients[r.owner->id];
    if (!owner.active) owner.share = share(*r.owner);
    owner.active = true;
    ++owner.jobs;
    const auto [total, count] = copy.active();
    if (copy.leader()->first == r.owner->id && copy.exceeds(owner.deficit, total, count))
      return false;
    for (auto& [id, a] : copy.clients)
      if (id != r.owner->id) a.deficit -= owner.shared;
    // With the carry of others the pick may have given more than it cost: it then stays.
    const std::int64_t before = owner.deficit + owner.own - owner.shared;
    const std::int64_t judged = std::max(before, owner.deficit);
    owner.deficit = before;
    return !(copy.leader()->first == r.owner->id && copy.exceeds(judged, total, count));
  }

  bool admits(const job& j, time_point now) const { return base.admits(j, now); }

private:
  static std::uint64_t share(const client& c) {
    return static_cast<std::uint64_t>(std::clamp(c.weight * 65536 + 0.5, 1.0, 65536.0 * 65536.0));
  }

  auto leader() const {
    auto best = clients.end();
    for (auto c = clients.begin(); c != clients.end(); ++c)
      if (c->second.jobs > 0 && (best == clients.end() || c->second.deficit > best->second.deficit))
        best = c;
    return best;
  }

  std::pair<std::uint64_t, std::size_t> active() const {
    std::pair<std::uint64_t, std::size_t> sum{0, 0};
    for (const auto& [id, a] : clients)
      if (a.active) sum = {sum.first + a.share, sum.second + 1};
    return sum;
  }

  bool exceeds(std::int64_t deficit, std::uint64_t total, std::size_t count) const {
    if (threshold.count() == 0) return true;
    if (threshold.count() >= std::int64_t{1} << 40) return false;
    const auto scaled = static_cast<std::uint64_t>(threshold.count()) << 20;
    return deficit > 0 && static_cast<std::uint64_t>(deficit) > scaled / (total / count);
  }
};

template <class A, class B>
struct naive_priority : naive<naive_priority<A, B>> {
  A first;
  B second;

  static bool is_first(const job& j) { return j.service == service_class::real_time; }
  void enqueue(job& j, time_point now) {
    is_first(j) ? first.enqueue(j, now) : second.enqueue(j, now);
  }
  void erase(job& j) { is_first(j) ? first.erase(j) : second.erase(j); }
  job* next() const { return first.size() > 0 ? first.next() : second.next(); }
  void picked(const job& j) { is_first(j) ? first.picked(j) : second.picked(j); }
  bool wants_preempt(const job& r, time_point now) const {
    if (is_first(r)) return first.wants_preempt(r, now);
    return first.size() > 0 || second.wants_preempt(r, now);
  }
  bool admits(const job& j, time_point now) const {
    return is_first(j) ? first.admits(j, now) : second.admits(j, now);
  }
  std::size_t size() const { return first.size() + second.size(); }
};

} // namespace gsched::test
