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

namespace gsched {

/// Draws the model and the client of each request. Models are drawn by weight. Clients are drawn by
/// weight, or taken round robin if no client weights are given.
///
/// Errors   bad_option for no models, no clients, a weight that is negative or not finite, and
///          weights that are all zero.
/// Cost     O(log n) of n models or clients a draw.
class request_mix {
public:
  /// Takes clients round robin.
  request_mix(const std::vector<double>& models, std::uint32_t clients)
      : model_sums_(sums(models, "model")), clients_(clients) {
    if (clients == 0) throw error(errc::bad_option, "mix: no clients, expected at least 1");
  }
  request_mix(const std::vector<double>& models, const std::vector<double>& clients)
      : model_sums_(sums(models, "model")), client_sums_(sums(clients, "client")),
        clients_(static_cast<std::uint32_t>(clients.size())) {}

  [[nodiscard]] std::uint32_t model(random_engine& r) const {
    return model_sums_.size() == 1 ? 0 : draw(model_sums_, r);
  }
  [[nodiscard]] client_id client(random_engine& r) {
    if (!client_sums_.empty()) return client_id{draw(client_sums_, r)};
    return next_client();
  }
  /// The next client in round-robin order.
  [[nodiscard]] client_id next_client() noexcept {
    const client_id c{next_};
    next_ = next_ + 1 == clients_ ? 0 : next_ + 1;
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
    const double u = draw_uniform(r) * until.back();
    const auto at = std::upper_bound(until.begin(), until.end(), u); // skips weights of 0
    const auto last = std::lower_bound(until.begin(), until.end(), until.back());
    return static_cast<std::uint32_t>(std::min(at, last) - until.begin());
  }

  std::vector<double> model_sums_;  ///< [i]: sum of the weights of models 0 to i
  std::vector<double> client_sums_; ///< likewise; empty: round robin
  std::uint32_t clients_ = 0;
  std::uint32_t next_ = 0; ///< client
};

} // namespace gsched
