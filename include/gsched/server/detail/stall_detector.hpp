// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/request_record.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace gsched::detail {

/// Detects, for a thread that waits for a server's thread, that this stays in a driver call for too
/// long. Then it takes over: all requests and commands end as failed.
class stall_detector {
public:
  explicit stall_detector(server_state& at)
      : at_(at), seen_(at.rounds.load(sync::relaxed)), since_(now_ns()) {}

  /// When to call look again, at the latest.
  [[nodiscard]] std::int64_t next(std::int64_t deadline_ns) const noexcept {
    return std::min(deadline_ns, now_ns() + at_.longest_away_ns / 4);
  }
  void look();

private:
  server_state& at_;
  std::uint64_t seen_; ///< unordered: only whether it changes counts
  std::int64_t since_;
};

inline void stall_detector::look() {
  const std::uint64_t now = at_.rounds.load(sync::relaxed);
  if (now != seen_) {
    seen_ = now;
    since_ = now_ns();
    return;
  }
  if (now_ns() - since_ < at_.longest_away_ns || !at_.whose.try_take_over()) return;
  const std::string why = "the driver did not come back within " +
                          std::to_string(at_.longest_away_ns / 1'000'000) +
                          " ms; the server's thread is left behind";
  at_.set_failure(why);
  at_.events = nullptr; // their calls would not come back either
  at_.keep_live();
  at_.end_everything(request_status::failed, errc::device_failed, why.c_str());
}

} // namespace gsched::detail
