// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/operations/metrics.hpp"
#include "gsched_server/operations/recent_times.hpp"
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
#include <vector>

namespace gsched_server {

/// Counts and times of requests, by model and tenant.
///
/// Models and tenants are those of configurations, so that no client can make new series; reloads
/// can. There are at most most_series pairs: later ones are counted as the model and tenant
/// "other".
///
/// Cost     a request: two look-ups, a lock, no allocation. 20 KiB for each pair.
/// Threads  any.
class request_metrics {
public:
  static constexpr std::size_t most_series = 256;

  /// `model` is empty for one that does not exist, `tenant` for a request that was not decoded.
  void ended(std::string_view model, std::string_view tenant, const answer& a);
  /// Time until a place is likely to be free: the mean time between two ends, of late.
  [[nodiscard]] gsched::duration between_ends() const;
  void write(metrics_text& out) const;

  struct totals {
    std::uint64_t all = 0;    ///< requests that have ended
    std::uint64_t failed = 0; ///< of these, those that ended neither ok nor cancelled
  };
  [[nodiscard]] totals count() const;

  using ends = std::array<std::uint64_t, outcome_names.size()>;
  /// A pair, as a display shows it.
  struct row {
    std::string model, tenant;
    ends by_end{};
    recent_times::summary latency, waited; ///< of requests that ended ok
  };
  [[nodiscard]] std::vector<row> rows() const;
  struct refusals {
    std::string_view reason;
    std::uint64_t count = 0;
  };
  [[nodiscard]] std::vector<refusals> refused() const;

private:
  static constexpr std::array<double, 15> bounds_s{
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30};
  struct histogram {
    std::array<std::uint64_t, bounds_s.size() + 1> counts{};
    double sum_s = 0;
    void add(gsched::duration t) noexcept;
    void write(metrics_text& out, const std::string& labels) const;
  };
  struct series {
    ends by_end{};
    histogram latency, waited; ///< of requests that ended ok, as are these
    recent_times latency_of_late, waited_of_late;
  };
  using by_tenant = std::map<std::string, series, std::less<>>;
  [[nodiscard]] series& find(std::string_view model, std::string_view tenant);
  template <class Call>
  void each(Call call) const;

  mutable std::mutex mutex_;
  std::map<std::string, by_tenant, std::less<>> all_;
  std::size_t pairs_ = 0;
  std::array<std::uint64_t, reason_names.size()> refused_{};
  totals totals_;
  std::uint64_t missed_ = 0;
  std::int64_t last_end_ns_ = 0;
  double between_ns_ = 0;
};

} // namespace gsched_server
