// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// A model, and how far other models may slow it: 1.2 lets its jobs take up to 20% longer.
struct corun_limit {
  static constexpr double none = std::numeric_limits<double>::infinity();

  std::string model{};
  double most = none;
};

/// A prediction or a measurement: the latency of `slowed` beside `beside`, over its latency alone.
struct corun_slowdown {
  std::string slowed{};
  std::string beside{};
  double by = 1;
};

/// What a corun_rule does with two models for which it has no slow-down. A named model beside
/// itself is no such pair: its jobs run beside one another unless the rule has a slow-down for
/// that.
enum class unknown_pairs : std::uint8_t {
  allowed, ///< they may run side by side
  refused  ///< they do not; a job of a model that is not named runs alone
};

/// Which models may not run side by side, because one would be slowed beyond its limit. A job fits
/// beside a set of jobs if neither it nor any of them then exceeds its limit.
///
/// Beside several jobs the excesses (slow-down - 1) of the pairs add up. The sum stands for a
/// measurement of the group: it is cautious where the neighbours take a resource from each other as
/// well, and too low where several overflow a cache that two of them fit into.
///
/// Source   Elvinger et al., SoCC 2025, section 5.1, doi:10.1145/3772052.3772270: a scheduler that
///          finds pairs suitable for co-location by predicted slow-downs. The limit for each model
///          and the sum over several are ours.
/// Units    slow-downs are ratios, kept in steps of 0.0001. Below 1 they count as 1, and above
///          most_slowdown as that.
/// Errors   the constructor throws gsched::error, one line: bad_option for a model that is named
///          twice, a limit below 1 or that is no number, and a slow-down that is not a finite
///          number above 0; unknown_name for a slow-down of a model that is not named.
/// Cost     set-up O(pairs log models) and O(models^2) memory; queries O(1), row_of O(log models).
/// Threads  immutable after construction.
class corun_rule {
public:
  /// A model's place in the rule; others() for all models that it does not name.
  using row = std::uint32_t;
  /// An excess in steps.
  using excess = std::uint64_t;

  static constexpr double step = 1e-4;
  static constexpr double most_slowdown = 400;
  /// Larger than any sum of known excesses of 2^20 jobs.
  static constexpr excess no_limit = excess{1} << 42;
  /// Of a pair that is refused: exceeds no_limit, and 2^20 of them still have a sum.
  static constexpr excess refused = excess{1} << 43;

  corun_rule(std::span<const corun_limit> models, std::span<const corun_slowdown> pairs,
             unknown_pairs unknown = unknown_pairs::allowed)
      : width_(models.size() + 1), limits_(width_, no_limit),
        excess_(width_ * width_, unknown == unknown_pairs::refused ? refused : 0),
        known_(width_ * width_, 0) {
    for (const corun_limit& m : models) {
      const auto at = static_cast<row>(names_.size());
      if (!names_.emplace(m.model, at).second)
        throw error(errc::bad_option, "corun_rule: " + m.model + " is named twice, expected once");
      if (!(m.most >= 1))
        throw error(errc::bad_option, "corun_rule: limit " + number_text(m.most) + " of " +
                                          m.model + ", expected at least 1");
      if (m.most < most_slowdown) limits_[at] = steps(m.most);
    }
    for (row r = 0; r < others(); ++r) excess_[place(r, r)] = 0;
    for (const corun_slowdown& p : pairs) {
      if (!(p.by > 0) || !std::isfinite(p.by))
        throw error(errc::bad_option, "corun_rule: slow-down " + number_text(p.by) + " of " +
                                          p.slowed + " beside " + p.beside +
                                          ", expected a finite number above 0");
      const std::size_t at = place(named(p.slowed), named(p.beside));
      excess_[at] = steps(p.by);
      known_[at] = 1;
    }
  }

  /// A rule for models whose slow-downs side by side are slowdowns(i, j), an array of two: of model
  /// i beside model j, and of j beside i. It is called once for each pair with i <= j. With chains
  /// of the models' kernels and fitted coefficients, that is pair_slowdowns (interference/):
  ///
  ///   corun_rule::predicted(models, [&](std::size_t i, std::size_t j) {
  ///     return pair_slowdowns(chains[i], chains[j], coefficients);
  ///   });
  ///
  /// Source   the law of contention, on the kernels' counters: no model has to run beside another.
  /// Errors   as the constructor.
  /// Cost     models^2 / 2 calls; 60 to 210 ms each by pair_slowdowns.
  template <class Slowdowns>
  [[nodiscard]] static corun_rule predicted(std::span<const corun_limit> models,
                                            Slowdowns slowdowns) {
    std::vector<corun_slowdown> pairs;
    for (std::size_t i = 0; i < models.size(); ++i) {
      for (std::size_t j = i; j < models.size(); ++j) {
        const std::array<double, 2> s = slowdowns(i, j);
        pairs.push_back({models[i].model, models[j].model, std::max(s[0], i == j ? s[1] : 0.0)});
        if (i != j) pairs.push_back({models[j].model, models[i].model, s[1]});
      }
    }
    return corun_rule(models, pairs);
  }

  /// The number of models that it names.
  [[nodiscard]] std::size_t models() const noexcept { return width_ - 1; }
  [[nodiscard]] row others() const noexcept { return static_cast<row>(width_ - 1); }
  [[nodiscard]] row row_of(std::string_view model) const noexcept {
    const auto at = names_.find(model);
    return at == names_.end() ? others() : at->second;
  }

  /// How much a job of `slowed` is slowed by one job of `beside`.
  [[nodiscard]] excess of(row slowed, row beside) const noexcept {
    return excess_[place(slowed, beside)];
  }
  /// The largest sum of excesses of a job of the model.
  [[nodiscard]] excess limit(row r) const noexcept { return limits_[r]; }
  [[nodiscard]] bool knows(row slowed, row beside) const noexcept {
    return known_[place(slowed, beside)] != 0 || (slowed == beside && slowed != others());
  }
  /// Whether jobs of these models, a row for each job, may run side by side. O(jobs^2).
  [[nodiscard]] bool allows(std::span<const row> jobs) const noexcept {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      excess sum = 0;
      for (std::size_t j = 0; j < jobs.size(); ++j)
        if (i != j) sum += of(jobs[i], jobs[j]);
      if (sum > limits_[jobs[i]]) return false;
    }
    return true;
  }

private:
  [[nodiscard]] static excess steps(double slowdown) noexcept {
    const double above = std::clamp(slowdown, 1.0, most_slowdown) - 1;
    return static_cast<excess>(std::llround(above / step));
  }
  [[nodiscard]] std::size_t place(row slowed, row beside) const noexcept {
    return slowed * width_ + beside;
  }
  [[nodiscard]] row named(const std::string& model) const {
    const row r = row_of(model);
    if (r == others())
      throw error(errc::unknown_name,
                  "corun_rule: " + model + " has a slow-down and no limit, expected a named model");
    return r;
  }

  std::size_t width_;
  std::vector<excess> limits_;      ///< by row
  std::vector<excess> excess_;      ///< by slowed, then beside
  std::vector<std::uint8_t> known_; ///< as excess_
  std::map<std::string, row, std::less<>> names_;
};

} // namespace gsched
