// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// The arrivals of one client: the law of the gaps between them, from periodic through Poisson to
/// bursty, and how likely the next comes soon.
///
/// Source   a Weibull law; its shape from the coefficient of variation c as c^-1.086: Justus et
///          al., J. Applied Meteorology 17(3), 1978, pages 350 to 353.
/// Differs  a client may have stopped: after each arrival with a chance of 1 in 64. The longer the
///          silence, the likelier that it has. A client that mixes laws is taken for one of a law
///          in between.
/// Cost     arrived, within and is_near O(1). Never allocates.
/// Threads  one owner; no locking. Depends on the calls alone.
class client_forecast {
public:
  void arrived(time_point now) noexcept {
    if (known_) {
      const auto gap = std::max(1.0, static_cast<double>((now - last_).count()));
      // A pause is no gap, unless another follows at once: then the client has become slower.
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

  /// Chance that a request arrives in the time `next` from now on.
  [[nodiscard]] double within(time_point now, duration next) const noexcept {
    if (gaps_ < 3) return 0;
    const double silent = std::max(0.0, static_cast<double>((now - last_).count()));
    const double before = silence(silent);
    const double after = silence(silent + static_cast<double>(next.count()));
    return (before - after) / (before + stops);
  }

  /// Whether a request is expected within `next`: whether it is at least 1/32 as likely as it is on
  /// average, which it is not well before a periodic client's next one. After the mean gap a
  /// request is expected until the client has been silent for 16 of them and counts as stopped. Of
  /// a client with too few gaps, one is expected for a second after the last request.
  [[nodiscard]] bool is_near(time_point now, duration next) const noexcept {
    constexpr double part = 1.0 / 32;
    constexpr double stopped = 16;
    if (gaps_ < 3) return known_ && now - last_ < std::chrono::seconds{1};
    const double silent = static_cast<double>((now - last_).count()) / mean_;
    if (silent >= 1) return silent < stopped;
    return within(now, next) >= part * (1 - std::exp(-static_cast<double>(next.count()) / mean_));
  }

  /// Mean of the gaps in nanoseconds; 0 if not known.
  [[nodiscard]] double mean_ns() const noexcept { return mean_; }
  /// Standard deviation over mean.
  [[nodiscard]] double variation() const noexcept {
    return mean_ > 0 ? std::sqrt(std::max(0.0, square_ - mean_ * mean_)) / mean_ : 0;
  }

private:
  static constexpr double stops = 1.0 / 64;
  static constexpr double remembered = 64; ///< gaps

  /// Chance that a gap is longer than that.
  [[nodiscard]] double silence(double gap) const noexcept {
    return std::exp(-std::pow(gap / scale_, shape_));
  }
  /// Chance that a client that has been silent for so long has not stopped.
  [[nodiscard]] double alive(double gap) const noexcept {
    const double still = silence(gap);
    return still / (still + stops);
  }

  void learn(double gap) noexcept {
    gaps_ = std::min(gaps_ + 1, remembered);
    mean_ += (gap - mean_) / gaps_;
    square_ += (gap * gap - square_) / gaps_;
    // Hosts jitter, and a few gaps prove no clockwork.
    const double c = std::clamp(variation(), 0.05, 2.0);
    const double shape = std::pow(c, -1.086);
    shape_ = gaps_ < 8 ? std::min(shape, 1.0) : shape;
    scale_ = mean_ / std::tgamma(1 + 1 / shape_);
  }

  double gaps_ = 0;
  double mean_ = 0;
  double square_ = 0; ///< mean of the gaps' squares
  double shape_ = 1;
  double scale_ = 1; ///< ns
  time_point last_{};
  bool known_ = false;
  bool paused_ = false; ///< the gap before the last arrival was left out
};

/// The arrivals of all clients, as of independent sources.
///
/// Cost     arrived O(1), but allocates for a client of a higher number than any before; within and
///          is_near O(clients).
/// Threads  one owner; no locking. Depends on the calls alone.
class arrival_forecast {
public:
  void arrived(std::size_t client, time_point now) {
    if (client >= clients_.size()) clients_.resize(client + 1);
    clients_[client].arrived(now);
  }

  /// Clients of which a request is expected in the time `next` from now on.
  [[nodiscard]] double within(time_point now, duration next) const noexcept {
    double sum = 0;
    for (const client_forecast& c : clients_) sum += c.within(now, next);
    return sum;
  }

  /// Whether one is near for any client.
  [[nodiscard]] bool is_near(time_point now, duration next) const noexcept {
    return std::any_of(clients_.begin(), clients_.end(),
                       [&](const client_forecast& c) { return c.is_near(now, next); });
  }

private:
  std::vector<client_forecast> clients_;
};

} // namespace gsched
