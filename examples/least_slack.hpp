// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

/// Least slack first: the job that has to start earliest to meet its deadline runs next. Shows an
/// order by a function of the job's facts.
///
/// Source   Mok, PhD thesis, MIT 1983, "Fundamental design problems of distributed systems for the
///          hard-real-time environment".
/// Order    (deadline - remaining, id) rising; jobs without a deadline come last.
class least_slack {
public:
  static constexpr std::string_view name = "least_slack";

  /// The latest time at which the job can start and meet its deadline.
  [[nodiscard]] static gsched::time_point latest_start(const gsched::job& j) noexcept {
    return j.deadline == gsched::no_deadline ? j.deadline : j.deadline - j.remaining;
  }
  using order = gsched::job_order<&latest_start>;
  using per_job = order::per_job;

  void enqueue(per_job& j, gsched::time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] per_job* try_pick(gsched::time_point) noexcept { return waiting_.pop_front(); }
  void erase(per_job& j) noexcept { waiting_.erase(j); }

  /// Strict: equal slack never preempts.
  [[nodiscard]] bool wants_preempt(const per_job& running, gsched::time_point) const noexcept {
    const per_job* const first = waiting_.front();
    return first != nullptr && first->key < latest_start(*running);
  }
  [[nodiscard]] gsched::duration slice(const per_job&) const noexcept {
    return gsched::run_to_completion;
  }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
};

static_assert(gsched::policy<least_slack>);
