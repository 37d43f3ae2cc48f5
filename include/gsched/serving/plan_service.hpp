// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/detail/app_requests.hpp>
#include <gsched/serving/plan_loop.hpp>
#include <gsched/serving/plan_service_options.hpp>
#include <gsched/serving/service_outcome.hpp>
#include <gsched/workload/varying_poisson.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// Serves apps with plans: a plan_loop under Poisson arrivals, whose requests carry no data. Any
/// batch_runner runs the batches: simulated_batches in virtual time,
/// gsched::cuda::partition_batches on GPUs. `expected` is the interference that the frontend
/// assumes. Requests arrive at their own times: the latency of a request that is seen late counts
/// from its arrival.
///
/// Source   Choi et al., USENIX ATC 2022, sections 5 and 6.
/// Order    as plan_loop; arrivals at one time in order of creation.
/// Units    as plan_loop.
/// Errors   the constructor: those of check(app) and of plan_loop. run: those of plan_loop, but a
///          gsched::error while a plan after the first is made is counted in the outcome.
/// Cost     O(log n) an event for n partitions and apps; some two events a batch and one a request.
/// Threads  as plan_loop.
template <batch_runner Runner>
class plan_service {
public:
  plan_service(const latency_table& table, std::vector<duration> slos,
               const std::vector<gpu_shape>& shapes, std::vector<offered_app> apps,
               const plan_service_options& o, const planner_function& planner,
               const interference_function& expected, Runner& runner)
      : options_(o), apps_(std::move(apps)), requests_(graphs_of(apps_)),
        loop_(table, slos, shapes, offered_demands(apps_, slos), o, planner, expected, runner,
              *this) {
    const time_point end{o.length};
    for (const offered_app& a : apps_) arrivals_.emplace_back(a.actual, end, a.seed);
  }
  plan_service(const plan_service&) = delete;
  plan_service& operator=(const plan_service&) = delete;

  [[nodiscard]] service_outcome run() {
    loop_.begin();
    for (std::size_t a = 0; a < apps_.size(); ++a) expect_arrival(a);
    for (;;) {
      if (loop_.step()) {
        constexpr std::uint64_t progress_interval = 4096; // events
        if (options_.on_progress && ++handled_ % progress_interval == 0)
          options_.on_progress(loop_.now().time_since_epoch());
      } else if (loop_.is_over()) {
        break;
      } else {
        loop_.wait();
      }
    }
    loop_.end();
    out_.models = loop_.outcomes();
    out_.learned = loop_.learned();
    out_.apps = std::move(requests_.outcomes());
    out_.batches = loop_.batches();
    out_.switches = loop_.switches();
    out_.end = loop_.last_end();
    out_.stalled = loop_.stalled();
    out_.stalls = std::move(loop_.stalls());
    return std::move(out_);
  }

  // For plan_loop -----------------------------------------------------------------------------

  [[nodiscard]] time_point next_arrival() const noexcept {
    return expected_.empty() ? no_deadline : expected_.top().at;
  }
  void arrive() {
    const arrival a = expected_.top();
    expected_.pop();
    expect_arrival(a.app);
    requests_.begin(a.app, a.at, ask_model(a.at));
  }
  void on_start(batch_run&, std::span<const waiting_request>) const noexcept {}
  void on_answer(std::uint64_t id, time_point now) { requests_.on_answer(id, now, ask_model(now)); }
  void on_drop(std::uint64_t id, time_point now) { requests_.on_drop(id, now); }
  void on_period(period_outcome p) {
    p.apps = requests_.take_period();
    for (const app_period& a : p.apps) {
      p.ended += a.ended;
      p.violated += a.violated;
    }
    out_.periods.push_back(std::move(p));
  }
  void on_switch(time_point at) { out_.switched_at.push_back(at); }
  void on_plan_failed(std::exception_ptr why) {
    try {
      std::rethrow_exception(std::move(why));
    } catch (const error&) {
      if (out_.failed_plans++ == 0) out_.plan_failure = std::current_exception();
    }
  }

private:
  struct arrival {
    time_point at;
    std::uint64_t serial;
    std::size_t app;
    bool operator<(const arrival& o) const noexcept { // a max-heap: the earliest is the top
      return std::tie(o.at, o.serial) < std::tie(at, serial);
    }
  };

  [[nodiscard]] static std::vector<app> graphs_of(const std::vector<offered_app>& apps) {
    std::vector<app> graphs;
    graphs.reserve(apps.size());
    for (const offered_app& a : apps) graphs.push_back(a.definition);
    return graphs;
  }

  void expect_arrival(std::size_t app) {
    if (const auto at = arrivals_[app].next()) expected_.push({*at, serial_++, app});
  }
  /// Returns the function that submits an app's model requests.
  [[nodiscard]] auto ask_model(time_point since) {
    return [this, since](std::size_t model, std::uint64_t id) { loop_.arrive(model, id, since); };
  }

  plan_service_options options_;
  std::vector<offered_app> apps_;
  detail::app_requests requests_;
  std::vector<varying_poisson> arrivals_; ///< by app
  std::priority_queue<arrival> expected_;
  std::uint64_t serial_ = 0;
  std::uint64_t handled_ = 0; ///< events
  service_outcome out_;
  plan_loop<Runner, plan_service> loop_;
};

} // namespace gsched
