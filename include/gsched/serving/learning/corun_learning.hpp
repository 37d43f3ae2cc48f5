// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/learning/detail/corun_evidence.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// Parameters of corun_learning. All errors are standard deviations of logarithms.
struct corun_learning_options {
  double unsure = 0.5;            ///< of a factor, before anything is measured
  double table_error = 0.3;       ///< of the table's latencies of a model
  double cell_error = 0.03;       ///< more, of one batch size on one partition size
  double noise = 0.1;             ///< of the time of a single batch, at least
  std::uint64_t remembers = 2000; ///< batches of a model: older ones count less and less
  /// From one watched batch of a partition to the next one: half to one and a half times that.
  duration between = std::chrono::milliseconds{2};
};

/// How much of the differences between a model's batches of one size on one partition size its
/// neighbours explain: a batch's time over the predicted one, beside the neighbours that it had,
/// was so far from the mean of those before. Sums of logarithms without sign. Each batch was
/// predicted before it ran; those of the first period, with no factors yet, do not count.
struct corun_learning_errors {
  std::uint64_t batches = 0;
  double at_first = 0; ///< by the factors of the metrics
  double learned = 0;  ///< by those learned until then
};

/// Learns the corun_factors of models while they are served, from which batches ran at the same
/// time and how long they took.
///
/// The law of contention says how fast a batch goes beside each set of neighbours. The sum of that
/// over the parts of its run, by which neighbours it had in each, is the work that it has done by
/// the law; it should be the table's latency. Where it is more, either the table is too low, or the
/// batch is more sensitive than the law says, or a neighbour presses more. Neighbours come and go,
/// and tell these apart. What they do not tell apart counts as an error of the table, and changes
/// no factor. Factors multiply those of the metrics. They are the mean of what is known: half of
/// the batches take longer. The noise of a model's batches is what the factors leave of it, so that
/// the batches of a model whose times vary by other causes tell less.
///
/// Some batches of each partition are watched. Those in regions count as neighbours and are not
/// watched. A batch that took more than e times as long as predicted, or less than 1/e of that, is
/// left out: something else held it up. So is one of whose time the host may have added more than
/// `noise`.
///
/// Source   the weights are those of a linear model with random effects, linearised around the
///          factors known when a batch ended, as an extended Kalman filter is.
/// Order    equal calls give equal factors.
/// Errors   the constructor: bad_option, one line. begin: those of the interference.
/// Cost     begin and end: O(n^2) for n batches that run on the GPU, and four times the law for
///          each of them that is watched; the end of a watched batch also O(models^2). No
///          allocation once each batch size has run on each partition size: some 2 us for each
///          watched batch that runs then. close_period: O(models^3), 0.02 ms for 5 models, 3.4 for
///          50; where factors are at their bounds also up to 500 sweeps of O(models^2). (`./dev
///          bench corun_learning`)
/// Threads  one owner; the table, and what the law refers to, outlive it.
class corun_learning {
public:
  corun_learning(const latency_table& table, contention_interference law, std::size_t gpus,
                 corun_learning_options o = {})
      : table_(&table), law_(law), options_(o), running_(gpus), evidence_(table.size()),
        factors_(table.size()), unsure_(table.size(), {o.unsure, o.unsure}), errors_(table.size()) {
    const auto check = [](const char* what, double value) {
      if (!(value > 0) || !std::isfinite(value))
        throw error(errc::bad_option, std::string("learning: ") + what + " of " +
                                          number_text(value) + ", expected above 0");
    };
    check("error of a factor", o.unsure);
    check("error of the table", o.table_error);
    check("error of a batch size", o.cell_error);
    check("noise", o.noise);
    check("memory", static_cast<double>(o.remembers));
    if (o.between < duration::zero() || o.between > std::chrono::hours{1})
      throw error(errc::bad_option, "learning: " + std::to_string(o.between.count()) +
                                        " ns between batches, expected 0 to an hour");
  }

