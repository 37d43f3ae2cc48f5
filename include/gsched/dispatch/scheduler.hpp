// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/task.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

namespace detail {

/// The body of a job that launches a program. A class of its own: nvcc 13.0 fails on a coroutine
/// that is a static member of a class template, and clang 14 on one that is a free inline function
/// under the undefined-behaviour sanitizer.
struct launch_program {
  task operator()(job_context& ctx, const program& graph) const {
    ctx.launch(graph);
    co_return;
  }
};

} // namespace detail

/// What is asked of a scheduler for one job.
struct job_terms {
  std::optional<client_id> client{}; ///< of scheduler::add_client; unset: one of weight 1
  service_class service = service_class::best_effort;
  std::optional<time_point> arrival{}; ///< unset: now
  std::optional<duration> deadline{};  ///< after the arrival; unset: none
  std::optional<job_id> after{};       ///< starts once that one has finished
  /// At its end; job::state says how. It neither throws nor calls the scheduler.
  std::function<void(const job&, time_point)> done{};
  void* user = nullptr; ///< handed to the body and the listener
};

/// A device, a policy, an accountant, a listener and the dispatcher that joins them, in one object
/// that owns them all: the shortest way into a program. A program that keeps the parts itself uses
/// `dispatcher`; one that submits from several threads uses `server`.
///
///     scheduler s{sim::device{sim::h200()}, deficit_over<srpt>{}};
///     const model_id infer = s.add_model("infer", std::move(program));
///     s.submit(infer, {.deadline = 5ms});
///     s.run();
///
/// Errors   as dispatcher; unknown_name for a client or model that was not added; device_failed,
///          from step() and run(), with the line of a device that tells failure().
/// Cost     as dispatcher, and one record for each job, which is used again.
/// Threads  one owner; no locking.
template <device Device, class Policy, accountant Accountant = aggregate_accountant,
          listener Listener = silent_listener>
class scheduler {
public:
  /// The body of a model's jobs: a coroutine that is given the model's program.
  using body = std::function<task(job_context&, const program&)>;

  explicit scheduler(Device gpu, Policy order = Policy(), const dispatch_options& how = {},
                     Listener listens = Listener(), const accountant_options& counts = {})
      : device_(std::move(gpu)), policy_(std::move(order)),
        account_(device_.limits().sm, device_.limits().sms, counts), listener_(std::move(listens)),
        dispatcher_(device_, policy_, account_, listener_, how) {}
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;
  /// Jobs that are still active are cancelled, and waited for.
  ~scheduler() {
    dispatcher_.cancel_all();
    serve(no_deadline); // ends early where the device has failed: it has abandoned its work
  }

  /// Clients are numbered from 0.
  client_id add_client(double weight = 1.0) {
    clients_.push_back(&dispatcher_.add_client(weight));
    return clients_.back()->id;
  }
  /// A model whose jobs launch the program, or run the body.
  model_id add_model(std::string name, program graph, body runs = detail::launch_program()) {
    return add(std::move(name), models_.emplace_back(std::move(graph), std::move(runs)),
               instance_pool::unlimited);
  }
  /// The same for programs that the caller keeps until the scheduler is gone, such as
  /// cuda::program::host(). All have the same operations, each on memory of its own: a job has one
  /// of them to itself, and waits for it before it starts.
  ///
  /// Errors   bad_option: no program.
  model_id add_model(std::string name, std::vector<program*> instances,
                     body runs = detail::launch_program()) {
    if (instances.empty()) throw error(errc::bad_option, name + ": no program, expected one");
    const auto n = static_cast<std::uint32_t>(instances.size());
    return add(std::move(name), models_.emplace_back(std::move(instances), std::move(runs)), n);
  }

  job_id submit(model_id of, job_terms how = {}) {
    job_request r;
    r.model = of;
    r.owner = &client_of(how.client);
    r.service = how.service;
    r.arrival = how.arrival;
    if (how.deadline) r.deadline = saturating_add(how.arrival.value_or(now()), *how.deadline);
    r.after = how.after;
    record& kept = free_ != nullptr ? *std::exchange(free_, free_->next) : records_.emplace_back();
    kept.done = std::move(how.done);
    kept.user = how.user;
    kept.owner = this;
    r.user = &kept;
    try {
      return dispatcher_.submit(r);
    } catch (...) {
      give_back(kept);
      throw;
    }
  }
  /// False if it has ended already or is about to.
  bool cancel(job_id id) noexcept { return dispatcher_.cancel(id); }

