// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// A model of the arrivals of one client: the distribution of the gaps between them, from periodic
/// through Poisson to bursty, and the probability of an arrival soon.
///
/// Source   a Weibull distribution, with the shape c^-1.086 of the coefficient of variation c:
///          Justus et al., J. Applied Meteorology 17(3), 1978, pages 350 to 353.
/// Differs  after each arrival the client has stopped with probability 1/64; the longer the
///          silence, the more likely it has. A client that mixes distributions is modelled by one
///          between them.
/// Cost     arrived, within and is_near O(1). Never allocates.
/// Threads  one owner; no locking. The state depends on the calls alone.
class client_forecast {
public:
  void arrived(time_point now) noexcept {
    if (known_) {
      const auto gap = std::max(1.0, static_cast<double>((now - last_).count()));
      // A pause is no gap, unless another one follows: then the client has become slower.
      if (gaps_ < 3 || alive(gap) > 0.5 || paused_) {
        if (paused_ && alive(gap) <= 0.5) gaps_ = 0;
        learn(gap);
        paused_ = false;
      } else {
        paused_ = true;
      }
    }
    known_ = true;
    last_ = now;
  }

  /// The probability of an arrival within `next` from now.
  [[nodiscard]] double within(time_point now, duration next) const noexcept {
    if (gaps_ < 3) return 0;
    const double silent = std::max(0.0, static_cast<double>((now - last_).count()));
    const double before = silence(silent);
    const double after = silence(silent + static_cast<double>(next.count()));
    return (before - after) / (before + stops);
  }

  /// Whether a request is expected within `next`: its probability is at least 1/32 of the average.
  /// For a periodic client it is lower well before the next arrival. After the mean gap, a request
  /// is expected until the client has been silent for 16 mean gaps and counts as stopped. For a
  /// client with too few gaps, a request is expected for one second after the last one.
  [[nodiscard]] bool is_near(time_point now, duration next) const noexcept {
    constexpr double part = 1.0 / 32;
    constexpr double stopped = 16;
    if (gaps_ < 3) return known_ && now - last_ < std::chrono::seconds{1};
    const double silent = static_cast<double>((now - last_).count()) / mean_;
    if (silent >= 1) return silent < stopped;
    return within(now, next) >= part * (1 - std::exp(-static_cast<double>(next.count()) / mean_));
  }

  /// The mean gap in nanoseconds; 0 if unknown.
  [[nodiscard]] double mean_ns() const noexcept { return mean_; }
  /// Standard deviation over mean.
  [[nodiscard]] double variation() const noexcept {
    return mean_ > 0 ? std::sqrt(std::max(0.0, square_ - mean_ * mean_)) / mean_ : 0;
  }

private:
  static constexpr double stops = 1.0 / 64;
  static constexpr double remembered = 64; ///< number of gaps

  /// The probability of a gap longer than this.
  [[nodiscard]] double silence(double gap) const noexcept {
    return std::exp(-std::pow(gap / scale_, shape_));
  }
  /// The probability that a client that has been silent for `gap` has not stopped.
  [[nodiscard]] double alive(double gap) const noexcept {
    const double still = silence(gap);
    return still / (still + stops);
  }

  void learn(double gap) noexcept {
    gaps_ = std::min(gaps_ + 1, remembered);
    mean_ += (gap - mean_) / gaps_;
    square_ += (gap * gap - square_) / gaps_;
    // Hosts have jitter, and a few equal gaps do not prove a periodic client.
    const double c = std::clamp(variation(), 0.05, 2.0);
    const double shape = std::pow(c, -1.086);
    shape_ = gaps_ < 8 ? std::min(shape, 1.0) : shape;
    scale_ = mean_ / std::tgamma(1 + 1 / shape_);
  }

  double gaps_ = 0;
  double mean_ = 0;
  double square_ = 0; ///< mean of the squared gaps
  double shape_ = 1;
  double scale_ = 1; ///< ns
  time_point last_{};
  bool known_ = false;
  bool paused_ = false; ///< the gap before the last arrival was not counted
};

/// The arrivals of all clients, as independent sources.
///
/// Cost     arrived O(1), but allocates for a client with a higher number than before; within and
///          is_near O(clients).
/// Threads  one owner; no locking. The state depends on the calls alone.
class arrival_forecast {
public:
  void arrived(std::size_t client, time_point now) {
    if (client >= clients_.size()) clients_.resize(client + 1);
    clients_[client].arrived(now);
  }

  /// The expected number of clients with an arrival within `next` from now.
  [[nodiscard]] double within(time_point now, duration next) const noexcept {
    double sum = 0;
    for (const client_forecast& c : clients_) sum += c.within(now, next);
    return sum;
  }

  /// Whether is_near holds for any client.
  [[nodiscard]] bool is_near(time_point now, duration next) const noexcept {
    return std::any_of(clients_.begin(), clients_.end(),
                       [&](const client_forecast& c) { return c.is_near(now, next); });
  }

private:
  std::vector<client_forecast> clients_;
};

} // namespace gsched
