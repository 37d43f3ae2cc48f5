// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/serving/learning/learned_factor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gsched {

/// Parameters of violation_margins.
struct margin_options {
  double allowed = 0.01;      ///< part of a model's requests that may be late or dropped; 1: all
  std::uint64_t fewest = 100; ///< requests of a model that end in a period, before they count
  double step = 1.2;          ///< on the margin, after a period with more violations than that
  double most = 2;            ///< bound of a margin
  double fall = 0.05;         ///< part of the way down to 1, after a period with less than half
  double host = 0.1; ///< no step if the host may have added more than this part of batch times
};

/// Learns by which factor the planned rates of a model have to be higher than its measured rates,
/// where neither rates nor batch times explain that its requests are late: arrivals that come in
/// denser clusters than a Poisson process, for instance.
///
/// Units    a margin is a factor on rates, 1 to `most`.
/// Errors   the constructor: bad_option, one line.
/// Cost     O(1).
/// Threads  one owner.
class violation_margins {
public:
  explicit violation_margins(std::size_t models, margin_options o = {}) : options_(o) {
    const auto check = [](bool holds, const char* what, double value, const char* expected) {
      if (!holds)
        throw error(errc::bad_option, std::string("margin: ") + what + " of " + number_text(value) +
                                          ", expected " + expected);
    };
    check(o.allowed >= 0 && o.allowed <= 1, "allowed part", o.allowed, "0 to 1");
    check(o.step >= 1 && std::isfinite(o.step), "step", o.step, "1 or more");
    check(o.most >= 1 && std::isfinite(o.most), "most", o.most, "1 or more");
    check(o.fall >= 0 && o.fall <= 1, "fall", o.fall, "0 to 1");
    check(o.host >= 0 && o.host <= 1, "host's part", o.host, "0 to 1");
    learned_.assign(models, learned_factor(o.most, o.fall));
    factors_.assign(models, 1.0);
  }

  /// Whether so many violations call for a reaction.
  [[nodiscard]] bool is_too_many(std::uint64_t ended, std::uint64_t violated) const noexcept {
    return ended >= options_.fewest &&
           static_cast<double>(violated) > options_.allowed * static_cast<double>(ended);
  }

  /// Raises a model's margin by a step. Returns false at the bound, and where the host may have
  /// added more than the allowed part of the model's batch times: more SMs would not help.
  bool raise(std::size_t model, double host = 0) noexcept {
    if (host > options_.host) return false;
    const bool changed = learned_[model].rise_to(learned_[model].value() * options_.step);
    factors_[model] = learned_[model].value();
    return changed;
  }
  /// Records a period without too many violations.
  void lower(std::size_t model, std::uint64_t ended, std::uint64_t violated) noexcept {
    if (ended < options_.fewest ||
        static_cast<double>(violated) > options_.allowed / 2 * static_cast<double>(ended))
      return;
    learned_[model].fall_to(1);
    factors_[model] = learned_[model].value();
  }

  /// By model: the factor on the measured rates.
  [[nodiscard]] std::span<const double> factors() const noexcept { return factors_; }

private:
  margin_options options_;
  std::vector<learned_factor> learned_;
  std::vector<double> factors_;
};

} // namespace gsched