  /// A batch starts. `now` never falls.
  void begin(const batch_run& r, time_point now) {
    if (r.partition >= slots_.size()) slots_.resize(r.partition + 1);
    slot& s = slots_[r.partition];
    std::vector<std::uint32_t>& here = running_[r.gpu];
    advance(here, now);
    s.run = r;
    s.use = law_.use(r.model, r.batch, r.sms);
    s.felt = felt(r.model, s.use);
    s.is_watched = r.region == 0 && now >= s.next;
    s.begun = s.since = now;
    s.done_us = 0;
    if (s.is_watched) {
      s.next = now + next_in(s.count++);
      s.slopes.assign(factors_.size() + 1, 0.0);
    }
    here.push_back(r.partition);
    predict(here);
  }
  /// The batch of a partition ends. One that never began is ignored. `on_gpu`: how long it ran
  /// there, without what the host adds before and after; empty: as long as from begin to end, of
  /// which the host may have added `host` more than it usually does.
  void end(std::uint32_t gpu, std::uint32_t partition, time_point now,
           std::optional<duration> on_gpu = {}, duration host = {}) {
    std::vector<std::uint32_t>& here = running_[gpu];
    const auto at = std::find(here.begin(), here.end(), partition);
    if (at == here.end()) return;
    advance(here, now);
    here.erase(at);
    const slot& s = slots_[partition];
    const bool is_sure = on_gpu || to_us(host) <= options_.noise * to_us(now - s.begun);
    if (s.is_watched && is_sure) note(slots_[partition], now, on_gpu);
    predict(here);
  }

  /// Updates the factors from all batches so far.
  void close_period() {
    const std::vector<detail::learned_factors> best = evidence_.solve(
        {options_.unsure, options_.table_error, options_.cell_error, options_.noise});
    has_learned_ = true;
    double moved = 0;
    const auto move = [&](double& factor, double to) {
      const double by = std::clamp(std::log(to / factor), -most_move, most_move);
      factor = std::clamp(factor * std::exp(by), corun_factors::least, corun_factors::most);
      moved = std::max(moved, std::abs(by));
    };
    for (std::size_t m = 0; m < factors_.size(); ++m) {
      move(factors_[m].sensitivity, best[m].factors.sensitivity);
      move(factors_[m].pressure, best[m].factors.pressure);
      unsure_[m] = best[m].errors;
    }
    evidence_.fade(1 / (1 + std::pow(moved / is_linear, 2)));
    evidence_.keep_at_most(static_cast<double>(options_.remembers));
    for (slot& s : slots_) {
      s.is_watched = false; // its slopes are those at the former factors
      s.felt = felt(s.run.model, s.use);
    }
  }

  /// By model: what its factors of the metrics are to be multiplied by.
  [[nodiscard]] std::span<const corun_factors> factors() const noexcept { return factors_; }
  /// By model: how far off these may be, as of the end of the last period, if the law is right but
  /// for the factors. Two factors that cannot be told apart are both that unsure.
  [[nodiscard]] std::span<const corun_factor_errors> unsure() const noexcept { return unsure_; }
  /// How many batches of a model were watched.
  [[nodiscard]] std::uint64_t watched(std::size_t model) const noexcept {
    return evidence_.watched(model);
  }

  /// Of a model's batches.
  [[nodiscard]] const corun_learning_errors& errors(std::size_t model) const noexcept {
    return errors_[model];
  }

private:
  /// Slopes hold for factors that differ by this part: older ones are worth half.
  static constexpr double is_linear = 0.25;
  static constexpr double most_move = 0.5; ///< of a factor's logarithm in a period
  static constexpr double fewest = 10;     ///< batches, for a mean

  /// The batch of a partition.
  struct slot {
    batch_run run{};
    mean_use use{};  ///< with the factors of the metrics
    mean_use felt{}; ///< as its neighbours feel it, by the factors learned
    bool is_watched = false;
    time_point next{};       ///< from then on another batch is watched
    std::uint64_t count = 0; ///< of watched batches
    time_point begun{};      ///< when it began
    time_point since{};      ///< last change of what runs on the GPU
    double done_us = 0;      ///< work until then, by the law
    double pace = 1;         ///< work in a microsecond since
    /// Of done_us, and of the pace: the slopes over the logarithms of the batch's sensitivity, and
    /// of each model's pressure.
    std::vector<double> slopes{};
    std::vector<std::pair<std::size_t, double>> pace_slopes{};
  };

  /// Half to one and a half times `between`, never in step with what comes at regular times.
  [[nodiscard]] duration next_in(std::uint64_t count) const noexcept {
    constexpr double golden = 0.6180339887498949;
    double whole = 0;
    const double part = 0.5 + std::modf(static_cast<double>(count) * golden, &whole);
    return duration{std::llround(part * static_cast<double>(options_.between.count()))};
  }
  [[nodiscard]] mean_use felt(std::size_t model, mean_use use) const noexcept {
    use.factors.pressure *= factors_[model].pressure;
    return use.as_neighbour();
  }

