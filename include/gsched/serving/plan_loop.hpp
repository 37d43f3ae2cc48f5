// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/idle_gpus.hpp>
#include <gsched/partition/idle_groups.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/serving/active_plan.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/detail/usual_time.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/learning/corun_learning.hpp>
#include <gsched/serving/learning/interference_learning.hpp>
#include <gsched/serving/plan_service_options.hpp>
#include <gsched/serving/service_outcome.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// The requests of a plan_loop: where they come from, and where their answers go.
///  - next_arrival() is the time of a request that is known to come, or no_deadline; arrive() hands
///    it to plan_loop::arrive once the time has come. Other requests may be handed over at any time
///    between two steps.
///  - on_start(run, batch) is told of a batch before it starts, and may add to the run what the
///    runner needs of its requests; `batch` is in place until the batch ends.
///  - each request ends by one call of on_answer or on_drop; on_answer may hand over more requests.
///  - on_plan_failed(why) is optional. It is called when a later plan, or its partitions, could not be
///    made; the current plan stays. Without it step throws that exception.
///  - on_period(p) is given each period at its end, on_switch(t) the time of each switch to another
///    plan.
template <class R>
concept plan_requests = requires(R r, const R c, batch_run& run, time_point t, std::uint64_t id,
                                 std::span<const waiting_request> batch, period_outcome p) {
  { c.next_arrival() } -> std::same_as<time_point>;
  r.arrive();
  r.on_start(run, batch);
  r.on_answer(id, t);
  r.on_drop(id, t);
  r.on_period(std::move(p));
  r.on_switch(t);
};

/// Serves requests with plans, batch by batch, step by step: a frontend, and a new plan each period
/// for the measured rates and batch times. Any batch_runner runs the batches. `expected` is the
/// interference that the frontend assumes.
///
/// Source   Choi et al., USENIX ATC 2022, section 5.
/// Order    events at one time: ends of batches, switches, period ends, arrivals, due batches; then
///          in order of creation. In virtual time equal arguments give equal outcomes.
/// Units    times count from the moment when the first plan's partitions exist.
/// Errors   the constructor: those of frontend and of replanning; bad_option for a period that is
///          not above 0. begin, step: those of planner, models and runner.
/// Cost     O(log n) an event for n partitions; some two events a batch.
/// Threads  one owner, except for what the runner does in prepare. Reference arguments outlive it.
template <batch_runner Runner, class Requests>
class plan_loop {
public:
  /// `offered`: the demands that the first plan is for, of the models that will be requested.
  plan_loop(const latency_table& table, std::vector<duration> slos,
            const std::vector<gpu_shape>& shapes, std::vector<model_demand> offered,
            const plan_service_options& o, const planner_function& planner,
            const interference_function& expected, Runner& runner, Requests& requests)
      : slos_(slos), options_(o), shapes_(shapes), expected_(&expected),
        offered_(std::move(offered)), serve_(table, std::move(slos), shapes, o.frontend),
        plan_(table, planner, o.replanning, o.fills ? filling(shapes, expected) : plan_finish{}),
        gpus_(shapes.size()),
        corrections_(table.size(), o.corrections, room_of(table, slos_, shapes)),
        margins_(table.size(), o.margins), runner_(runner), requests_(requests),
        is_blocked_(shapes.size(), false) {
    if (o.period <= duration::zero())
      throw error(errc::bad_option,
                  "period of " + std::to_string(o.period.count()) + " ns, expected more than 0");
    if (o.learning) {
      if (!o.learning->rules || !expected)
        throw error(errc::bad_option, "learning: without rules or expected interference, expected "
                                      "both");
      in_use_.resize(table.size());
      learning_.emplace(table, options_.learning->law, shapes.size(), o.learning->how);
    }
    models_.resize(table.size());
    before_.resize(table.size());
    time_before_.resize(table.size());
    usually_.resize(table.size());
  }

  /// Waits until the partitions of the first plan exist, calls before_start, and starts the time.
  void begin() {
    static_assert(
        plan_requests<Requests>); // here, as a class that has a plan_loop is complete here
    plan_for(offered_);
    while (!runner_.try_prepared()) runner_.wait(no_deadline);
    is_preparing_ = false;
    if (options_.before_start) options_.before_start();
    begin_ = runner_.now() - time_point{};
    open_period();
    follow_plan();
  }

