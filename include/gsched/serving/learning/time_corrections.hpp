// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/serving/learning/learned_factor.hpp>
#include <gsched/trace/histogram.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// Parameters of time_corrections.
struct correction_options {
  bool learns = true;        ///< false: every correction stays 1
  double quantile = 0.95;    ///< of measured over planned time; of few batches may be slower
  std::uint64_t fewest = 50; ///< batches of one model on one size, before they count
  double noise = 0.05;       ///< a rise by at most this part of the correction is ignored
  double fall = 0.25;        ///< part of the way down that a correction takes in a period
  double most = 4;           ///< bound of a correction that is planned with
};

/// Learns by which factor the batches of each model take longer than planned. A planned time is the
/// table's latency times the slow-down that the interference law predicts beside busy neighbours,
/// without any correction. It is a bound, so a batch that took less says nothing about the table:
/// its neighbours may have been idle. A batch that took more shows that the table or the law is too
/// low, and does not show which. The correction multiplies the model's solo latency. That is right
/// for a wrong table. For a wrong law it is right while the GPU stays shared, and too high for a
/// partition that has its GPU to itself, where it then falls.
///
/// A correction is that quantile of measured over planned time, for the partition size where it is
/// largest. It holds for all sizes and batches of the model: those that have not run yet are
/// assumed to be no better. It rises at the end of a period and falls slowly, and it falls half as
/// fast each time that it fell too far.
///
/// Plans take a correction of at most `most`, and of at most what a partition of a whole GPU has
/// room for: with a larger one no plan exists for any rate. A model of which not even one request
/// that finds a whole GPU idle would be in time is too slow. Its correction tells how slow; plans
/// take it with none, since more SMs would not help it.
///
/// Units    a correction is a factor on latencies, 1 to `longest`.
/// Errors   the constructor: bad_option, one line.
/// Cost     record O(sizes of the model), 29 KiB for each model and size that ran; close_period
///          O(models x sizes).
/// Threads  one owner.
class time_corrections {
public:
  static constexpr double longest = 1000; ///< bound of a correction

  /// `room`: see room_of; empty: no model is ever too slow.
  explicit time_corrections(std::size_t models, correction_options o = {},
                            std::span<const double> room = {})
      : options_(o), room_(room.begin(), room.end()) {
    const auto check = [](bool holds, const char* what, double value, const char* expected) {
      if (!holds)
        throw error(errc::bad_option, std::string("correction: ") + what + " of " +
                                          number_text(value) + ", expected " + expected);
    };
    check(o.quantile > 0 && o.quantile <= 1, "quantile", o.quantile, "above 0, at most 1");
    check(o.noise >= 0 && std::isfinite(o.noise), "noise", o.noise, "0 or more");
    check(o.fall >= 0 && o.fall <= 1, "fall", o.fall, "0 to 1");
    check(o.most >= 1 && std::isfinite(o.most), "most", o.most, "1 or more");
    learned_.assign(models, learned_factor(o.learns ? longest : 1, o.fall));
    room_.resize(models, 2 * longest);
    factors_.assign(models, 1.0);
    planned_.assign(models, 1.0);
    measured_.resize(models);
  }

  /// Records a batch. `planned` has no correction. `host`: so much of `took` may be the host's: the
  /// batch counts as if it had taken the time between took - host and took that is nearest to the
  /// planned one with its correction.
  void record(std::size_t model, sm_count sms, duration took, duration planned,
              duration host = {}) {
    if (!options_.learns || planned <= duration::zero()) return;
    std::vector<cell>& of = measured_[model];
    auto at = std::find_if(of.begin(), of.end(), [&](const cell& c) { return c.sms == sms; });
    if (at == of.end()) at = of.insert(at, cell{sms, {}});
    const auto share_of = [&](duration d) {
      return static_cast<double>(d.count()) / static_cast<double>(planned.count());
    };
    const double share = std::clamp(learned_[model].value(), share_of(took - host), share_of(took));
    at->time.record(duration{std::llround(std::clamp(share, 0.0, 1e6) * one)});
  }

