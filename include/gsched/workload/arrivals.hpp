// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/workload/arrival.hpp>
#include <gsched/workload/random.hpp>
#include <gsched/workload/request_mix.hpp>
#include <gsched/workload/trace_arrivals.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace gsched {

/// An open loop without an end: requests arrive at a mean rate and never wait for replies. The gaps
/// between arrivals are independent. They are exponential (a Poisson process), or lognormal, where
/// a larger sigma gives burstier arrivals.
///
/// Units    rate: requests a second. sigma: standard deviation of the logarithm of a gap.
/// Errors   bad_option for a rate that is not above 0, or a sigma outside 0 to 10.
/// Cost     next O(log n) of n models or clients; no allocation.
class open_arrivals {
public:
  static open_arrivals poisson(double rate, request_mix what, std::uint64_t seed) {
    return {rate, std::nullopt, std::move(what), seed};
  }
  static open_arrivals lognormal(double rate, double sigma, request_mix what, std::uint64_t seed) {
    return {rate, sigma, std::move(what), seed};
  }

  [[nodiscard]] std::optional<arrival> next() {
    const double gap =
        (sigma_ ? draw_lognormal(random_, *sigma_) : draw_exponential(random_)) * mean_ns_;
    now_ = saturating_add(now_, duration{static_cast<duration::rep>(std::min(gap + carry_, 1e18))});
    carry_ = std::fmod(gap + carry_, 1.0); // truncation to nanoseconds would raise the rate
    const std::uint32_t model = what_.model(random_);
    return arrival{now_, model, what_.client(random_)};
  }
  void on_reply(client_id, time_point) noexcept {}

private:
  open_arrivals(double rate, std::optional<double> sigma, request_mix what, std::uint64_t seed)
      : mean_ns_(1e9 / rate), sigma_(sigma), what_(std::move(what)), random_(seed) {
    if (!(rate > 0) || !std::isfinite(rate) || !std::isfinite(mean_ns_))
      throw error(errc::bad_option,
                  "arrivals: rate " + number_text(rate) + ", expected requests per second above 0");
    if (sigma && !(*sigma >= 0 && *sigma <= 10))
      throw error(errc::bad_option,
                  "arrivals: sigma " + number_text(*sigma) + ", expected 0 to 10");
  }

  double mean_ns_;
  std::optional<double> sigma_; ///< empty: exponential gaps
  request_mix what_;
  random_engine random_;
  time_point now_{};
  double carry_ = 0; ///< nanoseconds, below 1
};

/// A closed loop: the number of outstanding requests is constant. Each reply causes the next
/// request of the same client, one think time later. The initial requests go to the mix's clients
/// round robin.
///
/// Errors   bad_option for 0 outstanding requests, or a negative think time.
/// Cost     next O(log n) of n models; no allocation after construction.
class closed_arrivals {
public:
  closed_arrivals(std::uint32_t outstanding, duration think, request_mix what, std::uint64_t seed)
      : think_(think), what_(std::move(what)), random_(seed) {
    if (outstanding == 0)
      throw error(errc::bad_option, "arrivals: a closed loop of 0, expected at least 1");
    if (think < duration::zero())
      throw error(errc::bad_option, "arrivals: time to think below 0, expected at least 0");
    for (std::uint32_t i = 0; i < outstanding; ++i)
      ready_.emplace_back(time_point{}, what_.next_client());
  }

  [[nodiscard]] std::optional<arrival> next() {
    if (ready_.empty()) return std::nullopt;
    const auto [at, client] = ready_.front();
    ready_.pop_front();
    return arrival{at, what_.model(random_), client};
  }
  /// The caller owes: `now` never falls.
  void on_reply(client_id client, time_point now) {
    ready_.emplace_back(saturating_add(now, think_), client);
  }

private:
  duration think_;
  request_mix what_;
  random_engine random_;
  std::deque<std::pair<time_point, client_id>> ready_; ///< by time
};

static_assert(arrival_source<open_arrivals> && arrival_source<closed_arrivals> &&
              arrival_source<trace_arrivals>);

/// One of the sources above, chosen at run time.
class any_arrival_source {
public:
  template <arrival_source A>
    requires(!std::same_as<A, any_arrival_source>)
  explicit(false) any_arrival_source(A source) : source_(std::move(source)) {}

  [[nodiscard]] std::optional<arrival> next() {
    return std::visit([](auto& a) { return a.next(); }, source_);
  }
  void on_reply(client_id client, time_point now) {
    std::visit([&](auto& a) { a.on_reply(client, now); }, source_);
  }

private:
  std::variant<open_arrivals, closed_arrivals, trace_arrivals> source_;
};

static_assert(arrival_source<any_arrival_source>);

} // namespace gsched
