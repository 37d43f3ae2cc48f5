// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/server/described_error.hpp>
#include <gsched/server/detail/clock_epoch.hpp>
#include <gsched/server/detail/engine.hpp>
#include <gsched/server/detail/event_waits.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/interruptible_batches.hpp>
#include <gsched/server/detail/message.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/observer.hpp>
#include <gsched/server/plan_options.hpp>
#include <gsched/server/planned_model.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/request_source.hpp>
#include <gsched/server/statistics.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/plan_loop.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched::detail {

/// The engine of a plan_server.
class reporting_engine : public engine {
public:
  [[nodiscard]] virtual plan_report report() const = 0;
};

/// The loop of a plan_server: a plan_loop whose requests come from other threads, on a runner whose
/// time runs with CLOCK_MONOTONIC.
///
/// Threads  all of it, from the constructor to the destructor, on the server's thread.
template <batch_runner Runner>
class plan_engine final : public reporting_engine, public request_taker {
public:
  /// Waits until the partitions of the first plan exist.
  template <class MakeRunner, class MakeEvents>
  plan_engine(server_state& at, plan_offer offer, const plan_server_options& how,
              MakeRunner make_runner, MakeEvents make_events, std::shared_ptr<plan_report> last)
      : at_(at), spin_(how.spin), offer_(checked(std::move(offer))), planner_(planner_of(offer_)),
        runner_(make_runner(std::as_const(offer_.table), std::as_const(offer_.expected))),
        events_(make_events(runner_)), driver_(runner_, at.whose), waits_(at, events_),
        last_(std::move(last)),
        loop_(offer_.table, slos_of(offer_), offer_.shapes, demands_of(offer_), endless(how.plan),
              planner_, offer_.expected, driver_, *this) {
    loop_.begin();
    if (loop_.plan().plan().gpulets.empty())
      throw error(errc::bad_option, "plan: none serves these models within their SLOs, expected "
                                    "longer SLOs or more SMs");
    epoch_ns_ = epoch_of(runner_) + loop_.begun_at().count();
    for (planned_service& s : offer_.models) {
      const auto id = static_cast<std::uint32_t>(models_.size());
      models_.push_back(s.model.get());
      dropped_lines_.push_back("rejected: no batch of " + s.model->name + " would end within " +
                               number_text(to_us(s.slo) * 1e-3) + " ms of its arrival");
      at_.models[id].record.store(s.model.get(), sync::relaxed); // unordered: not open yet
      at_.records.push_back(std::move(s.model));
    }
    // [N1], [N2] release -> [N1], [N2] acquire in submit
    at_.models_count.store(static_cast<std::uint32_t>(models_.size()), sync::release);
    at_.clients_count.store(1, sync::release);
    at_.events = &events_;
  }

  ~plan_engine() override {
    at_.events = nullptr;
    at_.last_statistics = statistics();
    *last_ = report();
  }

  void run() override {
    try {
      for (std::uint64_t n = 1; !stopping_ || !at_.live.empty(); ++n) {
        at_.rounds.store(n, sync::relaxed); // unordered: only whether it changes counts
        const std::int64_t start = now_ns();
        if (round()) {
          host_ns_ += now_ns() - start;
          quiet_since_.reset();
        } else {
          rest(start);
        }
      }
    } catch (...) { // of the runner: what the requests' memory is used for is not known any more
      at_.set_failure(describe_current_exception().line);
      fail_rest();
    }
    for (request_source* const s : sources_) static_cast<void>(s->poll(*this)); // the last ends
  }

  std::uint32_t add_client(double) override {
    // unordered: written by this thread
    const std::uint32_t id = at_.clients_count.load(sync::relaxed);
    at_.clients_count.store(id + 1, sync::release); // [N1] release -> [N1] acquire in submit
    return id;
  }

  std::unique_ptr<built_program> build(program&) override { refuse_model(); }
  void load(program&, std::unique_ptr<built_program>, model_facts&) override { refuse_model(); }
  unloaded unload(program&) override { return {}; }
  std::uint32_t add(served_model&) override { refuse_model(); }
  void remove(served_model& m) override { m.removed = true; }

  void attach(request_source& s) override {
    sources_.push_back(&s);
    if (closed_sources_) s.close();
  }
  void detach(request_source& s) noexcept override { std::erase(sources_, &s); }
  void observe(server_observer* by) noexcept override { observer_ = by; }

