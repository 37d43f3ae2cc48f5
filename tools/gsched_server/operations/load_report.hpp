// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/operations/load.hpp"
#include "gsched_server/operations/request_metrics.hpp"

#include <gsched/core/time.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace gsched_server {

/// How loaded the server is, for clients and proxies that choose among servers by it (ORCA).
struct load_report {
  double cpu = 0; ///< of this process, of all processors
  /// Fraction of the time in which the mean device had work, and queued time by
  /// load_figures::full_queue: above 1 it cannot keep up.
  double application = 0;
  double gpu = 0;      ///< the first of these alone
  double rps = 0;      ///< requests that have ended, a second
  double eps = 0;      ///< of these, requests that ended otherwise than asked
  double queued_s = 0; ///< device time that was not submitted, of the mean device
  double active = 0;   ///< requests in service or waiting

  /// xds.data.orca.v3.OrcaLoadReport, serialised.
  [[nodiscard]] std::string binary() const;
  /// "TEXT name=value,...", as Envoy reads it.
  [[nodiscard]] std::string text() const;
  /// "JSON {...}".
  [[nodiscard]] std::string json() const;
  /// In the format that a client has asked for: "text" or "json", in any case; empty for another.
  [[nodiscard]] std::string in_format(std::string_view format) const;
};
/// The header of a report; gRPC has "-bin" behind it.
inline constexpr const char* load_header = "endpoint-load-metrics";
inline constexpr const char* load_header_binary = "endpoint-load-metrics-bin";
/// In which a client asks for one.
inline constexpr const char* load_format_header = "endpoint-load-metrics-format";

/// Reports of the last second, at most ten a second: a call costs a reading of the clock and a
/// lock, else the questions that it was made with.
///
/// Threads  any.
class load_meter {
public:
  struct sample {
    load_figures now;
    request_metrics::totals ended;
    double busy_s = 0; ///< of the mean device, since it was opened
  };
  explicit load_meter(std::function<sample()> ask);

  struct rendered {
    load_report report;
    std::string binary;
  };
  [[nodiscard]] std::shared_ptr<const rendered> latest();

private:
  using clock = std::chrono::steady_clock;
  struct point {
    clock::time_point at;
    request_metrics::totals ended;
    double busy_s = 0, cpu_s = 0;
  };
  void renew(clock::time_point at);

  std::function<sample()> ask_;
  std::mutex mutex_; ///< of what follows
  std::deque<point> points_;
  std::shared_ptr<const rendered> latest_;
};

} // namespace gsched_server
