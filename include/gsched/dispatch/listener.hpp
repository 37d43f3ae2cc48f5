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

/// Told by a dispatcher what happens, on its thread. A model also keeps:
///  L1 it neither blocks, throws nor calls the dispatcher back.
/// The dispatcher owes, for each submitted job: on_arrival first, on_end once and last;
/// on_almost_finished at most once, before the last work known of the job is submitted (of a body
/// that waits in a synchronous call, the last that jobs of its model are expected to have, which
/// may turn out not to be the last); on_submit before on_segment_end of the same segment, which is
/// told of one that was preempted too, but not of one that was evicted. A listener that has them is
/// also told, where the classes are kept apart:
///   on_preempt(now)             best-effort work is to make way
///   on_restore(now)             it is let on
///   on_starvation(waited, now)  nothing of it was let on for preemption_options::starved_after
// Version 14 of the formatter takes compound requirements apart.
// clang-format off
template <class L>
concept listener = requires(L l, const job& j, void* user, const segment& s, segment_id id,
                            duration expected, std::exception_ptr why, time_point now) {
  { l.on_arrival(j, user, now) } noexcept;
  { l.on_submit(j, s, expected, now) } noexcept;
  { l.on_segment_end(j, id, now) } noexcept;
  { l.on_almost_finished(j, user, now) } noexcept;
  { l.on_failure(j, why, now) } noexcept; // before on_end of a job that failed, that was rejected
                                          // as max_jobs are active, or that is cancelled
                                          // as the one that it was to follow did not finish
  { l.on_end(j, user, now) } noexcept; // j.state says how
};
// clang-format on

/// Ignores everything but failures, of which it prints one line each on stderr; and the base for
/// listeners that handle a part. A listener that handles failures itself overrides on_failure.
struct silent_listener {
  void on_arrival(const job&, void*, time_point) noexcept {}
  void on_submit(const job&, const segment&, duration, time_point) noexcept {}
  void on_segment_end(const job&, segment_id, time_point) noexcept {}
  void on_almost_finished(const job&, void*, time_point) noexcept {}
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

/// What a listener is told where a device failed a job: the device's own words, if it has any and
/// they are known; else the code's.
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