  /// Takes what the device reports and submits what the policy picks; never waits. False if there
  /// was nothing to do.
  bool step() {
    const bool moved = dispatcher_.step();
    throw_failure();
    return moved;
  }
  /// Sleeps until the device reports something, until `until`, or until step() is due.
  void wait(time_point until = no_deadline) {
    device_.wait(std::min(until, dispatcher_.step_by()));
  }
  /// Serves until no job is active, or until `until`.
  void run(time_point until = no_deadline) {
    serve(until);
    throw_failure();
  }

  [[nodiscard]] time_point now() const noexcept { return device_.now(); }
  [[nodiscard]] const dispatch_statistics& statistics() const noexcept {
    return dispatcher_.statistics();
  }
  [[nodiscard]] Device& on() noexcept { return device_; }
  [[nodiscard]] auto& parts() noexcept { return dispatcher_; }

private:
  struct model {
    model(program g, body b) : owned(std::move(g)), instances{&*owned}, runs(std::move(b)) {}
    model(std::vector<program*> p, body b) : instances(std::move(p)), runs(std::move(b)) {}
    task operator()(job_context& ctx) {
      ctx.user = static_cast<record*>(ctx.user)->user;
      return runs(ctx, *instances[owned ? 0 : ctx.instance]);
    }
    std::optional<program> owned;
    std::vector<program*> instances;
    body runs;
  };
  struct record {
    std::function<void(const job&, time_point)> done{};
    void* user = nullptr;
    scheduler* owner = nullptr;
    record* next = nullptr;
  };
  /// Hands the user's pointer to the listener in place of the record, and ends records.
  struct relay : Listener {
    explicit relay(Listener listens) : Listener(std::move(listens)) {}
    void on_arrival(const job& j, void* r, time_point t) noexcept {
      Listener::on_arrival(j, static_cast<record*>(r)->user, t);
    }
    void on_almost_finished(const job& j, void* r, duration left, time_point t) noexcept {
      Listener::on_almost_finished(j, static_cast<record*>(r)->user, left, t);
    }
    void on_end(const job& j, void* r, time_point t) noexcept {
      record& kept = *static_cast<record*>(r);
      Listener::on_end(j, kept.user, t);
      if (kept.done) kept.done(j, t);
      kept.owner->give_back(kept);
    }
  };

  // A program that is loaded stays in place, even if its model could not be added.
  model_id add(std::string name, model& m, std::uint32_t instances) {
    std::size_t loaded = 0;
    try {
      for (program* p : m.instances) {
        dispatcher_.load(*p);
        ++loaded;
      }
    } catch (...) {
      if (loaded == 0) models_.pop_back();
      throw;
    }
    const program& first = *m.instances.front();
    const model_id id = dispatcher_.add_model(std::move(name), m, &first, instances);
    for (std::size_t i = 1; i < m.instances.size(); ++i)
      dispatcher_.add_replica(id, *m.instances[i], first);
    return id;
  }
  void serve(time_point until) {
    while (!dispatcher_.idle() && device_.now() < until && !has_failed()) {
      if (dispatcher_.step()) continue;
      if (dispatcher_.nothing_in_flight() && until == no_deadline) return; // nothing would come
      wait(until);
    }
  }
  [[nodiscard]] bool has_failed() const noexcept {
    if constexpr (requires { device_.failure()->c_str(); }) return device_.failure().has_value();
    return false;
  }
  void throw_failure() const {
    if constexpr (requires { device_.failure()->c_str(); })
      if (device_.failure()) throw error(errc::device_failed, *device_.failure());
  }
  [[nodiscard]] client& client_of(std::optional<client_id> id) {
    if (!id) {
      if (!unnamed_) unnamed_ = add_client();
      id = unnamed_;
    }
    if (index(*id) >= clients_.size())
      throw error(errc::unknown_name, "client " + std::to_string(index(*id)) +
                                          ": unknown, the scheduler has " +
                                          std::to_string(clients_.size()));
    return *clients_[index(*id)];
  }
  void give_back(record& r) noexcept {
    r.done = nullptr;
    r.next = std::exchange(free_, &r);
  }

  std::deque<model> models_;   ///< in place; outlive the device, which has loaded their programs
  std::deque<record> records_; ///< in place
  Device device_;
  Policy policy_;
  Accountant account_;
  relay listener_;
  record* free_ = nullptr;
  std::vector<client*> clients_; ///< by id
  std::optional<client_id> unnamed_;
  dispatcher<Policy, Device, Accountant, relay> dispatcher_;
};

} // namespace gsched