  /// Updates the corrections from the batches since the last call. The batches of a model on a size
  /// that ran fewer than `fewest` are kept for the next call. Returns true if a correction changed.
  ///
  /// `explained`: by model, how many times as long its batches are planned from now on as they were
  /// when they were recorded, because the interference was learned; empty: as long. It corrects the
  /// model so much less.
  bool close_period(std::span<const double> explained = {}) {
    bool changed = false;
    for (std::size_t m = 0; m < measured_.size(); ++m) {
      const double by = m < explained.size() ? explained[m] : 1;
      const double before = learned_[m].value();
      learned_[m].explain(by);
      double share = 0; // of the size where it is largest
      for (cell& c : measured_[m]) {
        if (c.time.count() < std::max<std::uint64_t>(options_.fewest, 1)) continue;
        share = std::max(share,
                         static_cast<double>(c.time.percentile(options_.quantile).count()) / one);
        c.time.clear();
      }
      share /= by;
      learned_factor& f = learned_[m];
      if (share > f.value() * (1 + options_.noise)) {
        f.rise_to(share);
      } else if (share > 0 && share < f.value()) { // 0: too few batches to tell
        if (share <= room_[m]) f.bound(room_[m]);  // it is not too slow any more
        f.fall_to(share);
      }
      changed |= f.value() != before;
      factors_[m] = f.value();
      planned_[m] = is_too_slow(m) ? 1 : std::min({f.value(), options_.most, half_of(room_[m])});
    }
    return changed;
  }

  /// By model: the factor on the table's latencies that its batches take.
  [[nodiscard]] std::span<const double> factors() const noexcept { return factors_; }
  /// By model: the factor to plan with.
  [[nodiscard]] std::span<const double> planned() const noexcept { return planned_; }
  /// Whether none of the model's requests can be in time, on any partition.
  [[nodiscard]] bool is_too_slow(std::size_t model) const noexcept {
    return factors_[model] > room_[model];
  }

private:
  /// What a plan can do: a request may wait for one batch and be in the next.
  [[nodiscard]] static double half_of(double room) noexcept {
    return std::max(1.0, 0.99 * room / 2);
  }

  /// The batches of one model on one size since the last correction: their time, if each were
  /// planned for a millisecond.
  struct cell {
    sm_count sms;
    trace::histogram time;
  };
  static constexpr double one = 1e6; ///< nanoseconds of a millisecond

  correction_options options_;
  std::vector<learned_factor> learned_;
  std::vector<double> room_; ///< by model
  std::vector<double> factors_, planned_;
  std::vector<std::vector<cell>> measured_; ///< by model
};

/// By model: how many times its latency in the table a batch of 1 on a whole GPU may take and end
/// within the SLO; at least 1.
///
/// Cost     O(models x GPUs).
[[nodiscard]] inline std::vector<double>
room_of(const latency_table& t, std::span<const duration> slos, std::span<const gpu_shape> shapes) {
  std::vector<double> room(t.size(), 1.0);
  for (std::size_t m = 0; m < t.size(); ++m)
    for (const gpu_shape& g : shapes)
      if (g.sms >= t.sizes(m).front())
        room[m] = std::max(room[m], static_cast<double>(slos[m].count()) /
                                        static_cast<double>(t.latency(m, 1, g.sms).count()));
  return room;
}

/// The table with each model's latencies times its correction. Empty corrections: the table itself.
///
/// Cost     set-up: O(rows x models).
[[nodiscard]] inline latency_table with_corrections(const latency_table& t,
                                                    std::span<const double> corrections) {
  if (std::all_of(corrections.begin(), corrections.end(), [](double c) { return c == 1; }))
    return t;
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < t.size(); ++m)
    for (const std::uint32_t b : t.batches(m))
      for (const sm_count s : t.sizes(m))
        rows.push_back({t.name(m), b, s,
                        duration{static_cast<duration::rep>(std::ceil(
                            static_cast<double>(t.latency(m, b, s).count()) * corrections[m]))}});
  return latency_table(rows);
}

} // namespace gsched
