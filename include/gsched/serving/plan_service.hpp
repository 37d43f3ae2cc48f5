// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/detail/app_requests.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/plan_in_force.hpp>
#include <gsched/serving/plan_outcome.hpp>
#include <gsched/serving/plan_service_options.hpp>
#include <gsched/workload/rate_curve.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched::sim {

/// Serves apps by plans, batch by batch: a frontend under Poisson arrivals, and a new plan each
/// period for the rates that were measured. What runs the batches is any batch_runner: in virtual
/// time simulated_batches, on GPUs those of gsched::cuda. `expected` is what the frontend thinks
/// that neighbours do. Requests come by their own clock: one that is seen late has waited since it
/// came.
///
/// Source   Choi et al., USENIX ATC 2022, sections 5 and 6.
/// Order    of what is at one time: ends of batches, switches, looks at rates, arrivals, and what
///          is due; then as it came about. In virtual time equal arguments give equal outcomes.
/// Units    times from when the first plan's partitions are there.
/// Errors   the constructor: those of check(app), bad_option for a period of 0 or less, and those
///          of the frontend and of replanning. run: those of planner, models and runner.
/// Cost     O(log n) an event, of n partitions and apps; some two events a batch and one a request.
/// Threads  one owner, but for what the runner has of prepare; what is passed by reference outlives
///          it.
template <batch_runner Runner>
class plan_service {
public:
  plan_service(const latency_table& table, std::vector<duration> slos,
               const std::vector<gpu_shape>& shapes, std::vector<offered_app> apps,
               const plan_service_options& o, const planner_function& planner,
               const interference_function& expected, Runner& runner)
      : slos_(slos), options_(o), expected_(expected), apps_(std::move(apps)),
        offered_(offered_demands(apps_, slos_)), requests_(graphs_of(apps_)),
        serve_(table, std::move(slos), shapes, o.frontend), plans_(planner, o.replanning),
        runner_(runner), is_blocked_(shapes.size(), false) {
    if (o.period <= duration::zero())
      throw error(errc::bad_option,
                  "period of " + std::to_string(o.period.count()) + " ns, expected more than 0");
    const time_point end{o.length};
    for (const offered_app& a : apps_) arrivals_.emplace_back(a.comes, end, a.seed);
    out_.models.resize(table.size());
    came_before_.resize(table.size());
  }

  [[nodiscard]] plan_outcome run() {
    begin();
    for (;;) {
      now_ = runner_.now() - begin_;
      if (const auto partition = runner_.try_end()) {
        end_batch(*partition);
      } else if (is_preparing_ && runner_.try_prepared()) {
        is_preparing_ = false;
        follow_plan();
      } else if (!events_.empty() && events_.top().at <= now_) {
        const event e = events_.top();
        events_.pop();
        constexpr std::uint64_t now_and_then = 4096; // events
        if (options_.told && ++handled_ % now_and_then == 0) options_.told(e.at.time_since_epoch());
        handle(e);
      } else if (events_.empty() && running_ == 0 && !is_preparing_) {
        break;
      } else {
        runner_.wait(events_.empty() ? no_deadline : saturating_add(events_.top().at, begin_));
      }
    }
    close_period();
    for (std::size_t m = 0; m < out_.models.size(); ++m) out_.models[m].counts = serve_.counts(m);
    out_.apps = std::move(requests_.outcomes());
    return std::move(out_);
  }

private:
  [[nodiscard]] static std::vector<app> graphs_of(const std::vector<offered_app>& apps) {
    std::vector<app> graphs;
    graphs.reserve(apps.size());
    for (const offered_app& a : apps) graphs.push_back(a.what);
    return graphs;
  }

  enum class kind : std::uint8_t { look, arrival, due };
  struct event {
    time_point at;
    kind what;
    std::uint64_t serial;
    std::uint32_t which;                            ///< partition or app
    bool operator<(const event& o) const noexcept { // the first is the top of the queue
      return std::tie(o.at, o.what, o.serial) < std::tie(at, what, serial);
    }
  };

  void put(time_point at, kind what, std::size_t which = 0) {
    events_.push({at, what, serial_++, static_cast<std::uint32_t>(which)});
  }
  void handle(const event& e) {
    switch (e.what) {
    case kind::look: look_at_rates(); break;
    case kind::arrival: arrive(e.which, e.at); break;
    case kind::due:
      if (due_[e.which] != e.at) break; // it is earlier by now, and has been
      due_[e.which] = no_deadline;
      begin_batch(e.which);
      break;
    }
  }

  void begin() {
    plan_for(offered_);
    while (!runner_.try_prepared()) runner_.wait(no_deadline);
    is_preparing_ = false;
    begin_ = runner_.now() - time_point{};
    open_period();
    follow_plan();
    for (std::size_t a = 0; a < apps_.size(); ++a) expect_arrival(a);
  }

  void expect_arrival(std::size_t app) {
    if (const auto at = arrivals_[app].next()) put(*at, kind::arrival, app);
  }

  /// How an app's request asks a model.
  [[nodiscard]] auto ask_model(time_point since) {
    return [this, since](std::size_t model, std::uint64_t id) {
      if (const auto to = serve_.arrive(model, id, now_, since)) begin_batch(*to);
      hear_of_dropped();
    };
  }

  void arrive(std::size_t app, time_point came) {
    expect_arrival(app);
    requests_.begin(app, came, ask_model(came));
  }

  void hear_of_dropped() {
    for (const std::uint64_t id : serve_.dropped()) requests_.hear_drop(id, now_);
    serve_.forget_dropped();
  }

