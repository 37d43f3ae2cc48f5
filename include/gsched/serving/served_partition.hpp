// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
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

/// When a batch begins on an idle partition.
enum class batch_start : std::uint8_t {
  when_due, ///< it is full, a cycle has passed, or it would be late
  at_once,  ///< somebody waits
};

/// A model's place on a partition: those that wait for it there.
struct served_portion {
  std::size_t model = 0;
  std::uint32_t desired = 0;     ///< the plan's batch
  std::vector<duration> times{}; ///< of batches of 1, 2, ..., beside what the plan puts beside it
  time_point turn{};             ///< when a cycle has passed since its last batch began
  request_queue waiting{};

  /// Of the batch that is there now.
  [[nodiscard]] duration time() const noexcept {
    return times[std::min<std::size_t>(waiting.size(), desired) - 1];
  }
  /// By when that batch has to begin; somebody waits.
  [[nodiscard]] time_point latest_start() const noexcept { return waiting[0].deadline - time(); }
  [[nodiscard]] bool is_full() const noexcept { return waiting.size() >= desired; }
};

/// A partition that serves: its models take turns, and one batch runs at a time.
struct served_partition {
  static constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();

  std::uint32_t gpu = 0;
  sm_count sms{};
  bool planned = false; ///< else it is none, or ends with the batch that runs
  time_point ready{};   ///< when its context is there
  duration cycle{};
  duration longest{}; ///< batch after which those that come meanwhile can still be in time
  std::vector<served_portion> portions{};
  std::vector<waiting_request> running{}; ///< empty: it is idle
  std::size_t running_model = 0;

  [[nodiscard]] bool is_idle() const noexcept { return running.empty(); }
  /// How long a batch of a model that it serves takes, as planned.
  [[nodiscard]] duration expected(std::size_t model, std::size_t batch) const noexcept {
    for (const served_portion& p : portions)
      if (p.model == model) return p.times[std::min(batch, p.times.size()) - 1];
    return {};
  }

  /// From now on, when a batch begins, if nobody else comes.
  [[nodiscard]] time_point due(batch_start start, time_point now) const noexcept {
    time_point first = no_deadline;
    for (const served_portion& p : portions)
      if (!p.waiting.empty()) {
        const bool ready_now = start == batch_start::at_once || p.is_full();
        first = std::min(first, ready_now ? now : std::min(p.turn, p.latest_start()));
      }
    return first == no_deadline ? first : std::max({first, ready, now});
  }

  /// Whose batch begins now, or nobody: of those that are due, who is nearest to being late; or who
  /// is not due yet, but would be late after that batch.
  [[nodiscard]] std::size_t whose_turn(batch_start start, time_point now) const noexcept {
    std::size_t due = nobody, nearest = nobody;
    time_point due_by = no_deadline, nearest_by = no_deadline;
    for (std::size_t i = 0; i < portions.size(); ++i) {
      const served_portion& p = portions[i];
      if (p.waiting.empty()) continue;
      const time_point by = p.latest_start();
      if (nearest == nobody || by < nearest_by) {
        nearest = i;
        nearest_by = by;
      }
      const bool is_due =
          start == batch_start::at_once || p.is_full() || p.turn <= now || by <= now;
      if (is_due && (due == nobody || by < due_by)) {
        due = i;
        due_by = by;
      }
    }
    if (due == nobody || due == nearest) return due;
    return now + portions[due].time() > nearest_by ? nearest : due;
  }

  /// By when a batch of a portion that grows has to have ended, for nobody else to be late.
  [[nodiscard]] time_point free_by(std::size_t portion, time_point now) const noexcept {
    time_point by = now + longest;
    for (std::size_t i = 0; i < portions.size(); ++i)
      if (i != portion && !portions[i].waiting.empty())
        by = std::min(by, portions[i].latest_start());
    return by;
  }
};

/// Makes a partition serve what a plan says of `which` of those on its GPU; nobody waits there. A
/// batch that runs goes on, and a model that was there before keeps its turn.
template <interference_model Interference>
void take_up(served_partition& p, std::span<const gpulet> here, std::size_t which,
             const latency_table& t, std::span<const duration> slos, time_point now,
             const Interference& beside) {
  const gpulet& g = here[which];
  const std::vector<served_portion> before = std::exchange(p.portions, {});
  p.gpu = g.gpu;
  p.sms = g.sms;
  p.planned = true;
  p.cycle = g.cycle;
  p.longest = duration::max();
  for (const portion& from : g.portions) {
    served_portion& s = p.portions.emplace_back();
    s.model = from.model;
    s.desired = from.batch;
    s.turn = now;
    for (const served_portion& old : before)
      if (old.model == from.model) s.turn = std::min(old.turn, now + g.cycle);
    const double factor = beside(here, which, from.model);
    for (std::uint32_t b = 1; b <= t.batches(from.model).back(); ++b)
      s.times.push_back(planned_latency(t, from.model, b, g.sms, factor));
    p.longest = std::min(p.longest, slos[from.model] - s.times[from.batch - 1]);
  }
}

} // namespace gsched
