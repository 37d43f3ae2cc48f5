// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/job/job.hpp>

#include <concepts>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <system_error>

namespace gsched {

/// Receives the events of a dispatcher, on the dispatcher's thread. A model also keeps:
///  L1  it neither blocks, throws nor calls the dispatcher.
/// The dispatcher guarantees, for each submitted job: on_arrival comes first; on_end comes once,
/// and last; on_almost_finished comes at most once, before the last known work of the job is
/// submitted; `expected` is the time until that work ends if what is queued before it on its lane
/// takes as long as expected. (For a body that waits in a synchronous call, this is the last work
/// that jobs of its model are expected to have; it may not be the last.) on_submit comes before
/// on_segment_end of the same segment. on_segment_end also comes for a preempted segment, but not
/// for an evicted one.
///
/// A listener may have these members too, which are called if the classes are isolated:
///   on_preempt(now)             best-effort work is being preempted
///   on_restore(now)             best-effort work resumes
///   on_starvation(waited, now)  no best-effort work has run for
///                               preemption_options::starved_after
template <class L>
concept listener = requires(L l, const job& j, void* user, const segment& s, segment_id id,
                            duration expected, std::exception_ptr why, time_point now) {
  { l.on_arrival(j, user, now) } noexcept;
  { l.on_submit(j, s, expected, now) } noexcept;
  { l.on_segment_end(j, id, now) } noexcept;
  { l.on_almost_finished(j, user, expected, now) } noexcept;
  // Called before on_end of a job that failed, that was rejected because max_jobs are active, or
  // that is cancelled because the job that it was to follow did not finish.
  { l.on_failure(j, why, now) } noexcept;
  { l.on_end(j, user, now) } noexcept; // j.state is the end state
};

/// Ignores all events except failures, each of which it prints on stderr in one line. Base of
/// listeners that handle some events; one that handles failures overrides on_failure.
struct silent_listener {
  void on_arrival(const job&, void*, time_point) noexcept {}
  void on_submit(const job&, const segment&, duration, time_point) noexcept {}
  void on_segment_end(const job&, segment_id, time_point) noexcept {}
  void on_almost_finished(const job&, void*, duration, time_point) noexcept {}
  void on_failure(const job& j, std::exception_ptr why, time_point) noexcept {
    print_failure(j, why);
  }
  void on_end(const job&, void*, time_point) noexcept {}

private:
  static void print_failure(const job& j, const std::exception_ptr& why) noexcept {
    const auto id = static_cast<unsigned long long>(index(j.id));
    try {
      if (why) std::rethrow_exception(why);
      std::fprintf(stderr, "gsched: job %llu failed\n", id);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "gsched: job %llu failed: %s\n", id, e.what());
    } catch (...) {
      std::fprintf(stderr, "gsched: job %llu failed: its body threw no std::exception\n", id);
    }
  }
};

static_assert(listener<silent_listener>);

/// The exception that a listener receives if a device failed a job: the device's own message if it
/// has one, otherwise that of the code.
template <class Device>
[[nodiscard]] std::exception_ptr failure_of(const Device& on, std::error_code why) {
  if constexpr (requires {
                  { on.failure() } -> std::convertible_to<const std::optional<std::string>&>;
                }) {
    if (const std::optional<std::string>& words = on.failure())
      return std::make_exception_ptr(error(errc::device_failed, *words));
  }
  if constexpr (requires {
                  { on.why_failed() } -> std::convertible_to<const std::string&>;
                }) {
    if (const std::string& words = on.why_failed(); !words.empty())
      return std::make_exception_ptr(error(errc::device_failed, words));
  }
  return std::make_exception_ptr(std::system_error(why));
}

} // namespace gsched
