// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/learning/corun_learning.hpp>
#include <gsched/trace/histogram.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <vector>

namespace gsched {

/// Outcome of the requests of an app, or of a single model.
struct app_outcome {
  std::uint64_t arrived = 0;
  std::uint64_t in_time = 0; ///< all answers within the app's SLO
  std::uint64_t late = 0;
  std::uint64_t dropped = 0;  ///< at least one model request was dropped
  trace::histogram latency{}; ///< of requests with all answers

  [[nodiscard]] double violations() const noexcept {
    return arrived > 0 ? static_cast<double>(late + dropped) / static_cast<double>(arrived) : 0;
  }
};

/// Outcome of the requests and batches of one model.
struct model_outcome {
  request_counts counts{};
  trace::histogram latency{};
  std::uint64_t batches = 0;
  duration expected{}; ///< planned latency of all its batches together, not corrected
  duration took{};     ///< actual latency of all its batches together
  duration host{};     ///< at most so much of it was added by the host, more than it usually adds
  trace::histogram excess{}; ///< actual less planned latency of a batch; 0 if it was faster

  [[nodiscard]] double host_part() const noexcept {
    return took > duration::zero() ? to_us(host) / to_us(took) : 0;
  }
};

/// Counts of an app in one period.
struct app_period {
  std::uint64_t arrived = 0;
  std::uint64_t ended = 0;    ///< answered or dropped in the period
  std::uint64_t violated = 0; ///< of those: late or dropped
};

/// Counts of a model in one period.
struct model_period {
  std::uint64_t ended = 0;    ///< requests answered or dropped in the period
  std::uint64_t violated = 0; ///< of those: late or dropped
  double host = 0; ///< part of its batches' time: at most what the host added above the usual
};

/// Why a period began with a decision on a plan.
enum class replan_reason : std::uint8_t {
  none,         ///< rates and batch times were near those of the plan
  rates,        ///< measured rates
  times,        ///< measured batch times
  interference, ///< learned: batches slow each other more, or less, than the plan assumes
  violations,   ///< more requests were late or dropped than allowed, for none of these reasons
};

[[nodiscard]] constexpr std::string_view name_of(replan_reason r) noexcept {
  constexpr std::array<std::string_view, 5> names{"none", "rates", "times", "interference",
                                                  "violations"};
  return names[static_cast<std::size_t>(r)];
}

/// What was learned of a model while it was served.
struct learned_times {
  double time_factor = 1;   ///< its batches take so many times the planned time
  double rate_factor = 1;   ///< plans are for so many times its rate, for what was late
  bool is_too_slow = false; ///< its requests cannot be in time: plans give it the least partition

  bool operator==(const learned_times&) const = default;
};

/// Outcome of one period, from one decision on a plan to the next.
struct period_outcome {
  time_point begin{};
  std::vector<double> measured{};       ///< by model: measured rate at its begin
  std::vector<std::uint64_t> arrived{}; ///< by model: requests
  std::vector<app_period> apps{};       ///< by app
  std::vector<model_period> models{};   ///< by model
  std::uint64_t ended = 0;              ///< app requests answered or dropped
  std::uint64_t violated = 0;           ///< of those: late or dropped
  double factor = 0;     ///< the active plan serves this many times the rates it was made for
  partition_plan plan{}; ///< in service
  std::uint32_t partitions = 0;               ///< of the plan
  std::uint32_t on_shared_sms = 0;            ///< of these: those in regions
  std::uint32_t sms = 0;                      ///< of all partitions
  std::vector<std::uint32_t> gpu_sms{};       ///< by GPU: of its partitions
  replan_reason reason = replan_reason::none; ///< of the decision at its begin
  std::vector<double> corrections{};    ///< by model: learned factor on batch times, at its begin
  std::vector<std::size_t> too_slow{};  ///< models whose requests cannot be in time, at its begin
  std::vector<double> margins{};        ///< by model: learned factor on planned rates, at its begin
  std::vector<corun_factors> factors{}; ///< by model: learned interference in use, at its begin
  bool switched = false;                ///< to another plan, at its begin
  bool no_plan = false;                 ///< the planner was called and found no better plan
};

/// A batch that took much longer than expected. Times count from the begin of the run.
struct batch_stall {
  static constexpr std::size_t most = 1000; ///< that are kept

  std::uint32_t gpu = 0;
  std::uint32_t partition = 0;
  sm_count sms{};
  std::size_t model = 0;
  std::uint32_t batch = 0;
  time_point decided{}; ///< the frontend chose to start it
  duration expected{};
  duration took{};
  std::optional<batch_times> times{}; ///< if the runner traces batches
  std::uint32_t beside = 0;           ///< batches that ran on the same GPU when it began
  bool planning = false;              ///< a plan or its partitions were made meanwhile
  /// The model whose batch, on another partition of the GPU, ended just before this one started
  /// on the GPU, if this one waited for its start: they may share a hardware queue.
  std::optional<std::size_t> behind{};
};

/// A batch that has ended. Times count from the begin of the run.
struct ended_batch {
  std::uint32_t gpu = 0;
  std::uint32_t partition = 0;
  std::uint32_t region = 0;
  sm_count sms{};
  std::size_t model = 0;
  std::uint32_t batch = 0;
  time_point begun{}, ended{};
  duration planned{}; ///< latency by table and interference, not corrected
  duration least{};   ///< it took at least so long without the host's part (batch_runner, B7)
  duration host{};    ///< at most so much was added by the host, more than it usually adds
  std::optional<duration> on_gpu{}; ///< if the runner traces batches
};

/// What was learned of how a model's batches slow others and are slowed.
struct learned_interference {
  corun_factors factors{}; ///< what those of its metrics are to be multiplied by
  corun_factor_errors unsure{};
  std::uint64_t watched = 0;  ///< batches that count
  corun_learning_errors of{}; ///< of their predicted times
};

/// Outcome of a run of plan_service.
struct service_outcome {
  std::vector<app_outcome> apps{};
  std::vector<model_outcome> models{}; ///< by model of the table
  std::vector<period_outcome> periods{};
  std::vector<learned_interference> learned{}; ///< by model, at the end; empty: interference stayed
  std::uint64_t batches = 0;
  std::uint64_t switches = 0;
  std::vector<time_point> switched_at{}; ///< one entry for each switch
  time_point end{};                      ///< end of the last batch
  std::uint64_t stalled = 0;             ///< batches that stalled
  std::vector<batch_stall> stalls{};     ///< the first of them
  std::uint64_t failed_plans =
      0; ///< could not be made, or their partitions; the former plan stayed
  std::exception_ptr plan_failure{}; ///< why, of the first of them

  [[nodiscard]] app_outcome all() const {
    app_outcome sum;
    for (const app_outcome& a : apps) {
      sum.arrived += a.arrived;
      sum.in_time += a.in_time;
      sum.late += a.late;
      sum.dropped += a.dropped;
      sum.latency.merge(a.latency);
    }
    return sum;
  }
};

} // namespace gsched
