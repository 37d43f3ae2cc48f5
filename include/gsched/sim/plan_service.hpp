// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/frontend.hpp>
#include <gsched/partition/replanning.hpp>
#include <gsched/sim/app_requests.hpp>
#include <gsched/sim/batch_runs.hpp>
#include <gsched/sim/plan_outcome.hpp>
#include <gsched/sim/rate_curve.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched::sim {

/// An app, what is expected of it, and what comes.
struct offered_app {
  app what{};
  rate_curve expected{}; ///< the first plan is for its rate at the beginning
  rate_curve comes{};
  std::uint64_t seed = 0;
};

struct plan_service_options {
  duration length = std::chrono::seconds{60}; ///< requests come for so long; then all are served
  duration period = std::chrono::seconds{20}; ///< from one look at the rates to the next
  bool replans = true;                        ///< else the first plan stays
  duration prepare{}; ///< from a plan to the switch: contexts are made meanwhile
  duration switch_cost = std::chrono::microseconds{100}; ///< until a new partition begins
  replanning_options replanning{};
  frontend_options frontend{};
};

/// A planner, any of them: a plan for demands, or none.
using planner_function = std::function<std::optional<partition_plan>(std::span<const demand>)>;

/// Serves apps by plans in virtual time, batch by batch: a frontend under Poisson arrivals, batches
/// that take the table's time and slow each other as `truth` says, and a new plan each period for
/// the rates that were measured. `expected` is what the frontend thinks that neighbours do.
///
/// Source   Choi et al., USENIX ATC 2022, sections 5 and 6.
/// Order    of what is at one time: ends of batches, switches, looks at rates, arrivals, and what
///          is due; then as it came about. Equal arguments give equal outcomes.
/// Errors   the constructor: those of check(app), bad_option for a period of 0 or less, and those
///          of the frontend and of replanning. run: those of planner and models.
/// Cost     O(log n) an event, of n partitions and apps; some two events a batch and one a request.
/// Threads  one owner; what is passed by reference outlives it.
class plan_service {
public:
  plan_service(const latency_table& table, std::vector<duration> slos,
               const std::vector<gpu_shape>& shapes, std::vector<offered_app> apps,
               plan_service_options o, const planner_function& planner,
               const interference_function& truth, const interference_function& expected)
      : slos_(slos), options_(o), planner_(planner), expected_(expected), apps_(std::move(apps)),
        requests_(graphs_of(apps_)), serve_(table, std::move(slos), shapes, o.frontend),
        replanning_(o.replanning), runs_(table, truth, shapes.size()) {
    if (o.period <= duration::zero())
      throw error(errc::bad_option,
                  "period of " + std::to_string(o.period.count()) + " ns, expected more than 0");
    const time_point end{o.length};
    for (const offered_app& a : apps_) {
      arrivals_.emplace_back(a.comes, end, a.seed);
    }
    out_.models.resize(table.size());
    came_before_.resize(table.size());
  }