  /// Adds what the watched batches have done since the last change.
  void advance(const std::vector<std::uint32_t>& here, time_point now) noexcept {
    for (const std::uint32_t p : here) {
      slot& s = slots_[p];
      if (!s.is_watched) continue;
      const double us = to_us(now - s.since);
      s.since = now;
      s.done_us += us * s.pace;
      for (const auto& [unknown, slope] : s.pace_slopes) s.slopes[unknown] += us * slope;
    }
  }

  /// The pace of the watched batches beside what runs now, and its slopes.
  void predict(const std::vector<std::uint32_t>& here) {
    mean_use all;
    for (const std::uint32_t p : here) all.add(slots_[p].felt);
    for (const std::uint32_t p : here)
      if (slots_[p].is_watched) predict(slots_[p], here, all);
  }
  void predict(slot& s, const std::vector<std::uint32_t>& here, const mean_use& all) const {
    s.pace = 1;
    s.pace_slopes.clear();
    if (here.size() < 2) return;
    mean_use own = s.use, others = all;
    own.factors.sensitivity *= factors_[s.run.model].sensitivity;
    others.l2 -= s.felt.l2;
    others.dram -= s.felt.dram;
    others.starts -= s.felt.starts;
    const double slowed = law_.slowdown(own, others);
    s.pace = 1 / slowed;
    const double per_slowdown = -s.pace * s.pace;
    s.pace_slopes.emplace_back(0, per_slowdown * (slowed - 1));
    // By each kind of use, as pressure multiplies all of them.
    const auto slope_of = [&](double mean_use::*kind) {
      const double step = std::max(1e-4, 0.01 * others.*kind);
      mean_use more = others;
      more.*kind += step;
      return (law_.slowdown(own, more) - slowed) / step;
    };
    const double l2 = slope_of(&mean_use::l2), dram = slope_of(&mean_use::dram),
                 starts = slope_of(&mean_use::starts);
    for (const std::uint32_t p : here)
      if (const slot& o = slots_[p]; p != s.run.partition)
        s.pace_slopes.emplace_back(
            o.run.model + 1,
            per_slowdown * (l2 * o.felt.l2 + dram * o.felt.dram + starts * o.felt.starts));
  }

  /// Turns a watched batch, which has ended, into evidence.
  void note(slot& s, time_point ended, std::optional<duration> on_gpu) {
    const batch_run& r = s.run;
    const double alone_us = to_us(table_->latency(r.model, r.batch, r.sms));
    if (!(s.done_us > 0) || !(alone_us > 0)) return;
    const double part = on_gpu ? to_us(*on_gpu) / to_us(ended - s.begun) : 1;
    // Work above the table's: it was slowed more.
    const double now = std::log(part * s.done_us / alone_us);
    if (!(std::abs(now) <= 1)) return;
    for (double& slope : s.slopes) slope /= s.done_us;
    const double miss = now - times_factors(s.slopes, r.model); // at factors of 1
    if (const auto* mean = evidence_.mean(r.model, r.batch, r.sms);
        has_learned_ && mean != nullptr && mean->count >= fewest) {
      corun_learning_errors& e = errors_[r.model];
      ++e.batches;
      e.at_first += std::abs(miss - mean->miss);
      e.learned += std::abs(now - mean->miss - times_factors(mean->slopes, r.model));
    }
    evidence_.add(r.model, r.batch, r.sms, miss, s.slopes);
  }
  /// Slopes of a model's batch times the logarithms of the factors.
  [[nodiscard]] double times_factors(std::span<const double> slopes,
                                     std::size_t model) const noexcept {
    double sum = slopes[0] * std::log(factors_[model].sensitivity);
    for (std::size_t m = 0; m < factors_.size(); ++m)
      if (slopes[m + 1] != 0) sum += slopes[m + 1] * std::log(factors_[m].pressure);
    return sum;
  }

  const latency_table* table_;
  contention_interference law_;
  corun_learning_options options_;
  std::vector<slot> slots_;                         ///< by partition
  std::vector<std::vector<std::uint32_t>> running_; ///< by GPU: partitions
  detail::corun_evidence evidence_;
  std::vector<corun_factors> factors_; ///< by model
  std::vector<corun_factor_errors> unsure_;
  std::vector<corun_learning_errors> errors_;
  bool has_learned_ = false;
};

} // namespace gsched