  [[nodiscard]] server_statistics statistics() noexcept override {
    server_statistics out{};
    out.requests = counted_;
    out.requests.finished -= at_.unsignalled;
    out.requests.failed += at_.unsignalled;
    out.requests.segments = loop_.batches();
    out.up_time = driver_.now().time_since_epoch();
    for (const gpu_shape& s : offer_.shapes) out.sms += s.sms.count();
    out.host_time = duration{host_ns_};
    out.sleeps = sleeps_;
    return out;
  }
  [[nodiscard]] plan_report report() const override {
    plan_report r;
    r.models = loop_.outcomes();
    r.learned = loop_.learned();
    for (std::size_t m = 0; m < models_.size(); ++m) {
      r.rates.push_back(loop_.requests_in().rate(m, loop_.now()));
      r.times.push_back(loop_.learned_of(m));
    }
    r.reason = loop_.last_reason();
    for (const gpu_shape& s : offer_.shapes) r.sms += s.sms.count();
    r.plan = loop_.plan().plan();
    r.factor = loop_.plan().factor();
    r.batches = loop_.batches();
    r.switches = loop_.switches();
    r.failed_plans = failed_plans_;
    r.last_failure = last_failure_;
    return r;
  }

  // For sources -------------------------------------------------------------------------------

  [[nodiscard]] bool has_model(std::uint32_t model) const noexcept override {
    return model < models_.size() && !models_[model]->closed;
  }
  void take(request_record& r) noexcept override {
    try {
      submit(r);
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  void cancel(request_record& r) noexcept override {
    if (r.has_ended()) return;
    r.cancelling.store(true, sync::relaxed); // unordered: this thread reads it
    static_cast<void>(try_cancel(r, {}, "cancelled"));
  }

  // For plan_loop -----------------------------------------------------------------------------

  [[nodiscard]] time_point next_arrival() const noexcept { return no_deadline; }
  void arrive() const noexcept {}
  void on_start(batch_run& run, std::span<const waiting_request> batch) {
    if (run.partition >= places_.size()) places_.resize(run.partition + 1);
    place& at = places_[run.partition];
    planned_model& of = *models_[run.model];
    const std::size_t inputs = of.inputs.size(), outputs = of.outputs.size();
    at.inputs.assign(batch.size() * inputs, nullptr);
    at.outputs.assign(batch.size() * outputs, nullptr);
    const std::int64_t now = to_ns(loop_.now());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      request_record& t = record_of(batch[i].id);
      t.start_ns = now;
      t.segments = 1;
      t.instance = run.partition;
      add(at_.waiting, -1);
      of.locate(t, std::span(at.inputs).subspan(i * inputs, inputs),
                std::span(at.outputs).subspan(i * outputs, outputs));
    }
    run.data = {at.inputs, at.outputs};
  }
  void on_answer(std::uint64_t id, time_point now) {
    request_record& t = record_of(id);
    models_[t.model]->deliver(t);
    end(t, request_status::finished, to_ns(now));
  }
  void on_drop(std::uint64_t id, time_point now) {
    request_record& t = record_of(id);
    set_line(t.error, dropped_lines_[t.model]);
    add(at_.waiting, -1);
    end(t, request_status::rejected, to_ns(now));
  }
  void on_period(const period_outcome&) const noexcept {}
  void on_switch(time_point) const noexcept {}
  void on_plan_failed(std::exception_ptr why) {
    ++failed_plans_;
    last_failure_ = describe(std::move(why)).line;
  }

private:
  /// Addresses of a partition's batch.
  struct place {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };

  [[nodiscard]] static plan_offer checked(plan_offer o) {
    const auto refuse = [](const std::string& what) {
      throw error(errc::bad_option, "plan: " + what);
    };
    if (o.models.size() != o.table.size() || o.models.size() > server_state::most_models)
      refuse(std::to_string(o.models.size()) + " models, expected the " +
             std::to_string(o.table.size()) + " of the latency table");
    for (std::size_t m = 0; m < o.models.size(); ++m) {
      const planned_service& s = o.models[m];
      const std::string& name = o.table.name(m);
      if (s.model == nullptr || s.model->name != name)
        refuse("model " + std::to_string(m) + ": expected " + name + ", as in the latency table");
      if (s.slo <= duration::zero()) refuse(name + ": SLO of 0 or less, expected more");
      if (!(s.rate >= 0 && s.rate <= 1e9)) refuse(name + ": rate, expected 0 to 1e9 a second");
    }
    if (o.shapes.empty()) refuse("no GPU, expected one");
    return o;
  }
  [[nodiscard]] static planner_function planner_of(const plan_offer& o) {
    if (o.planner) return o.planner;
    return [&o](const latency_table& t,
                std::span<const model_demand> d) -> std::optional<partition_plan> {
      if (o.expected) return elastic_planner{}.plan(t, d, o.shapes, o.expected);
      return elastic_planner{}.plan(t, d, o.shapes);
    };
  }
  [[nodiscard]] static std::vector<duration> slos_of(const plan_offer& o) {
    std::vector<duration> all;
    for (const planned_service& s : o.models) all.push_back(s.slo);
    return all;
  }
  [[nodiscard]] static std::vector<model_demand> demands_of(const plan_offer& o) {
    std::vector<model_demand> all;
    for (std::size_t m = 0; m < o.models.size(); ++m)
      all.push_back({m, o.models[m].rate, o.models[m].slo});
    return all;
  }
  [[nodiscard]] static plan_service_options endless(plan_service_options o) {
    o.length = duration::max();
    o.on_progress = nullptr;
    return o;
  }
  [[noreturn]] static void refuse_model() {
    throw error(errc::bad_option,
                "add_model: a server of a plan has the models that it was opened with");
  }

  // Rounds ------------------------------------------------------------------------------------

  /// One round; false if there was nothing to do.
  bool round() {
    const bool stop = at_.stopping.load(sync::acquire); // [Z1] acquire <- [Z1] release in stop
    loop_.read_clock();
    bool moved = at_.box.take_each([&](message& m) { take(m); });
    stopping_ = stop; // what was posted before was served as always
    if (stop && !std::exchange(closed_sources_, true))
      for (request_source* const s : sources_) s->close();
    for (request_source* const s : sources_) moved |= s->poll(*this);
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    moved |= at_.work_on_commands(*this);
    moved |= waits_.look([this](request_record& t) { arrive(t); },
                         [this](request_record& t, const std::exception_ptr& why) {
                           add(at_.waiting, -1);
                           fail(t, describe(why));
                         });
    moved |= loop_.step();
    // unordered: the number alone counts
    if (stopping_ && now_ns() >= at_.drain_until_ns.load(sync::relaxed)) give_up_waiting();
    return moved;
  }

  void take(message& m) {
    switch (m.what) {
    case message::kind::submit: submit(*static_cast<request_record*>(m.of)); return;
    case message::kind::cancel: {
      request_record& t = *static_cast<request_record*>(m.of);
      if (!t.has_ended()) static_cast<void>(try_cancel(t, {}, "cancelled"));
      t.release();
      return;
    }
    case message::kind::command: at_.commands.push_back(static_cast<struct command*>(m.of)); return;
    }
  }

  void submit(request_record& t) {
    counted_.count_submit();
    add(at_.active, 1);
    at_.live.push_back(t);
    if (observer_ != nullptr) observer_->arrived(t, now_ns());
    const planned_model& of = *models_[t.model];
    if (stopping_) return refuse(t, errc::closed, "cancelled: the server was closed");
    if (of.closed) return refuse(t, {}, "cancelled: its model was removed");
    if (t.deadline_ns != never_ns)
      return fail(t, {errc::bad_option, "deadline: of a request to a server of a plan, expected "
                                        "none: its model's SLO counts"});
    if (t.after != nullptr)
      return fail(t,
                  {errc::bad_option, "after: of a request to a server of a plan, expected none"});
    if (std::string why = of.why_not(t); !why.empty())
      return fail(t, {errc::bad_option, std::move(why)});
    if (t.wait_event != nullptr) {
      const event_answer a = waits_.ask(t);
      if (a.what == event_answer::kind::failed) return fail(t, describe(waits_.failure_for(a)));
      if (a.what == event_answer::kind::pending) waits_.hold(t);
    }
    t.taken_up = true;
    at_.models[t.model].active.fetch_add(1, sync::relaxed); // unordered: remove_model asks first
    add(at_.waiting, 1);
    if (!t.await_hook.is_linked()) arrive(t);
  }

  /// Hands a request to the loop; the runner may throw.
  void arrive(request_record& t) {
    const time_point since{duration{t.arrival_ns - epoch_ns_}};
    if (since > loop_.now()) loop_.read_clock(); // it starts after it came
    loop_.arrive(t.model, id_of(t), std::min(since, loop_.now()));
  }

  void fail(request_record& t, described_error why) noexcept {
    t.code = why.code;
    t.error = std::move(why.line);
    end(t, request_status::failed, now_ns());
  }
  /// Ends as cancelled a request that was not taken up.
  void refuse(request_record& t, std::error_code code, const char* why) noexcept {
    t.code = code;
    set_line(t.error, why);
    end(t, request_status::cancelled, now_ns());
  }
  /// A batch that runs goes on with all its requests. False: it has started.
  [[nodiscard]] bool try_cancel(request_record& t, std::error_code code, const char* why) noexcept {
    if (t.start_ns != 0) return false;
    if (!t.await_hook.is_linked()) static_cast<void>(loop_.cancel(t.model, id_of(t)));
    add(at_.waiting, -1);
    refuse(t, code, why);
    return true;
  }
  void end(request_record& t, request_status how, std::int64_t at_ns) noexcept {
    count_end(how);
    if (observer_ != nullptr) observer_->ended(t, how, at_ns);
    at_.end(t, how, at_ns);
  }
  void count_end(request_status how) noexcept {
    add(at_.active, -1);
    switch (how) {
    case request_status::finished: return counted_.count_end(job_state::finished);
    case request_status::rejected: return counted_.count_end(job_state::rejected);
    case request_status::cancelled: return counted_.count_end(job_state::cancelled);
    default: return counted_.count_end(job_state::failed);
    }
  }
  /// After a failure: the server ends what is left, as failed.
  void fail_rest() noexcept {
    for (std::size_t n = at_.live.size(); n > 0; --n) count_end(request_status::failed);
  }

  void give_up_waiting() {
    std::vector<request_record*> waiting;
    for (request_record& t : at_.live)
      if (t.start_ns == 0) waiting.push_back(&t);
    for (request_record* const t : waiting)
      static_cast<void>(try_cancel(*t, errc::closed, "cancelled: the server was closed"));
  }

  /// Without work now: waits for the runner, or for a post.
  void rest(std::int64_t now) {
    if (!loop_.is_quiet() || !waits_.empty()) {
      // So short that a request which is posted meanwhile is seen within a few microseconds.
      constexpr duration brief = std::chrono::microseconds{5};
      loop_.wait(loop_.now() + brief);
      return;
    }
    if (!quiet_since_) quiet_since_ = now;
    const time_point next = loop_.next_event();
    const std::int64_t until = next == no_deadline ? never_ns : to_ns(next);
    if (now - *quiet_since_ < spin_.count() || stopping_ || until <= now) return;
    ++sleeps_;
    at_.bell.sleep_unless(
        [&] { // the bell orders
          bool come = !at_.box.was_empty() || at_.stopping.load(sync::relaxed);
          for (request_source* const s : sources_) come |= s->fall_asleep();
          return come;
        },
        until);
    for (request_source* const s : sources_) s->wake_up();
    quiet_since_.reset();
  }

  // Records -----------------------------------------------------------------------------------

  /// The frontend knows a request by the address of its record.
  [[nodiscard]] static std::uint64_t id_of(const request_record& t) noexcept {
    return reinterpret_cast<std::uintptr_t>(&t);
  }
  [[nodiscard]] static request_record& record_of(std::uint64_t id) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return *reinterpret_cast<request_record*>(static_cast<std::uintptr_t>(id));
  }
  [[nodiscard]] std::int64_t to_ns(time_point t) const noexcept {
    return epoch_ns_ + t.time_since_epoch().count();
  }
  static void add(sync::atomic<std::uint64_t>& to, int by) noexcept {
    // unordered: a snapshot, written by this thread alone
    to.store(to.load(sync::relaxed) + static_cast<std::uint64_t>(by), sync::relaxed);
  }

  server_state& at_;
  duration spin_;
  plan_offer offer_;
  planner_function planner_;
  Runner runner_;
  event_source events_;
  interruptible_batches<Runner> driver_;
  event_waits waits_;
  std::shared_ptr<plan_report> last_;
  std::int64_t epoch_ns_ = 0;          ///< of the loop's time, on CLOCK_MONOTONIC
  std::vector<planned_model*> models_; ///< the server's records
  std::vector<std::string> dropped_lines_;
  std::vector<place> places_; ///< by partition
  std::vector<request_source*> sources_;
  server_observer* observer_ = nullptr;
  bool closed_sources_ = false;
  bool stopping_ = false;
  std::exception_ptr thrown_; ///< while a source was polled
  dispatch_statistics counted_{};
  std::uint64_t failed_plans_ = 0;
  std::string last_failure_;
  std::int64_t host_ns_ = 0;
  std::uint64_t sleeps_ = 0;
  std::optional<std::int64_t> quiet_since_;
  plan_loop<interruptible_batches<Runner>, plan_engine> loop_;
};

} // namespace gsched::detail
