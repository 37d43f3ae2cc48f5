// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/operations/device_figures.hpp"
#include "gsched_server/operations/live_trace.hpp"
#include "gsched_server/operations/load.hpp"
#include "gsched_server/operations/metrics.hpp"
#include "gsched_server/operations/request_metrics.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace gsched_server {

/// Everything that a display shows, at one time.
struct observation {
  std::string policy;
  load_figures load;
  request_metrics::totals ended;
  std::vector<request_metrics::row> rows;
  std::vector<request_metrics::refusals> refusals;
  std::vector<device_figures> devices;
  std::vector<traced_device> recent; ///< their last events
};

/// Snapshots of a server for displays, as JSON: made when one is asked for, at most two a second
/// for all that watch, and none while nothing watches.
///
/// Threads  any.
class status_board {
public:
  /// `look` is given how many events of each device are asked for.
  status_board(std::function<observation(std::size_t)> look, std::uint32_t most_watchers);

  static constexpr std::chrono::milliseconds period{500};

  struct snapshot {
    std::uint64_t serial = 0;
    std::string json; ///< one line
  };
  [[nodiscard]] std::shared_ptr<const snapshot> latest();

  /// Server-sent events, each with a snapshot, until `write` fails or `wait` says that it is
  /// enough. False, and nothing is written, where too many watch. `wait(t)`: sleeps for t; false to
  /// end.
  bool stream(const std::function<bool(std::string_view)>& write,
              const std::function<bool(std::chrono::milliseconds)>& wait);

  void write(metrics_text& out) const;

private:
  using clock = std::chrono::steady_clock;
  /// Of one time, for the rates of the next one.
  struct counters {
    clock::time_point at{};
    request_metrics::totals ended;
    std::vector<device_figures> devices;
  };
  [[nodiscard]] std::string render(const observation& now, clock::time_point at) const;

  std::function<observation(std::size_t)> look_;
  std::uint32_t most_watchers_;
  std::atomic<std::uint32_t> watchers_{0};
  std::mutex mutex_; ///< of what follows
  counters before_;
  std::shared_ptr<const snapshot> latest_;
  clock::time_point made_{};
  std::uint64_t serial_ = 0;
};

} // namespace gsched_server
