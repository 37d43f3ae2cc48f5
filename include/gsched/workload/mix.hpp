// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/workload/random.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched::sim {

/// Draws what is asked for and by whom: models by weight; clients by weight, or in turn where no
/// weights are given.
///
/// Errors   bad_option for no models, no clients, a weight below zero or not finite, or weights
///          that are all zero.
/// Cost     O(log n) of n models or clients a draw.
class mix {
public:
  /// Clients take turns.
  mix(const std::vector<double>& models, std::uint32_t clients)
      : models_(sums(models, "model")), clients_(clients) {
    if (clients == 0) throw error(errc::bad_option, "mix: no clients, expected at least 1");
  }
  mix(const std::vector<double>& models, const std::vector<double>& clients)
      : models_(sums(models, "model")), client_sums_(sums(clients, "client")),
        clients_(static_cast<std::uint32_t>(clients.size())) {}

  [[nodiscard]] std::uint32_t model(random_engine& r) const {
    return models_.size() == 1 ? 0 : draw(models_, r);
  }
  [[nodiscard]] client_id client(random_engine& r) {
    if (!client_sums_.empty()) return client_id{draw(client_sums_, r)};
    return turn();
  }
  /// The next client in turn.
  [[nodiscard]] client_id turn() noexcept {
    const client_id c{turn_};
    turn_ = turn_ + 1 == clients_ ? 0 : turn_ + 1;
    return c;
  }
  [[nodiscard]] std::uint32_t clients() const noexcept { return clients_; }

private:
  static std::vector<double> sums(const std::vector<double>& weights, const char* of) {
    const auto refuse = [of](const std::string& what) {
      throw error(errc::bad_option, std::string("mix: ") + what + " " + of + " weights, expected " +
                                        "some, finite, none below 0 and not all 0");
    };
    std::vector<double> until;
    double sum = 0;
    for (const double w : weights) {
      if (!(w >= 0) || !std::isfinite(w)) refuse("bad");
      until.push_back(sum += w);
    }
    if (!(sum > 0) || !std::isfinite(sum)) refuse("no");
    return until;
  }
  static std::uint32_t draw(const std::vector<double>& until, random_engine& r) {
    const double u = uniform(r) * until.back();
    const auto at = std::upper_bound(until.begin(), until.end(), u); // skips weights of 0
    const auto last = std::lower_bound(until.begin(), until.end(), until.back());
    return static_cast<std::uint32_t>(std::min(at, last) - until.begin());
  }

  std::vector<double> models_;      ///< [i]: weights of models up to i
  std::vector<double> client_sums_; ///< likewise; empty: in turn
  std::uint32_t clients_ = 0;
  std::uint32_t turn_ = 0;
};

} // namespace gsched::sim
