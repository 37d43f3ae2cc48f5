// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/requests/answer.hpp"

#include <gsched/core/time.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace gsched_server {

/// Text in the exposition format of Prometheus.
class metrics_text {
public:
  /// The metric that the samples after it belong to.
  void metric(std::string_view name, std::string_view type, std::string_view help);
  /// `labels` are "model=\"x\"", as label() makes them, or empty.
  void sample(std::string_view suffix, std::string_view labels, double value);
  [[nodiscard]] static std::string label(std::string_view name, std::string_view value);
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
  std::string name_, text_;
};

/// Counts of requests, by model, tenant and end.
///
/// Threads  any.
class request_metrics {
public:
  /// `model` is empty for one that does not exist.
  void ended(std::string_view model, std::string_view tenant, const answer& a);
  /// Time until a place is likely to be free: the mean time between two ends, of late.
  [[nodiscard]] gsched::duration between_ends() const;
  void write(metrics_text& out) const;

private:
  static constexpr std::array<double, 15> bounds_s{
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30};
  struct histogram {
    std::array<std::uint64_t, bounds_s.size() + 1> counts{};
    double sum_s = 0;
    void add(gsched::duration t) noexcept;
    void write(metrics_text& out, const std::string& labels) const;
  };
  struct times {
    histogram latency, waited;
  };
  using ends = std::array<std::uint64_t, outcome_names.size()>;

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, ends, std::less<>> ends_;
  std::map<std::string, times, std::less<>> times_; ///< of requests that ended ok, by model
  std::uint64_t missed_ = 0;
  std::int64_t last_end_ns_ = 0;
  double between_ns_ = 0;
};

} // namespace gsched_server
