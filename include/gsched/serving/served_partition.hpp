// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/detail/batch_choice.hpp>
#include <gsched/serving/detail/request_queue.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// When a batch starts on an idle partition.
enum class batch_start : std::uint8_t {
  at_once,  ///< a request waits; batches grow while the one before runs
  when_due, ///< it is full, a cycle has passed, or it would otherwise be late: fewer, larger batches
};

/// A model on a partition, with its queue.
struct served_portion {
  std::size_t model = 0;
  std::uint32_t desired = 0;     ///< the plan's batch size
  double slowdown = 1;           ///< predicted beside the other partitions, also those on its SMs
  std::vector<duration> times{}; ///< expected latencies of batches of 1, 2, ..., with corrections
  time_point next_cycle{};       ///< one cycle after the start of its last batch
  detail::request_queue waiting{};

  /// The expected latency of the batch that waits.
  [[nodiscard]] duration time() const noexcept {
    return times[std::min<std::size_t>(waiting.size(), desired) - 1];
  }
  /// The latest start at which the oldest request meets its deadline. The queue is not empty.
  [[nodiscard]] time_point latest_start() const noexcept { return waiting[0].deadline - time(); }
  [[nodiscard]] bool is_full() const noexcept { return waiting.size() >= desired; }
};

/// A partition in service: its models share it in time, and it runs one batch at a time.
struct served_partition {
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  std::uint32_t gpu = 0;
  sm_count sms{};
  std::uint32_t region = 0; ///< as gpulet has it
  bool planned = false;     ///< in the active plan; else unused, or it ends with the running batch
  time_point ready{};       ///< when its context exists
  duration cycle{};
  duration longest{}; ///< latency of a batch after which requests that arrive in it are in time
  std::vector<served_portion> portions{};
  std::vector<waiting_request> running{}; ///< empty: idle
  std::size_t running_model = 0;

  [[nodiscard]] bool is_idle() const noexcept { return running.empty(); }
  /// The expected latency of a batch of one of its models, with corrections.
  [[nodiscard]] duration expected(std::size_t model, std::size_t batch) const noexcept {
    for (const served_portion& p : portions)
      if (p.model == model) return p.times[std::min(batch, p.times.size()) - 1];
    return {};
  }

  /// The time from `now` on at which a batch starts, if no more requests arrive.
  [[nodiscard]] time_point due(batch_start start, time_point now) const noexcept {
    time_point first = no_deadline;
    for (const served_portion& p : portions)
      if (!p.waiting.empty()) {
        const bool ready_now = start == batch_start::at_once || p.is_full();
        first = std::min(first, ready_now ? now : std::min(p.next_cycle, p.latest_start()));
      }
    return first == no_deadline ? first : std::max({first, ready, now});
  }

  /// The portion whose batch starts now, or none. Of the portions that are due it is the one with
  /// the earliest latest start. But a portion that is not due goes first if it would be late after
  /// that batch.
  [[nodiscard]] std::size_t next_portion(batch_start start, time_point now) const noexcept {
    std::size_t due = none, nearest = none;
    time_point due_by = no_deadline, nearest_by = no_deadline;
    for (std::size_t i = 0; i < portions.size(); ++i) {
      const served_portion& p = portions[i];
      if (p.waiting.empty()) continue;
      const time_point by = p.latest_start();
      if (nearest == none || by < nearest_by) {
        nearest = i;
        nearest_by = by;
      }
      const bool is_due =
          start == batch_start::at_once || p.is_full() || p.next_cycle <= now || by <= now;
      if (is_due && (due == none || by < due_by)) {
        due = i;
        due_by = by;
      }
    }
    if (due == none || due == nearest) return due;
    return now + portions[due].time() > nearest_by ? nearest : due;
  }

  /// The time by which a batch of a portion that grows must end, so that no other portion is late.
  [[nodiscard]] time_point latest_end(std::size_t portion, time_point now) const noexcept {
    time_point by = now + longest;
    for (std::size_t i = 0; i < portions.size(); ++i)
      if (i != portion && !portions[i].waiting.empty())
        by = std::min(by, portions[i].latest_start());
    return by;
  }
};

/// Sets the expected latencies of a partition's batches: those of the table, times the slow-downs
/// beside other partitions, times the corrections by model.
inline void set_times(served_partition& p, const latency_table& t, std::span<const duration> slos,
                      std::span<const double> corrections) {
  p.longest = duration::max();
  for (served_portion& s : p.portions) {
    s.times.clear();
    for (std::uint32_t b = 1; b <= t.batches(s.model).back(); ++b)
      s.times.push_back(planned_latency(t, s.model, b, p.sms, s.slowdown * corrections[s.model]));
    p.longest = std::min(p.longest, slos[s.model] - s.times[s.desired - 1]);
  }
}

/// Sets a partition's portions to those of gpulet `which` of its GPU. The queues must be empty. A
/// running batch continues, and a model that was on the partition before keeps its turn.
template <interference_model Interference>
void set_portions(served_partition& p, std::span<const gpulet> here, std::size_t which,
                  const latency_table& t, std::span<const duration> slos,
                  std::span<const double> corrections, time_point now, const Interference& beside) {
  const gpulet& g = here[which];
  const std::vector<served_portion> before = std::exchange(p.portions, {});
  p.gpu = g.gpu;
  p.sms = g.sms;
  p.region = g.region;
  p.planned = true;
  p.cycle = g.cycle;
  for (const portion& from : g.portions) {
    served_portion& s = p.portions.emplace_back();
    s.model = from.model;
    s.desired = from.batch;
    s.next_cycle = now;
    for (const served_portion& old : before)
      if (old.model == from.model) s.next_cycle = std::min(old.next_cycle, now + g.cycle);
    s.slowdown = beside(here, which, from.model);
  }
  set_times(p, t, slos, corrections);
}

} // namespace gsched
