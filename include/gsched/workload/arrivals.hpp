// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/workload/mix.hpp>
#include <gsched/workload/random.hpp>
#include <gsched/workload/trace_file.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace gsched::sim {

/// Where requests come from. A model also keeps:
///  W1 order        the times of requests never fall.
///  W2 repeatable   equal arguments and equal calls give equal requests.
///  W3 open loop    a source whose on_reply does nothing never waits for one.
/// next() is empty when there is no request, or none before another reply.
template <class A>
concept arrival_source = requires(A a, client_id client, time_point now) {
  { a.next() } -> std::same_as<std::optional<request>>;
  { a.on_reply(client, now) } -> std::same_as<void>;
};

/// An endless open loop: requests come at a mean rate, whatever becomes of them. The times between
/// two are independent: exponential (a Poisson process), or lognormal, whose sigma says how bursty.
///
/// Units    rate is requests a second; sigma the deviation of the logarithm of a gap.
/// Errors   bad_option for a rate that is not above 0 or a sigma outside 0 to 10.
class open_arrivals {
public:
  static open_arrivals poisson(double rate, mix what, std::uint64_t seed) {
    return {rate, std::nullopt, std::move(what), seed};
  }
  static open_arrivals lognormal(double rate, double sigma, mix what, std::uint64_t seed) {
    return {rate, sigma, std::move(what), seed};
  }

  [[nodiscard]] std::optional<request> next() {
    const double gap =
        (sigma_ ? sim::lognormal(random_, *sigma_) : exponential(random_)) * mean_ns_;
    now_ = saturating_add(now_, duration{static_cast<duration::rep>(std::min(gap + carry_, 1e18))});
    carry_ = std::fmod(gap + carry_, 1.0); // so that rounding does not raise the rate
    const std::uint32_t model = what_.model(random_);
    return request{now_, model, what_.client(random_)};
  }
  void on_reply(client_id, time_point) noexcept {}

private:
  open_arrivals(double rate, std::optional<double> sigma, mix what, std::uint64_t seed)
      : mean_ns_(1e9 / rate), sigma_(sigma), what_(std::move(what)), random_(seed) {
    if (!(rate > 0) || !std::isfinite(rate) || !std::isfinite(mean_ns_))
      throw error(errc::bad_option,
                  "arrivals: rate " + number_text(rate) + ", expected requests per second above 0");
    if (sigma && !(*sigma >= 0 && *sigma <= 10))
      throw error(errc::bad_option,
                  "arrivals: sigma " + number_text(*sigma) + ", expected 0 to 10");
  }

  double mean_ns_;
  std::optional<double> sigma_; ///< none: exponential
  mix what_;
  random_engine random_;
  time_point now_{};
  double carry_ = 0;
};

/// A closed loop: so many requests are always under way; each reply brings the next one after the
/// time to think. They belong to the mix's clients in turn.
///
/// Errors   bad_option for no requests under way or a time to think below 0.
class closed_arrivals {
public:
  closed_arrivals(std::uint32_t under_way, duration think, mix what, std::uint64_t seed)
      : think_(think), what_(std::move(what)), random_(seed) {
    if (under_way == 0)
      throw error(errc::bad_option, "arrivals: a closed loop of 0, expected at least 1");
    if (think < duration::zero())
      throw error(errc::bad_option, "arrivals: time to think below 0, expected at least 0");
    for (std::uint32_t i = 0; i < under_way; ++i) ready_.emplace_back(time_point{}, what_.turn());
  }

  [[nodiscard]] std::optional<request> next() {
    if (ready_.empty()) return std::nullopt;
    const auto [at, client] = ready_.front();
    ready_.pop_front();
    return request{at, what_.model(random_), client};
  }
  /// Replies come in order of time.
  void on_reply(client_id client, time_point now) {
    ready_.emplace_back(saturating_add(now, think_), client);
  }

private:
  duration think_;
  mix what_;
  random_engine random_;
  std::deque<std::pair<time_point, client_id>> ready_; ///< in order of time
};

static_assert(arrival_source<open_arrivals> && arrival_source<closed_arrivals> &&
              arrival_source<trace_arrivals>);

/// Any of them, chosen while running.
class arrivals {
public:
  template <arrival_source A>
    requires(!std::same_as<A, arrivals>)
  explicit(false) arrivals(A source) : source_(std::move(source)) {}

  [[nodiscard]] std::optional<request> next() {
    return std::visit([](auto& a) { return a.next(); }, source_);
  }
  void on_reply(client_id client, time_point now) {
    std::visit([&](auto& a) { a.on_reply(client, now); }, source_);
  }

private:
  std::variant<open_arrivals, closed_arrivals, trace_arrivals> source_;
};

static_assert(arrival_source<arrivals>);

} // namespace gsched::sim