  // Batches.

  void begin_batch(std::uint32_t partition) {
    const std::uint32_t gpu = serve_.partitions()[partition].gpu;
    if (!runner_.has_room(partition)) {
      is_blocked_[gpu] = true;
      return;
    }
    const auto batch = serve_.try_start(partition, now_);
    if (batch) {
      const served_partition& p = serve_.partitions()[partition];
      ++out_.batches;
      ++running_;
      begun_[partition] = {now_, p.expected(batch->model, batch->requests.size())};
      runner_.begin({p.gpu, partition, p.sms, batch->model,
                     static_cast<std::uint32_t>(batch->requests.size())});
    } else if (const time_point at = serve_.due(partition, now_);
               at != no_deadline && at < due_[partition]) {
      put(due_[partition] = at, kind::due, partition);
    }
    if (!serve_.dropped().empty()) hear_of_dropped();
  }

  void end_batch(std::uint32_t partition) {
    const served_partition& p = serve_.partitions()[partition];
    const std::uint32_t gpu = p.gpu;
    const std::size_t model = p.running_model;
    ended_batch_.assign(p.running.begin(), p.running.end());
    const bool is_room = serve_.end(partition, now_);
    --running_;
    out_.end = now_;
    model_outcome& of = out_.models[model];
    const auto& [since, expected] = begun_[partition];
    ++of.batches;
    of.expected += expected;
    of.took += now_ - since;
    of.over.record(std::max(duration::zero(), now_ - since - expected));
    for (const waiting_request& r : ended_batch_)
      of.latency.record(now_ - (r.deadline - slos_[model]));
    begin_batch(partition);
    if (is_room || is_blocked_[gpu]) {
      is_blocked_[gpu] = false;
      for (std::uint32_t i = 0; i < serve_.partitions().size(); ++i)
        if (serve_.partitions()[i].gpu == gpu) begin_batch(i);
    }
    for (const waiting_request& r : ended_batch_)
      requests_.hear_answer(r.id, now_, ask_model(now_));
  }

  // Plans.

  [[nodiscard]] std::vector<demand> measured() const {
    std::vector<demand> all = offered_;
    for (demand& d : all) d.rate = serve_.rate(d.model, now_);
    return all;
  }

  void plan_for(std::vector<demand> rates) {
    is_preparing_ = true;
    runner_.prepare([this, d = std::move(rates)] { return plans_.decide(d); });
  }

  void look_at_rates() {
    close_period();
    open_period();
    // Where a plan takes longer than a period, the next look is passed over.
    if (options_.replans && !is_preparing_) plan_for(measured());
  }

  void open_period() {
    period_outcome& p = out_.periods.emplace_back();
    p.begin = now_;
    for (std::size_t m = 0; m < slos_.size(); ++m) p.measured.push_back(serve_.rate(m, now_));
    p.factor = plans_.factor();
    p.sms = plans_.sms();
    if (now_ + options_.period < time_point{options_.length})
      put(now_ + options_.period, kind::look);
  }

  void close_period() {
    period_outcome& p = out_.periods.back();
    for (std::size_t m = 0; m < slos_.size(); ++m) {
      const std::uint64_t so_far = serve_.counts(m).arrived;
      p.came.push_back(so_far - std::exchange(came_before_[m], so_far));
    }
    p.apps = requests_.take_period();
    for (const app_period& a : p.apps) {
      p.ended += a.ended;
      p.violated += a.violated;
    }
  }

  /// What was decided is ready.
  void follow_plan() {
    period_outcome& p = out_.periods.back();
    p.no_plan = plans_.is_none_better();
    p.switched = plans_.advance();
    if (p.switched) change_plan();
    p.factor = plans_.factor();
    p.sms = plans_.sms();
  }

  void change_plan() {
    const bool is_first = now_ == time_point{};
    const duration cost = is_first ? duration{} : options_.switch_cost;
    if (expected_)
      serve_.switch_to(plans_.plan(), now_, cost, expected_);
    else
      serve_.switch_to(plans_.plan(), now_, cost);
    runner_.take_up(serve_.partitions());
    out_.switches += is_first ? 0 : 1;
    if (!is_first) out_.switched_at.push_back(now_);
    due_.resize(serve_.partitions().size(), no_deadline);
    begun_.resize(serve_.partitions().size());
    hear_of_dropped();
    for (std::uint32_t i = 0; i < serve_.partitions().size(); ++i) begin_batch(i);
  }

  std::vector<duration> slos_;
  std::uint64_t handled_ = 0; ///< events
  plan_service_options options_;
  const interference_function& expected_;
  std::vector<offered_app> apps_;
  std::vector<demand> offered_; ///< at the beginning
  app_requests requests_;
  frontend serve_;
  plan_in_force plans_;
  Runner& runner_;
  duration begin_{};                      ///< of the runner's time
  std::vector<varying_poisson> arrivals_; ///< by app
  std::priority_queue<event> events_;
  std::uint64_t serial_ = 0;
  time_point now_{};
  std::uint32_t running_ = 0; ///< batches
  bool is_preparing_ = false;
  std::vector<bool> is_blocked_; ///< by GPU: a partition waits for another plan's batch
  std::vector<time_point> due_;  ///< by partition: the earliest event
  std::vector<std::pair<time_point, duration>>
      begun_; ///< by partition: its batch, and for how long
  std::vector<waiting_request> ended_batch_;
  std::vector<std::uint64_t> came_before_;
  plan_outcome out_;
};

} // namespace gsched::sim