  /// Handles the next event that is due. False: none is.
  bool step() {
    read_clock();
    if (const auto partition = runner_.try_end()) {
      end_batch(*partition);
    } else if (is_preparing_ && try_prepared()) {
      is_preparing_ = false;
      prepared_at_ = now_;
      follow_plan();
    } else if (const time_point arrival = requests_.next_arrival();
               arrival <= now_ && is_before_events(arrival)) {
      requests_.arrive();
    } else if (!events_.empty() && events_.top().at <= now_) {
      const event e = events_.top();
      events_.pop();
      handle(e);
    } else {
      return false;
    }
    return true;
  }
  /// Whether no batch runs, no plan is being made, and no event or arrival will come.
  [[nodiscard]] bool is_over() const noexcept { return is_quiet() && next_event() == no_deadline; }
  /// Whether no batch runs and no plan is being made.
  [[nodiscard]] bool is_quiet() const noexcept { return running_ == 0 && !is_preparing_; }
  /// The time of the next event or arrival, or no_deadline.
  [[nodiscard]] time_point next_event() const noexcept {
    return std::min(events_.empty() ? no_deadline : events_.top().at, requests_.next_arrival());
  }
  /// Lets the runner wait for the next event, at most until `most`.
  void wait(time_point most = no_deadline) {
    const time_point until = std::min(next_event(), most);
    runner_.wait(until == no_deadline ? no_deadline : saturating_add(until, begin_));
  }

  /// Time goes on: after a wait that was not the runner's, and before requests are handed over.
  void read_clock() { now_ = runner_.now() - begin_; }
  /// Takes out a request that waits; false if none of that id does.
  bool cancel(std::size_t model, std::uint64_t id) noexcept { return serve_.cancel(model, id); }
  /// Hands a request to the frontend; its SLO counts from `since`.
  void arrive(std::size_t model, std::uint64_t id, time_point since) {
    if (const auto to = serve_.arrive(model, id, now_, since)) begin_batch(*to);
    hear_of_dropped();
  }

  /// The time of the step.
  [[nodiscard]] time_point now() const noexcept { return now_; }
  /// Time zero, as the runner tells time.
  [[nodiscard]] duration begun_at() const noexcept { return begin_; }
  /// Ends the current period. To be called once, after the last step.
  void end() {
    if (learning_) learning_->close_period();
    count_period();
    requests_.on_period(std::move(period_));
  }
  /// By model of the table.
  [[nodiscard]] std::vector<model_outcome> outcomes() const {
    std::vector<model_outcome> all = models_;
    for (std::size_t m = 0; m < all.size(); ++m) all[m].counts = serve_.counts(m);
    return all;
  }
  [[nodiscard]] std::uint64_t batches() const noexcept { return batches_; }
  [[nodiscard]] std::uint64_t switches() const noexcept { return switches_; }
  /// End of the last batch.
  [[nodiscard]] time_point last_end() const noexcept { return last_end_; }
  /// How many batches stalled, and the first of them.
  [[nodiscard]] std::uint64_t stalled() const noexcept { return stalled_; }
  [[nodiscard]] std::vector<batch_stall>& stalls() noexcept { return stalls_; }
  [[nodiscard]] const frontend& requests_in() const noexcept { return serve_; }
  [[nodiscard]] const active_plan& plan() const noexcept { return plan_; }
  /// Of a model of the table, at present.
  [[nodiscard]] learned_times learned_of(std::size_t model) const {
    return {corrections_.factors()[model], margins_.factors()[model],
            corrections_.is_too_slow(model)};
  }
  /// Why the last decision for another plan was made; none: there was none.
  [[nodiscard]] replan_reason last_reason() const noexcept { return last_reason_; }
  /// By model of the table; empty: interference stays as expected.
  [[nodiscard]] std::vector<learned_interference> learned() const {
    std::vector<learned_interference> all;
    for (std::size_t m = 0; learning_ && m < models_.size(); ++m)
      all.push_back({learning_->factors()[m], learning_->unsure()[m], learning_->watched(m),
                     learning_->errors(m)});
    return all;
  }

private:
  /// `beside` outlives the loop.
  [[nodiscard]] static plan_finish filling(std::vector<gpu_shape> shapes,
                                           const interference_function& beside) {
    return [shapes = std::move(shapes), &beside](const partition_plan& plan,
                                                 std::span<const model_demand> demands,
                                                 const latency_table& t) {
      const partition_plan spread = with_idle_gpus(plan, shapes);
      return beside ? with_idle_groups(spread, demands, t, shapes, beside)
                    : with_idle_groups(spread, demands, t, shapes);
    };
  }

