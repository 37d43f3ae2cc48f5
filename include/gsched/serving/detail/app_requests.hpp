// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/serving/service_outcome.hpp>
#include <gsched/workload/app.hpp>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// The app requests in flight: starts their stages and counts their outcomes. If a request of an
/// app is dropped, no further stage starts, and the app request ends with its last outstanding
/// answer.
///
/// Cost     O(stages^2) for the end of a stage, else O(1). It allocates only if more app requests
///          are in flight than ever before.
/// Threads  one owner.
class app_requests {
public:
  explicit app_requests(std::vector<app> apps)
      : apps_(std::move(apps)), outcomes_(apps_.size()), period_(apps_.size()) {
    for (const app& a : apps_) check(a);
  }

  /// Starts a request of an app. Calls ask(model, id) for each model request of its first stages.
  template <class Ask>
  void begin(std::size_t which, time_point now, Ask&& ask) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(under_way_.size()));
      under_way_.emplace_back();
    }
    const std::uint32_t number = free_.back();
    free_.pop_back();
    state& r = under_way_[number];
    r = {which, now, {}, 0, 1, false};
    for (std::size_t s = 0; s < apps_[which].stages.size(); ++s)
      r.left[s] = apps_[which].stages[s].requests;
    ++outcomes_[which].arrived;
    ++period_[which].arrived;
    begin_stages(number, now, ask);
  }

  /// Records the answer to a model request. Calls ask(model, id) for each request of the stages
  /// that start.
  template <class Ask>
  void on_answer(std::uint64_t id, time_point now, Ask&& ask) {
    const std::uint32_t number = number_of(id);
    state& r = under_way_[number];
    assert(r.left[id & stage_bits] > 0);
    if (--r.left[id & stage_bits] == 0 && !r.failed)
      begin_stages(number, now, ask); // releases r at its end
    else
      release(number, now);
  }
  /// Records that a model request was dropped.
  void on_drop(std::uint64_t id, time_point now) {
    under_way_[number_of(id)].failed = true;
    release(number_of(id), now);
  }

  [[nodiscard]] std::span<const app> apps() const noexcept { return apps_; }
  [[nodiscard]] std::vector<app_outcome>& outcomes() noexcept { return outcomes_; }
  /// By app: the counts since the last call.
  [[nodiscard]] std::vector<app_period> take_period() {
    return std::exchange(period_, std::vector<app_period>(apps_.size()));
  }

private:
  static constexpr std::uint64_t stage_bits = app::most_stages - 1;
  struct state {
    std::size_t app = 0;
    time_point came{};
    std::array<std::uint32_t, app::most_stages> left{}; ///< answers not yet received, by stage
    std::uint32_t begun = 0;                            ///< bit i: stage i has started
    std::uint32_t outstanding = 0; ///< model requests, plus 1 while stages start
    bool failed = false;           ///< a model request was dropped
  };

  [[nodiscard]] static std::uint32_t number_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id / app::most_stages);
  }

  [[nodiscard]] bool may_begin(const state& r, std::size_t stage) const noexcept {
    if ((r.begun >> stage & 1u) != 0 || r.failed) return false;
    for (const std::size_t before : apps_[r.app].stages[stage].after)
      if (r.left[before] > 0) return false;
    return true;
  }

  template <class Ask>
  void begin_stages(std::uint32_t number, time_point now, Ask& ask) {
    const app& a = apps_[under_way_[number].app];
    for (std::size_t s = 0; s < a.stages.size(); ++s) {
      if (!may_begin(under_way_[number], s)) continue;
      under_way_[number].begun |= 1u << s;
      for (std::uint32_t i = 0; i < a.stages[s].requests; ++i) {
        ++under_way_[number].outstanding;
        ask(a.stages[s].model, std::uint64_t{number} * app::most_stages + s);
      }
    }
    release(number, now);
  }

  void release(std::uint32_t number, time_point now) {
    state& r = under_way_[number];
    if (--r.outstanding > 0) return;
    app_outcome& o = outcomes_[r.app];
    const duration took = now - r.came;
    const bool in_time = took <= apps_[r.app].slo;
    ++(r.failed ? o.dropped : in_time ? o.in_time : o.late);
    if (!r.failed) o.latency.record(took);
    ++period_[r.app].ended;
    period_[r.app].violated += r.failed || !in_time ? 1 : 0;
    free_.push_back(number);
  }

  std::vector<app> apps_;
  std::vector<app_outcome> outcomes_;
  std::vector<state> under_way_;
  std::vector<std::uint32_t> free_;
  std::vector<app_period> period_; ///< by app
};

} // namespace gsched::detail