  [[nodiscard]] plan_outcome run() {
    look_at_rates();
    for (std::size_t a = 0; a < apps_.size(); ++a) expect_arrival(a);
    while (!events_.empty()) {
      const event e = events_.top();
      events_.pop();
      now_ = e.at;
      switch (e.what) {
      case kind::end: end_batch(e.which, e.version); break;
      case kind::change: change_plan(); break;
      case kind::look: look_at_rates(); break;
      case kind::arrival: arrive(e.which); break;
      case kind::due:
        if (due_[e.which] != e.at) break; // it is earlier by now, and has been
        due_[e.which] = no_deadline;
        begin_batch(e.which);
        break;
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

  enum class kind : std::uint8_t { end, change, look, arrival, due };
  struct event {
    time_point at;
    kind what;
    std::uint64_t serial;
    std::uint32_t which; ///< partition or app
    std::uint32_t version;
    bool operator<(const event& o) const noexcept { // the first is the top of the queue
      return std::tie(o.at, o.what, o.serial) < std::tie(at, what, serial);
    }
  };

  void put(time_point at, kind what, std::size_t which = 0, std::uint32_t version = 0) {
    events_.push({at, what, serial_++, static_cast<std::uint32_t>(which), version});
  }

  void expect_arrival(std::size_t app) {
    if (const auto at = arrivals_[app].next()) put(*at, kind::arrival, app);
  }

  /// A batch ends then, as things stand now.
  [[nodiscard]] auto tell_end() {
    return [this](std::uint32_t partition, time_point at) {
      put(at, kind::end, partition, ++versions_[partition]);
    };
  }

  /// How an app's request asks a model.
  [[nodiscard]] auto ask_model() {
    return [this](std::size_t model, std::uint64_t id) {
      if (const auto to = serve_.arrive(model, id, now_)) begin_batch(*to);
      hear_of_dropped();
    };
  }

  void arrive(std::size_t app) {
    expect_arrival(app);
    requests_.begin(app, now_, ask_model());
  }

  void hear_of_dropped() {
    for (const std::uint64_t id : serve_.dropped()) requests_.hear_drop(id, now_);
    serve_.forget_dropped();
  }

  // Batches.

  void begin_batch(std::uint32_t partition) {
    const auto batch = serve_.try_start(partition, now_);
    if (batch) {
      const served_partition& p = serve_.partitions()[partition];
      ++out_.batches;
      runs_.begin({p.gpu, partition, p.sms, batch->model,
                   static_cast<std::uint32_t>(batch->requests.size())},
                  now_, tell_end());
    } else if (const time_point at = serve_.due(partition, now_);
               at != no_deadline && at < due_[partition]) {
      put(due_[partition] = at, kind::due, partition);
    }
    if (!serve_.dropped().empty()) hear_of_dropped();
  }

  void end_batch(std::uint32_t partition, std::uint32_t version) {
    if (versions_[partition] != version) return; // it has become another time since
    const served_partition& p = serve_.partitions()[partition];
    const std::uint32_t gpu = p.gpu;
    const std::size_t model = p.running_model;
    ended_batch_.assign(p.running.begin(), p.running.end());
    const bool is_room = serve_.end(partition, now_);
    ++versions_[partition];
    runs_.end(gpu, partition, now_, tell_end());
    out_.end = now_;
    for (const waiting_request& r : ended_batch_)
      out_.models[model].latency.record(now_ - (r.deadline - slos_[model]));
    begin_batch(partition);
    if (is_room)
      for (std::uint32_t i = 0; i < serve_.partitions().size(); ++i)
        if (serve_.partitions()[i].gpu == gpu) begin_batch(i);
    for (const waiting_request& r : ended_batch_) requests_.hear_answer(r.id, now_, ask_model());
  }

  // Plans.

  [[nodiscard]] std::vector<demand> demands() const {
    std::vector<demand> all;
    for (std::size_t m = 0; m < slos_.size(); ++m)
      all.push_back({m, serve_.rate(m, now_), slos_[m]});
    if (now_ == time_point{})
      for (const offered_app& a : apps_)
        if (!a.expected.empty())
          for (const app_stage& s : a.what.stages)
            all[s.model].rate += a.expected.front().rate * s.requests;
    std::vector<demand> wanted;
    for (const demand& d : all)
      if (is_offered(d.model)) wanted.push_back(d);
    return wanted;
  }
  [[nodiscard]] bool is_offered(std::size_t model) const {
    for (const offered_app& a : apps_)
      for (const app_stage& s : a.what.stages)
        if (s.model == model) return true;
    return false;
  }

  void look_at_rates() {
    if (now_ > time_point{}) close_period();
    period_outcome& p = out_.periods.emplace_back();
    p.begin = now_;
    for (std::size_t m = 0; m < slos_.size(); ++m) p.measured.push_back(serve_.rate(m, now_));
    if (now_ == time_point{} || options_.replans) {
      bool asked = false;
      std::optional<scaled_plan> found = replanning_.replan(demands(), [&](auto d) {
        asked = true;
        return planner_(d);
      });
      p.no_plan = asked && !found;
      if (found) factor_ = found->factor;
      if (found && found->plan != plan_) {
        p.switched = true;
        plan_ = std::move(found->plan);
        sms_ = 0;
        for (const gpulet& g : plan_.gpulets) sms_ += g.sms.count();
        if (now_ == time_point{})
          change_plan();
        else
          put(now_ + options_.prepare, kind::change);
      }
    }
    p.factor = factor_;
    p.sms = sms_;
    if (now_ + options_.period < time_point{options_.length})
      put(now_ + options_.period, kind::look);
  }

  void close_period() {
    period_outcome& p = out_.periods.back();
    for (std::size_t m = 0; m < slos_.size(); ++m) {
      const std::uint64_t so_far = serve_.counts(m).arrived;
      p.came.push_back(so_far - std::exchange(came_before_[m], so_far));
    }
    std::tie(p.ended, p.violated) = requests_.take_ended();
  }

  void change_plan() {
    const bool is_first = now_ == time_point{};
    const duration cost = is_first ? duration{} : options_.switch_cost;
    if (expected_)
      serve_.switch_to(plan_, now_, cost, expected_);
    else
      serve_.switch_to(plan_, now_, cost);
    out_.switches += is_first ? 0 : 1;
    versions_.resize(serve_.partitions().size(), 0);
    due_.resize(serve_.partitions().size(), no_deadline);
    hear_of_dropped();
    for (std::uint32_t i = 0; i < serve_.partitions().size(); ++i) begin_batch(i);
  }

  std::vector<duration> slos_;
  plan_service_options options_;
  const planner_function& planner_;
  const interference_function& expected_;
  std::vector<offered_app> apps_;
  app_requests requests_;
  frontend serve_;
  replanning replanning_;
  batch_runs runs_;
  std::vector<varying_poisson> arrivals_; ///< by app
  std::priority_queue<event> events_;
  std::uint64_t serial_ = 0;
  time_point now_{};
  std::vector<std::uint32_t> versions_; ///< by partition: of its batch's end
  std::vector<time_point> due_;         ///< by partition: the earliest event
  std::vector<waiting_request> ended_batch_;
  partition_plan plan_;
  double factor_ = 0;
  std::uint32_t sms_ = 0;
  std::vector<std::uint64_t> came_before_;
  plan_outcome out_;
};

} // namespace gsched::sim