  enum class kind : std::uint8_t { look, due };
  struct event {
    time_point at;
    kind what;
    std::uint64_t serial;
    std::uint32_t which;                            ///< partition
    bool operator<(const event& o) const noexcept { // a max-heap: the earliest event is the top
      return std::tie(o.at, o.what, o.serial) < std::tie(at, what, serial);
    }
  };

  struct begun_batch {
    time_point at{};
    duration planned{}; ///< latency, not corrected
    std::uint32_t beside = 0;
  };
  struct batch_time {
    duration took{}, host{};
  };
  struct ended_run {
    time_point at;
    std::uint32_t partition, gpu;
    std::size_t model;
  };

  void put(time_point at, kind what, std::size_t which = 0) {
    events_.push({at, what, serial_++, static_cast<std::uint32_t>(which)});
  }
  /// Arrivals are between the period ends and the due batches of their time.
  [[nodiscard]] bool is_before_events(time_point arrival) const noexcept {
    if (events_.empty()) return true;
    const event& e = events_.top();
    return arrival < e.at || (arrival == e.at && e.what == kind::due);
  }
  void handle(const event& e) {
    switch (e.what) {
    case kind::look: look(); break;
    case kind::due:
      if (due_[e.which] != e.at) break; // outdated: an earlier event replaced it
      due_[e.which] = no_deadline;
      begin_batch(e.which);
      break;
    }
  }

