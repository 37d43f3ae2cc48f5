// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/detail/instances.hpp>
#include <gsched/dispatch/detail/policy_queue.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/policy/start_policy.hpp>

#include <cassert>
#include <cstddef>
#include <deque>
#include <vector>

namespace gsched {

/// Waiting jobs of a model in the order of a policy, which is charged their head when they are
/// taken. Clients have a separate account for each model, so that a policy that shares by weight
/// does so among the jobs that wait for one model. Each job is a policy_job<P>, and in one such
/// order at a time.
///
/// Cost     that of the policy; prepare allocates once for each client.
/// Threads  one owner; no locking.
template <policy P>
class start_order final : public start_queue {
  using order = typename start_policy<P>::type;

public:
  explicit start_order(const P& like) : order_(start_policy<P>::like(like)) {}

  void prepare(const client& c) override {
    const std::size_t at = index(c.id);
    if (at >= of_.size()) of_.resize(at + 1);
    if (of_[at] != nullptr) return;
    of_[at] = &clients_.emplace_back();
    of_[at]->bind(c);
  }

  void wait(waiting_job& j, time_point now) noexcept override {
    state_of(j).bind(j, *of_[index(j.owner->id)]);
    order_.enqueue(state_of(j), now);
  }
  void leave(waiting_job& j) noexcept override { order_.erase(state_of(j)); }
  [[nodiscard]] waiting_job& take(time_point now) noexcept override {
    auto* const next = order_.try_pick(now);
    assert(next != nullptr);
    return static_cast<waiting_job&>(next->bound());
  }
  [[nodiscard]] bool empty() const noexcept override { return order_.size() == 0; }

private:
  [[nodiscard]] static typename order::per_job& state_of(waiting_job& j) noexcept {
    return static_cast<policy_job<P>&>(j).start_state;
  }

  std::deque<per_client_t<order>> clients_;
  std::vector<per_client_t<order>*> of_; ///< by client
  order order_;                          ///< destroyed before the clients that it links
};

} // namespace gsched
