// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/serving/active_plan.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/detail/app_requests.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/plan_service_options.hpp>
#include <gsched/serving/service_outcome.hpp>
#include <gsched/workload/varying_poisson.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// Serves apps with plans, batch by batch: a frontend under Poisson arrivals, and a new plan each
/// period for the measured rates. Any batch_runner runs the batches: simulated_batches in virtual
/// time, gsched::cuda::partition_batches on GPUs. `expected` is the interference that the frontend
/// assumes. Requests arrive at their own times: the latency of a request that is seen late counts
/// from its arrival.
///
/// Source   Choi et al., USENIX ATC 2022, sections 5 and 6.
/// Order    events at one time: ends of batches, switches, period ends, arrivals, due batches; then
///          in order of creation. In virtual time equal arguments give equal outcomes.
/// Units    times count from the moment when the first plan's partitions exist.
/// Errors   the constructor: those of check(app), of frontend and of replanning; bad_option for a
///          period that is not above 0. run: those of planner, models and runner.
/// Cost     O(log n) an event for n partitions and apps; some two events a batch and one a request.
/// Threads  one owner, except for what the runner does in prepare. Reference arguments outlive it.
template <batch_runner Runner>
class plan_service {
public:
  plan_service(const latency_table& table, std::vector<duration> slos,
               const std::vector<gpu_shape>& shapes, std::vector<offered_app> apps,
               const plan_service_options& o, const planner_function& planner,
               const interference_function& expected, Runner& runner)
      : slos_(slos), options_(o), expected_(expected), apps_(std::move(apps)),
        offered_(offered_demands(apps_, slos_)), requests_(graphs_of(apps_)),
        serve_(table, std::move(slos), shapes, o.frontend), plan_(planner, o.replanning),
        runner_(runner), is_blocked_(shapes.size(), false) {
    if (o.period <= duration::zero())
      throw error(errc::bad_option,
                  "period of " + std::to_string(o.period.count()) + " ns, expected more than 0");
    const time_point end{o.length};
    for (const offered_app& a : apps_) arrivals_.emplace_back(a.actual, end, a.seed);
    out_.models.resize(table.size());
    came_before_.resize(table.size());
  }

  [[nodiscard]] service_outcome run() {
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
        constexpr std::uint64_t progress_interval = 4096; // events
        if (options_.on_progress && ++handled_ % progress_interval == 0)
          options_.on_progress(e.at.time_since_epoch());
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
    for (const offered_app& a : apps) graphs.push_back(a.definition);
    return graphs;
  }

  enum class kind : std::uint8_t { look, arrival, due };
  struct event {
    time_point at;
    kind what;
    std::uint64_t serial;
    std::uint32_t which;                            ///< partition or app
    bool operator<(const event& o) const noexcept { // a max-heap: the earliest event is the top
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
      if (due_[e.which] != e.at) break; // outdated: an earlier event replaced it
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

  /// Returns the function that submits an app's model requests to the frontend.
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
    for (const std::uint64_t id : serve_.dropped()) requests_.on_drop(id, now_);
    serve_.forget_dropped();
  }

  // Batches -----------------------------------------------------------------------------------

  void begin_batch(std::uint32_t partition) {
    const std::uint32_t gpu = serve_.partitions()[partition].gpu;
    if (!runner_.is_available(partition)) {
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
    of.excess.record(std::max(duration::zero(), now_ - since - expected));
    for (const waiting_request& r : ended_batch_)
      of.latency.record(now_ - (r.deadline - slos_[model]));
    begin_batch(partition);
    if (is_room || is_blocked_[gpu]) {
      is_blocked_[gpu] = false;
      for (std::uint32_t i = 0; i < serve_.partitions().size(); ++i)
        if (serve_.partitions()[i].gpu == gpu) begin_batch(i);
    }
    for (const waiting_request& r : ended_batch_) requests_.on_answer(r.id, now_, ask_model(now_));
  }

  // Plans -------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<model_demand> measured() const {
    std::vector<model_demand> all = offered_;
    for (model_demand& d : all) d.rate = serve_.rate(d.model, now_);
    return all;
  }

  void plan_for(std::vector<model_demand> rates) {
    is_preparing_ = true;
    runner_.prepare([this, d = std::move(rates)] { return plan_.decide(d); });
  }

  void look_at_rates() {
    close_period();
    open_period();
    // If planning takes longer than a period, this period has no new plan.
    if (options_.replans && !is_preparing_) plan_for(measured());
  }

  void open_period() {
    period_outcome& p = out_.periods.emplace_back();
    p.begin = now_;
    for (std::size_t m = 0; m < slos_.size(); ++m) p.measured.push_back(serve_.rate(m, now_));
    p.factor = plan_.factor();
    p.sms = plan_.sms();
    if (now_ + options_.period < time_point{options_.length})
      put(now_ + options_.period, kind::look);
  }

  void close_period() {
    period_outcome& p = out_.periods.back();
    for (std::size_t m = 0; m < slos_.size(); ++m) {
      const std::uint64_t so_far = serve_.counts(m).arrived;
      p.arrived.push_back(so_far - std::exchange(came_before_[m], so_far));
    }
    p.apps = requests_.take_period();
    for (const app_period& a : p.apps) {
      p.ended += a.ended;
      p.violated += a.violated;
    }
  }

  /// Activates the chosen plan, whose partitions exist now.
  void follow_plan() {
    period_outcome& p = out_.periods.back();
    p.no_plan = plan_.is_none_better();
    p.switched = plan_.advance();
    if (p.switched) change_plan();
    p.factor = plan_.factor();
    p.sms = plan_.sms();
  }

  void change_plan() {
    const bool is_first = now_ == time_point{};
    const duration cost = is_first ? duration{} : options_.switch_cost;
    if (expected_)
      serve_.switch_to(plan_.plan(), now_, cost, expected_);
    else
      serve_.switch_to(plan_.plan(), now_, cost);
    runner_.activate(serve_.partitions());
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
  std::vector<model_demand> offered_; ///< expected at the start
  detail::app_requests requests_;
  frontend serve_;
  active_plan plan_;
  Runner& runner_;
  duration begin_{};                      ///< runner's time at the start
  std::vector<varying_poisson> arrivals_; ///< by app
  std::priority_queue<event> events_;
  std::uint64_t serial_ = 0;
  time_point now_{};
  std::uint32_t running_ = 0; ///< batches
  bool is_preparing_ = false;
  std::vector<bool> is_blocked_; ///< by GPU: a partition waits for another plan's batch
  std::vector<time_point> due_;  ///< by partition: time of the next due event
  std::vector<std::pair<time_point, duration>>
      begun_; ///< by partition: start and planned latency of its batch
  std::vector<waiting_request> ended_batch_;
  std::vector<std::uint64_t> came_before_;
  service_outcome out_;
};

} // namespace gsched