  [[nodiscard]] bool try_prepared() {
    if constexpr (requires { requests_.on_plan_failed(std::exception_ptr()); }) {
      try {
        return runner_.try_prepared();
      } catch (...) {
        is_preparing_ = false;
        plan_.give_up();
        requests_.on_plan_failed(std::current_exception());
        return false;
      }
    } else {
      return runner_.try_prepared();
    }
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
      ++batches_;
      ++running_;
      const double planned =
          static_cast<double>(p.expected(batch->model, batch->requests.size()).count()) /
          serve_.correction(batch->model);
      begun_[partition] = {now_, duration{static_cast<duration::rep>(planned)},
                           options_.stall > duration::zero() ? running_on(p.gpu) : 0};
      batch_run run{p.gpu, partition, p.sms, batch->model,
                    static_cast<std::uint32_t>(batch->requests.size())};
      run.region = p.region;
      requests_.on_start(run, batch->requests);
      runner_.begin(run);
      if (learning_) learning_->begin(run, now_);
    } else if (const time_point at = serve_.due(partition, now_);
               at != no_deadline && at < due_[partition]) {
      put(due_[partition] = at, kind::due, partition);
    }
    if (!serve_.dropped().empty()) hear_of_dropped();
  }

  /// The other batches on a GPU.
  [[nodiscard]] std::uint32_t running_on(std::uint32_t gpu) const noexcept {
    std::uint32_t n = 0;
    for (const served_partition& p : serve_.partitions()) n += p.gpu == gpu && !p.is_idle();
    return n - 1;
  }

  void end_batch(std::uint32_t partition) {
    const served_partition& p = serve_.partitions()[partition];
    const std::uint32_t gpu = p.gpu;
    const std::size_t model = p.running_model;
    ended_batch_.assign(p.running.begin(), p.running.end());
    const bool is_room = serve_.end(partition, now_);
    --running_;
    last_end_ = now_;
    const auto& [since, expected, beside] = begun_[partition];
    const duration took = now_ - since;
    const duration least = runner_.least_time_of_last(partition);
    const duration host = by_host(model, took - least);
    if (learning_ || options_.on_batch) {
      std::optional<duration> on_gpu;
      if constexpr (tracing_batch_runner<Runner>)
        if (const std::optional<batch_times> t = runner_.times_of_last(partition))
          on_gpu = t->ended - t->started;
      if (learning_) learning_->end(gpu, partition, now_, on_gpu, host);
      if (options_.on_batch) tell_of_batch(p, partition, model, least, host, on_gpu);
    }
    model_outcome& of = models_[model];
    ++of.batches;
    of.expected += expected;
    of.took += took;
    of.host += host;
    corrections_.record(model, p.sms, took, expected, host);
    if (options_.stall > duration::zero()) look_for_stall(p, partition, model);
    of.excess.record(std::max(duration::zero(), took - expected));
    for (const waiting_request& r : ended_batch_)
      of.latency.record(now_ - (r.deadline - slos_[model]));
    begin_batch(partition);
    if (is_room || is_blocked_[gpu]) {
      is_blocked_[gpu] = false;
      for (std::uint32_t i = 0; i < serve_.partitions().size(); ++i)
        if (serve_.partitions()[i].gpu == gpu) begin_batch(i);
    }
    for (const waiting_request& r : ended_batch_) requests_.on_answer(r.id, now_);
  }

  void tell_of_batch(const served_partition& p, std::uint32_t partition, std::size_t model,
                     duration least, duration host, std::optional<duration> on_gpu) const {
    ended_batch b;
    b.gpu = p.gpu;
    b.partition = partition;
    b.region = p.region;
    b.sms = p.sms;
    b.model = model;
    b.batch = static_cast<std::uint32_t>(ended_batch_.size());
    b.begun = begun_[partition].at;
    b.ended = now_;
    b.planned = begun_[partition].planned;
    b.least = least;
    b.host = host;
    b.on_gpu = on_gpu;
    options_.on_batch(b);
  }

  /// Of a batch's time, what the host may have added above what it usually adds to the model's. The
  /// usual part counts as the batch's own.
  [[nodiscard]] duration by_host(std::size_t model, duration added) noexcept {
    const duration usual = usually_[model].value();
    usually_[model].observe(added);
    return std::max(duration::zero(), added - usual);
  }

  /// Records the batch that ended if it stalled.
  void look_for_stall(const served_partition& p, std::uint32_t partition, std::size_t model) {
    constexpr std::size_t most_ends = 64;
    const begun_batch& b = begun_[partition];
    const duration expected{static_cast<duration::rep>(static_cast<double>(b.planned.count()) *
                                                       serve_.correction(model))};
    if (now_ - b.at > expected + options_.stall && ++stalled_ <= batch_stall::most) {
      batch_stall& s = stalls_.emplace_back();
      s.gpu = p.gpu;
      s.partition = partition;
      s.sms = p.sms;
      s.model = model;
      s.batch = static_cast<std::uint32_t>(ended_batch_.size());
      s.decided = b.at;
      s.expected = expected;
      s.took = now_ - b.at;
      s.beside = b.beside;
      s.planning = is_preparing_ || prepared_at_ > b.at;
      if constexpr (tracing_batch_runner<Runner>) {
        s.times = runner_.times_of_last(partition);
        if (s.times) note_times(s);
      }
    }
    if (ends_.size() < most_ends)
      ends_.push_back({now_, partition, p.gpu, model});
    else
      ends_[next_end_] = {now_, partition, p.gpu, model};
    next_end_ = (next_end_ + 1) % most_ends;
  }

  /// Moves a stall's times to the loop's time, and finds the batch that it may have waited for.
  void note_times(batch_stall& s) const {
    constexpr duration near = std::chrono::microseconds{500}; // clocks of GPU and host, and polls
    batch_times& t = *s.times;
    for (time_point* at : {&t.launching, &t.launched, &t.started, &t.ended, &t.seen}) *at -= begin_;
    if (t.started - t.launched < options_.stall / 2) return;
    duration nearest = near;
    for (const ended_run& e : ends_) {
      const duration apart = e.at > t.started ? e.at - t.started : t.started - e.at;
      if (e.gpu != s.gpu || e.partition == s.partition || apart >= nearest) continue;
      nearest = apart;
      s.behind = e.model;
    }
  }

  // Plans -------------------------------------------------------------------------------------

  /// The demands to plan for. A model that is too slow for any partition gets the least one.
  [[nodiscard]] std::vector<model_demand> measured() const {
    std::vector<model_demand> all = offered_;
    for (model_demand& d : all)
      d.rate = corrections_.is_too_slow(d.model) ? 0 : serve_.rate(d.model, now_);
    return all;
  }

  void plan_for(std::vector<model_demand> rates) {
    is_preparing_ = true;
    const auto copy = [](std::span<const double> s) {
      return std::vector<double>(s.begin(), s.end());
    };
    runner_.prepare([this, d = std::move(rates), c = copy(corrections_.planned()),
                     m = copy(margins_.factors())] {
      return plan_.decide(d, {c, m});
    });
  }

  void look() {
    count_period();
    // If planning takes longer than a period, this period has no new plan.
    const bool may_plan = options_.replans && !is_preparing_;
    const replan_reason reason = may_plan ? learn() : replan_reason::none;
    if (reason != replan_reason::none) last_reason_ = reason;
    requests_.on_period(std::move(period_));
    open_period();
    period_.reason = reason;
    if (may_plan) plan_for(measured());
  }

  /// Learns from the period that ended. Returns the reason for another plan.
  [[nodiscard]] replan_reason learn() {
    const bool rates_are_near = plan_.is_near(measured(), {});
    const std::vector<double> explained = learn_interference(!rates_are_near);
    if (corrections_.close_period(explained)) serve_.correct(corrections_.factors());
    const bool times_are_near = plan_.is_near(measured(), {corrections_.planned(), {}});
    // A plan that served for less than most of the period did not cause its violations.
    const bool is_own = plan_since_ <= period_.begin + options_.period / 10;
    const bool is_kept = times_are_near && is_own;
    bool is_raised = false;
    for (std::size_t m = 0; m < slos_.size(); ++m) {
      const auto& [ended, violated, host] = period_.models[m];
      if (corrections_.is_too_slow(m)) continue;
      if (!margins_.is_too_many(ended, violated))
        margins_.lower(m, ended, violated);
      else if (is_kept && period_.factor >= options_.replanning.headroom)
        is_raised |= margins_.raise(m, host);
    }
    return !rates_are_near      ? replan_reason::rates
           : !explained.empty() ? replan_reason::interference
           : !times_are_near    ? replan_reason::times
           : is_raised          ? replan_reason::violations
                                : replan_reason::none;
  }

  /// Puts the factors learned to use, if they change the plan's slow-downs so much that it needs
  /// another one, or if there will be another one anyway. Returns by which factor they change them,
  /// by model: the least of its partitions; or nothing, if they stay.
  [[nodiscard]] std::vector<double> learn_interference(bool will_plan) {
    if (!learning_) return {};
    learning_->close_period();
    auto rules = std::make_unique<plan_rules>(options_.learning->rules(learning_->factors()));
    std::vector<double> least(slos_.size(), 0.0);
    double rise = 0, fall = 0;
    for (const std::vector<gpulet>& here : by_gpu(plan_.plan()))
      for (std::size_t i = 0; i < here.size(); ++i)
        for (const portion& p : here[i].portions) {
          const double by = rules->expected(here, i, p.model) / (*expected_)(here, i, p.model);
          rise = std::max(rise, by - 1);
          fall = std::max(fall, 1 - by);
          double& of = least[p.model];
          of = of == 0 ? by : std::min(of, by);
        }
    if (!will_plan && rise <= options_.learning->tolerance && fall <= options_.replanning.fall)
      return {};
    for (double& of : least)
      if (of == 0) of = 1;
    expected_ = &rules->expected;
    plan_.use(rules->planner, options_.fills ? filling(shapes_, *expected_) : plan_finish{});
    serve_.expect(plan_.plan(), *expected_);
    rules_ = std::move(rules);
    in_use_.assign(learning_->factors().begin(), learning_->factors().end());
    return least;
  }

  void open_period() {
    period_ = {};
    period_outcome& p = period_;
    p.begin = now_;
    for (std::size_t m = 0; m < slos_.size(); ++m) p.measured.push_back(serve_.rate(m, now_));
    p.corrections.assign(corrections_.factors().begin(), corrections_.factors().end());
    for (std::size_t m = 0; m < slos_.size(); ++m)
      if (corrections_.is_too_slow(m)) p.too_slow.push_back(m);
    p.margins.assign(margins_.factors().begin(), margins_.factors().end());
    if (learning_) p.factors = in_use_;
    count_sms();
    if (now_ + options_.period < time_point{options_.length})
      put(now_ + options_.period, kind::look);
  }

  /// Counts what came and ended in the period.
  void count_period() {
    for (std::size_t m = 0; m < slos_.size(); ++m) {
      const request_counts c = serve_.counts(m);
      const request_counts b = std::exchange(before_[m], c);
      period_.arrived.push_back(c.arrived - b.arrived);
      const std::uint64_t violated = c.late + c.dropped - b.late - b.dropped;
      const batch_time all{models_[m].took, models_[m].host};
      const batch_time then = std::exchange(time_before_[m], all);
      const double host = all.took > then.took
                              ? static_cast<double>((all.host - then.host).count()) /
                                    static_cast<double>((all.took - then.took).count())
                              : 0;
      period_.models.push_back({c.in_time - b.in_time + violated, violated, host});
    }
  }

  /// Activates the chosen plan, whose partitions exist now.
  void follow_plan() {
    period_outcome& p = period_;
    p.no_plan = plan_.is_none_better();
    p.switched = plan_.advance();
    if (p.switched) change_plan();
    count_sms();
  }

  /// Notes the active plan and its size in the period.
  void count_sms() {
    period_.plan = plan_.plan();
    period_.factor = plan_.factor();
    period_.sms = plan_.sms();
    period_.partitions = static_cast<std::uint32_t>(plan_.plan().gpulets.size());
    period_.on_shared_sms = 0;
    for (const gpulet& g : plan_.plan().gpulets) period_.on_shared_sms += g.region != 0;
    period_.gpu_sms.clear();
    for (std::uint32_t g = 0; g < gpus_; ++g) period_.gpu_sms.push_back(sms_of(plan_.plan(), g));
  }

  void change_plan() {
    const bool is_first = now_ == time_point{};
    plan_since_ = now_;
    const duration cost = is_first ? duration{} : options_.switch_cost;
    if (*expected_)
      serve_.switch_to(plan_.plan(), now_, cost, *expected_);
    else
      serve_.switch_to(plan_.plan(), now_, cost);
    runner_.activate(serve_.partitions());
    switches_ += is_first ? 0 : 1;
    if (!is_first) requests_.on_switch(now_);
    due_.resize(serve_.partitions().size(), no_deadline);
    begun_.resize(serve_.partitions().size());
    hear_of_dropped();
    for (std::uint32_t i = 0; i < serve_.partitions().size(); ++i) begin_batch(i);
  }

  std::vector<duration> slos_;
  plan_service_options options_;
  std::vector<gpu_shape> shapes_;
  const interference_function* expected_;
  std::vector<model_demand> offered_; ///< expected at the start
  frontend serve_;
  active_plan plan_;
  std::size_t gpus_;
  time_point plan_since_{};
  replan_reason last_reason_ = replan_reason::none;
  time_corrections corrections_;
  violation_margins margins_;
  Runner& runner_;
  Requests& requests_;
  duration begin_{}; ///< runner's time at the start
  std::priority_queue<event> events_;
  std::uint64_t serial_ = 0;
  time_point now_{};
  std::uint32_t running_ = 0; ///< batches
  bool is_preparing_ = false;
  time_point prepared_at_{};    ///< the last plan
  std::vector<ended_run> ends_; ///< the last ones, a ring
  std::size_t next_end_ = 0;
  std::uint64_t stalled_ = 0;
  std::vector<batch_stall> stalls_;
  std::vector<bool> is_blocked_;   ///< by GPU: a partition waits for another plan's batch
  std::vector<time_point> due_;    ///< by partition: time of the next due event
  std::vector<begun_batch> begun_; ///< by partition
  std::vector<waiting_request> ended_batch_;
  std::vector<request_counts> before_;      ///< by model: at the begin of the period
  std::vector<batch_time> time_before_;     ///< the same
  std::vector<detail::usual_time> usually_; ///< by model: what the host adds to a batch
  period_outcome period_;
  std::vector<model_outcome> models_;
  std::optional<corun_learning> learning_;
  std::unique_ptr<const plan_rules> rules_; ///< with factors learned; null: the first ones
  std::vector<corun_factors> in_use_;       ///< by model: learned factors of these rules
  std::uint64_t batches_ = 0;
  std::uint64_t switches_ = 0;
  time_point last_end_{};
};

} // namespace gsched
