// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace realtime {

/// One request after the other: the picked job has the device to itself until it has ended; then P
/// picks the next one. Equal to P unless set_whole(true) was called.
///
/// Source   Gujarati et al., OSDI 2020 (Clockwork), as Han et al., doi:10.1145/3768622, section
///          6.2, compare with it: "SEQ".
/// Differs  from policies: while all work of the picked job is dispatched, the other jobs do not
///          count in size(). The listener calls ended at the end of a job.
/// Order    P's.
/// Cost     P's.
/// Threads  one owner; no locking.
template <gsched::serves_real_time_first P>
class whole_requests {
public:
  static constexpr std::string_view name = P::name;
  using per_client = gsched::per_client_t<P>;
  using per_job = typename P::per_job;

  /// Before the first job.
  void set_whole(bool whole) noexcept { whole_ = whole; }
  void ended(gsched::job_id id) noexcept {
    if (current_ == id) current_.reset();
  }

  void enqueue(per_job& j, gsched::time_point now) noexcept {
    if (current_ == j->id)
      more_ = &j;
    else
      rest_.enqueue(j, now);
  }
  [[nodiscard]] per_job* try_pick(gsched::time_point now) noexcept {
    if (current_) return std::exchange(more_, nullptr);
    return keep(rest_.try_pick(now));
  }
  [[nodiscard]] per_job* try_pick(gsched::service_class of, gsched::time_point now) noexcept {
    if (current_) return more_ && (*more_)->service == of ? std::exchange(more_, nullptr) : nullptr;
    return keep(rest_.try_pick(of, now));
  }
  void erase(per_job& j) noexcept {
    if (more_ == &j)
      more_ = nullptr;
    else
      rest_.erase(j);
  }
  [[nodiscard]] bool wants_preempt(const per_job& running, gsched::time_point now) const noexcept {
    return !whole_ && rest_.wants_preempt(running, now);
  }
  [[nodiscard]] gsched::duration slice(const per_job& j) const noexcept { return rest_.slice(j); }
  [[nodiscard]] std::size_t size() const noexcept {
    return current_ ? (more_ ? 1u : 0u) : rest_.size();
  }
  [[nodiscard]] std::size_t size(gsched::service_class of) const noexcept {
    return current_ ? (more_ && (*more_)->service == of ? 1u : 0u) : rest_.size(of);
  }

private:
  per_job* keep(per_job* picked) noexcept {
    if (whole_ && picked != nullptr) current_ = (*picked)->id;
    return picked;
  }

  P rest_;
  bool whole_ = false;
  std::optional<gsched::job_id> current_;
  per_job* more_ = nullptr; ///< the picked job, while it has more to dispatch
};

} // namespace realtime
