// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/policy/start_policy.hpp>

#include <cassert>
#include <cstddef>
#include <deque>
#include <vector>

namespace gsched {

/// Jobs of one model that wait to start. A model also keeps: each job that waits leaves once, by
/// take or by leave; none of the calls but prepare allocates, locks or throws.
class start_queue {
public:
  virtual ~start_queue() = default;
  /// Before the first job of that client waits. May allocate.
  virtual void prepare(const client& c) = 0;
  virtual void wait(job& j, time_point now) noexcept = 0;
  virtual void leave(job& j) noexcept = 0;
  /// The next one; empty() must not hold.
  [[nodiscard]] virtual job& take(time_point now) noexcept = 0;
  [[nodiscard]] virtual bool empty() const noexcept = 0;
};

/// In the order of a policy, which is charged a job's whole time when it starts. Clients have an
/// account of their own for each model, so that a policy that shares by weight does so among those
/// that wait for the same model: while a job waits, its owner is a stand-in of its client, with the
/// client's id and weight.
///
/// Cost     the policy's; prepare allocates once for each client.
/// Threads  one owner; no locking.
template <policy P>
class start_order final : public start_queue {
public:
  explicit start_order(const P& like) : order_(start_policy<P>::like(like)) {}

  void prepare(const client& c) override {
    const std::size_t at = index(c.id);
    if (at >= of_.size()) of_.resize(at + 1);
    if (of_[at] != nullptr) return;
    of_[at] = &stand_ins_.emplace_back();
    of_[at]->id = c.id;
  }

  void wait(job& j, time_point now) noexcept override {
    stand_in& s = *of_[index(j.owner->id)];
    s.of = j.owner;
    s.weight = j.owner->weight;
    j.owner = &s;
    j.head = j.total;
    order_.enqueue(j, now);
  }
  void leave(job& j) noexcept override {
    order_.erase(j);
    give_back(j);
  }
  [[nodiscard]] job& take(time_point now) noexcept override {
    job* const next = order_.try_pick(now);
    assert(next != nullptr);
    give_back(*next);
    return *next;
  }
  [[nodiscard]] bool empty() const noexcept override { return order_.size() == 0; }

private:
  struct stand_in : client {
    client* of = nullptr;
  };
  static void give_back(job& j) noexcept { j.owner = static_cast<stand_in*>(j.owner)->of; }

  std::deque<stand_in> stand_ins_;
  std::vector<stand_in*> of_; ///< by client
  typename start_policy<P>::type order_;
};

} // namespace gsched
