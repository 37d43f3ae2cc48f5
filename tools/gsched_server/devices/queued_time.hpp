// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <atomic>
#include <utility>

namespace gsched_server {

/// The device time that is queued on one device: over the requests there that have not ended, the
/// sum of the times that their models take alone. What of a request has already run still counts.
///
/// A request of the service counts from when it is placed to its end. One of a channel's client,
/// which has chosen the device itself, counts while its body runs, not while it waits for an
/// instance of its model. Such a body does not return before its work has ended.
///
/// Cost     an atomic operation a call.
/// Threads  any. Orders nothing else: the number alone counts.
class queued_time {
public:
  [[nodiscard]] gsched::duration was() const noexcept {
    return gsched::duration{ns_.load(std::memory_order_relaxed)};
  }
  /// Adds, if it is still as it was seen.
  [[nodiscard]] bool try_add(gsched::duration seen, gsched::duration t) noexcept {
    gsched::duration::rep was = seen.count();
    return ns_.compare_exchange_strong(was, (seen + t).count(), std::memory_order_relaxed);
  }
  void add(gsched::duration t) noexcept { ns_.fetch_add(t.count(), std::memory_order_relaxed); }
  void remove(gsched::duration t) noexcept { ns_.fetch_sub(t.count(), std::memory_order_relaxed); }

  /// Time that counts while this lives.
  class share {
  public:
    share(queued_time& of, gsched::duration t) noexcept : of_(of), time_(t) { of_.add(time_); }
    ~share() { of_.remove(time_); }
    share(const share&) = delete;
    share& operator=(const share&) = delete;

  private:
    queued_time& of_;
    gsched::duration time_;
  };

private:
  std::atomic<gsched::duration::rep> ns_{0};
};

} // namespace gsched_server
