// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "desk.hpp"
#include "engine.hpp"
#include "events.hpp"
#include "hearing.hpp"
#include "refusal.hpp"
#include "settings.hpp"
#include "turn.hpp"

#include <gsched/device/device.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/chosen_accountant.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/gamma_boost.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/round_robin.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched::abi {

/// Of a server whose requests name no events.
struct no_events {
  template <class Device>
  [[nodiscard]] event_source operator()(Device&) const {
    return {};
  }
};

/// The loop of one server: a dispatcher on a device whose time runs with CLOCK_MONOTONIC. `Best`
/// orders the best-effort requests; real-time ones go before them, by deadline.
///
/// When a device says failure(), all that was accepted ends as failed with that line, and nothing
/// more is accepted.
///
/// Threads  all of it, from the constructor to the destructor, on the server's thread.
template <policy Best, device Device>
class serving final : public engine {
  using P = priority<edf, Best>;

public:
  /// make() gives the device, and events(device) its events. Without them requests that name some
  /// fail.
  template <class Make, class Events = no_events>
  serving(desk& at, const settings& how, Make make, Events events = {})
      : at_(at), settings_(how), device_(make()), events_(events(device_)),
        driver_(device_, at.whose), order_(make_policy(how)),
        account_(device_.limits().sm, device_.limits().sms, how.account,
                 how.dispatch.instrumented ? account_of::blocks : account_of::segments),
        hears_(at, epoch_of(device_), how.decision_delay),
        dispatch_(driver_, order_, account_, hears_, how.dispatch) {
    if constexpr (tells_failure) hears_.device_failure = &device_.failure();
    at_.events = &events_;
  }

  ~serving() override {
    at_.events = nullptr;
    at_.last_statistics = statistics();
  }

  void run() override {
    for (std::uint64_t n = 1; !stopping_ || !dispatch_.idle(); ++n) {
      at_.rounds.store(n, sync::relaxed); // unordered: only whether it changes counts
      const std::int64_t start = now_ns();
      if (round()) {
        host_ns_ += now_ns() - start;
        quiet_since_.reset();
      } else {
        rest(start);
      }
    }
  }

  std::uint32_t add_client(double weight) override {
    clients_.push_back(nullptr); // so that nothing can fail after the dispatcher has it
    try {
      clients_.back() = &dispatch_.add_client(weight);
    } catch (...) {
      clients_.pop_back();
      throw;
    }
    const auto id = static_cast<std::uint32_t>(clients_.size() - 1);
    at_.clients_count.store(id + 1, sync::release); // [N1] release -> [N1] acquire in submit
    return id;
  }

  std::unique_ptr<program_parts> build(gsched::program& p) override {
    if constexpr (builds)
      return std::make_unique<parts<Device>>(device_.build(p));
    else
      return nullptr;
  }

  void load(gsched::program& p, std::unique_ptr<program_parts> built,
            gsched_model_facts& costs) override {
    if constexpr (builds)
      dispatch_.load(p, std::move(static_cast<parts<Device>&>(*built).what));
    else
      dispatch_.load(p);
    costs.operations = p.size();
    costs.segments = p.pieces().empty() ? 1 : p.pieces().size() - 1;
    costs.expected_us = to_us(p.expected());
    ++costs.instances;
    if constexpr (requires(const Device& d) { d.memory_of(p).nodes; }) {
      const auto memory = device_.memory_of(p);
      costs.device_bytes += memory.device_bytes;
      costs.graphs += memory.graphs;
      costs.nodes += memory.nodes;
    }
  }

  unloaded unload(gsched::program& p) override {
    unloaded out{unloads};
    if constexpr (requires { device_.hangs(p.id()); }) out.hangs = device_.hangs(p.id());
    try {
      if constexpr (builds)
        out.parts = std::make_unique<parts<Device>>(dispatch_.unload(p));
      else
        dispatch_.unload(p);
    } catch (const error& e) { // a segment that was given up is in flight on the device
      if (!has_lost() || e.code() != errc::bad_option) throw;
      out = {.forgotten = false, .hangs = true};
    }
    return out;
  }

  std::uint32_t add(model_record& m) override {
    const std::uint32_t id = at_.models_count.load(sync::relaxed); // unordered: written here alone
    refuse_one_more_model(id);
    const program* const first = m.instances.front().graph;
    m.id = dispatch_.add_model(m.name, m, first, static_cast<std::uint32_t>(m.instances.size()));
    try {
      for (const instance& i : m.instances)
        if (i.graph != first) dispatch_.add_replica(m.id, *i.graph, *first);
      for (const std::uint32_t each : m.excludes)
        // unordered: written by this thread
        if (const model_record& other = *at_.models[each].record.load(sync::relaxed);
            !other.removed)
          dispatch_.exclude(m.id, other.id);
      if (m.exclusive) dispatch_.exclude(m.id, m.id);
    } catch (...) {
      dispatch_.remove(m.id);
      throw;
    }
    at_.models[id].record.store(&m, sync::relaxed);
    at_.models_count.store(id + 1, sync::release); // [N2] release -> [N2] acquire in submit
    return id;
  }

  void remove(model_record& m) override {
    dispatch_.remove(m.id);
    m.removed = true;
  }

  [[nodiscard]] gsched_statistics statistics() const noexcept override {
    const dispatch_statistics& s = dispatch_.statistics();
    gsched_statistics out{};
    out.submitted = s.submitted + refused_ + failed_here_;
    out.active = s.active;
    out.finished = s.finished - at_.unsignalled;
    out.failed = s.failed + failed_here_ + at_.unsignalled;
    out.rejected = s.rejected;
    out.cancelled = s.cancelled + refused_;
    out.decisions = s.decisions;
    out.segments = s.segments;
    out.operations = s.operations;
    out.host_ns = static_cast<std::uint64_t>(host_ns_);
    out.sleeps = sleeps_;
    const preemption_statistics& p = dispatch_.preemption();
    out.reserved_segments = p.reserved_segments;
    out.preemptions = p.preemptions.count;
    out.restores = p.restores.count;
    out.preempt_p50_us = to_us(p.preemptions.latency.percentile(0.5));
    out.preempt_p99_us = to_us(p.preemptions.latency.percentile(0.99));
    out.restore_p50_us = to_us(p.restores.latency.percentile(0.5));
    out.restore_p99_us = to_us(p.restores.latency.percentile(0.99));
    if constexpr (requires(const Device& d) { d.statistics().graph_launches; }) {
      out.graph_launches = device_.statistics().graph_launches;
      out.built_late = device_.statistics().built_late;
      out.driver_ns = device_.statistics().driver_ns;
    }
    if constexpr (requires(const Device& d) { d.statistics().expired_leases; })
      out.expired_leases = device_.statistics().expired_leases;
    if constexpr (requires(const Device& d) { d.statistics().opened; })
      out.opened = device_.statistics().opened;
    if constexpr (requires(const Device& d) { d.statistics().found_to_need_sms; })
      out.found_to_need_sms = device_.statistics().found_to_need_sms;
    if constexpr (requires(const Device& d) { d.hangs(); }) out.hanging = device_.hangs() ? 1u : 0u;
    return out;
  }

private:
  static constexpr bool tells_failure = requires(const Device& d) { d.failure()->c_str(); };
  static constexpr bool unloads = requires(Device & d, program& p) { d.unload(p); };
  static constexpr bool builds = requires(Device & d, program& p) { d.build(p); };
  /// Of a device that builds; D is Device, and a parameter so that others need no build.
  template <class D>
  struct parts final : program_parts {
    using built = decltype(std::declval<D&>().build(std::declval<program&>()));
    explicit parts(built w) : what(std::move(w)) {}
    built what;
  };
  /// Between two looks at one event: often enough to cost a request nothing that counts, and seldom
  /// enough that the driver's lock is free for the lanes.
  static constexpr std::int64_t ask_again_ns = 5000;
  /// Events asked for in one round, so that many of them do not keep the lanes waiting.
  static constexpr int most_asked = 8;
  using dispatcher_type = dispatcher<P, interruptible<Device>, chosen_accountant, hearing>;

  template <policy Q>
  [[nodiscard]] static Q make(const settings& how) {
    if constexpr (requires { &Q::set_threshold; })
      return Q(how.threshold);
    else if constexpr (std::same_as<Q, round_robin>)
      return Q(how.slice);
    else if constexpr (std::same_as<Q, gamma_boost>)
      return Q(factor_of(how.policy));
    else
      return Q();
  }
  [[nodiscard]] static P make_policy(const settings& how) {
    return P([] { return edf(); }, [&] { return make<Best>(how); });
  }

  /// The device's time zero, as near as two readings of the clock can say.
  [[nodiscard]] static std::int64_t epoch_of(const Device& d) noexcept {
    std::int64_t best = 0;
    std::int64_t narrowest = never_ns;
    for (int i = 0; i < 16; ++i) {
      const std::int64_t before = now_ns();
      const std::int64_t then = d.now().time_since_epoch().count();
      const std::int64_t width = now_ns() - before;
      if (width >= narrowest) continue;
      narrowest = width;
      best = before + width / 2 - then;
    }
    return best;
  }

  /// One round; false if there was nothing to do.
  bool round() {
    const bool stop = at_.stopping.load(sync::acquire); // [Z1] acquire <- [Z1] release in stop
    bool moved = at_.box.take_each([&](message& m) { take(m); });
    stopping_ = stop; // what was posted before was served as always
    moved |= work_on_commands();
    moved |= ask_for_events();
    moved |= dispatch_.step();
    if (moved) look_for_failure();
    // unordered: the number alone counts
    if (stopping_ && now_ns() >= at_.drain_until_ns.load(sync::relaxed)) give_up_active();
    return moved;
  }

  void take(message& m) noexcept {
    switch (m.what) {
    case message::kind::submit: submit(*static_cast<ticket*>(m.of)); return;
    case message::kind::cancel: {
      ticket& t = *static_cast<ticket*>(m.of);
      if (!t.has_ended()) dispatch_.cancel(t.id);
      t.let_go();
      return;
    }
    case message::kind::command: at_.commands.push_back(static_cast<command*>(m.of)); return;
    }
  }

  void submit(ticket& t) noexcept {
    at_.live.push_back(t);
    desk::entry& of = at_.models[t.model];
    if (stopping_) {
      t.code = GSCHED_CLOSED;
      return refuse(t, GSCHED_CANCELLED, "cancelled: the server was closed");
    }
    const model_record& kind = *of.record.load(sync::relaxed); // unordered: written by this thread
    if (kind.closed) return refuse(t, GSCHED_CANCELLED, "cancelled: its model was removed");
    job_request r;
    if (t.after != nullptr && !follow(t, r)) return;
    if (t.wait_event != nullptr && !await(t, r)) return;
    t.taken_up = true;
    of.active.fetch_add(1, sync::relaxed); // unordered: remove_model asks this thread first
    if (r.held) awaiting_.push_back(t);
    r.model = kind.id;
    r.owner = clients_[t.client];
    r.service = t.real_time ? service_class::real_time : service_class::best_effort;
    r.arrival = to_point(t.arrival_ns);
    if (t.deadline_ns != never_ns) r.deadline = to_point(t.deadline_ns);
    r.user = &t;
    try {
      static_cast<void>(dispatch_.submit(r));
    } catch (...) { // no memory for one more job
      const refusal why = refusal_of_current_exception();
      t.code = why.code();
      refuse(t, GSCHED_FAILED, why.what());
    }
  }

  /// False if the request before it has ended otherwise than finished, and so has this one.
  [[nodiscard]] bool follow(ticket& t, job_request& r) noexcept {
    const ticket& before = *t.after;
    const char* why = nullptr;
    if (!before.has_ended()) {
      r.after = before.id;
      if (!before.taken_up) why = "cancelled: its predecessor was not submitted before it";
    } else if (before.state == GSCHED_FAILED) {
      why = "cancelled: its predecessor failed";
    } else if (before.state == GSCHED_REJECTED) {
      why = "cancelled: its predecessor was rejected";
    } else if (before.state == GSCHED_CANCELLED) {
      why = "cancelled: its predecessor was cancelled";
    }
    std::exchange(t.after, nullptr)->let_go();
    if (why != nullptr) refuse(t, GSCHED_CANCELLED, why);
    return why == nullptr;
  }

  /// False if its event has failed, and so has the request.
  [[nodiscard]] bool await(ticket& t, job_request& r) noexcept {
    t.asked_ns = now_ns();
    const event_answer a = ask(t);
    r.held = a.what == event_answer::kind::pending;
    if (a.what != event_answer::kind::failed) return true;
    const refusal why = refusal_of(refusal_for(a));
    t.code = why.code();
    refuse(t, GSCHED_FAILED, why.what());
    return false;
  }

  /// Ends a request that the dispatcher does not know.
  void refuse(ticket& t, gsched_state how, const char* why) noexcept {
    set_line(t.error, why);
    ++(how == GSCHED_FAILED ? failed_here_ : refused_);
    at_.end(t, how, now_ns());
  }

  // Events ------------------------------------------------------------------------------------

  [[nodiscard]] event_answer ask(const ticket& t) noexcept {
    if (!events_.query) return {event_answer::kind::failed, 0};
    return at_.whose.away([this, event = t.wait_event]() noexcept { return events_.query(event); });
  }
  [[nodiscard]] static gsched_code code_of(const event_answer& a) noexcept {
    constexpr int invalid_value = 1, invalid_handle = 400; // of CUDA: the caller's
    const bool callers = a.code == 0 || a.code == invalid_value || a.code == invalid_handle;
    return callers ? GSCHED_BAD_ARGUMENT : GSCHED_DEVICE_FAILED;
  }
  [[nodiscard]] std::string line_of(const event_answer& a) const {
    return "wait_event: " +
           (events_.words ? events_.words(a.code) : std::string("this server has no events"));
  }

  [[nodiscard]] std::exception_ptr refusal_for(const event_answer& a) const noexcept {
    try {
      return std::make_exception_ptr(refusal(code_of(a), line_of(a)));
    } catch (...) { // no memory for the line
      return std::current_exception();
    }
  }

  /// Lets those go whose events have completed; those that have not been asked for longest first.
  bool ask_for_events() noexcept {
    if (awaiting_.empty()) return false;
    bool moved = false;
    const std::int64_t now = now_ns();
    for (int left = most_asked; left > 0 && !awaiting_.empty(); --left) {
      ticket& t = awaiting_.front();
      if (now - t.asked_ns < ask_again_ns) break;
      awaiting_.pop_front();
      t.asked_ns = now;
      const event_answer a = ask(t);
      if (a.what == event_answer::kind::pending) {
        awaiting_.push_back(t);
        continue;
      }
      moved = true;
      if (a.what == event_answer::kind::complete)
        static_cast<void>(dispatch_.release(t.id));
      else
        static_cast<void>(dispatch_.fail(t.id, refusal_for(a)));
    }
    return moved;
  }

  /// One turn of the oldest command.
  bool work_on_commands() noexcept {
    if (at_.commands.empty()) return false;
    command& c = *at_.commands.front();
    std::optional<refusal> refused;
    try {
      if (!c.turn(*this)) return true;
    } catch (...) {
      refused = refusal_of_current_exception();
    }
    at_.commands.pop_front();
    c.answer(std::move(refused));
    return true;
  }

  /// A segment was not reported within its limit (dispatch_options::segment_limit).
  [[nodiscard]] bool has_lost() const noexcept { return dispatch_.statistics().lost_segments > 0; }

  void look_for_failure() {
    bool hangs = has_lost(); // on the GPU it may run yet
    if constexpr (requires(const Device& d) { d.statistics().hung; })
      hangs |= device_.statistics().hung > 0;
    if (hangs && !std::exchange(hangs_, true))
      at_.hangs.store(true, sync::release); // [F2] release -> [F2] acquire in keeps_memory
    if constexpr (tells_failure) {
      if (!device_.failure()) return;
      if (!std::exchange(failed_, true)) at_.set_failure(*device_.failure());
      while (!awaiting_.empty()) { // their events may never complete
        ticket& t = awaiting_.front();
        awaiting_.pop_front();
        static_cast<void>(dispatch_.fail(t.id, gsched::failure_of(device_, errc::device_failed)));
      }
    }
  }

  void give_up_active() {
    if (dispatch_.idle() || std::exchange(gave_up_, true)) return;
    dispatch_.cancel_all();
  }

  /// Nothing to do now: waits for the device, or for somebody to post.
  void rest(std::int64_t now) {
    if (!dispatch_.nothing_in_flight() || !awaiting_.empty()) {
      // So short that a request which is posted meanwhile is seen within a few microseconds.
      driver_.wait(std::min(device_.now() + std::chrono::microseconds{2}, dispatch_.step_by()));
      return;
    }
    if (!dispatch_.idle()) return dispatch_.cancel_all(); // they wait for what never comes
    if (!quiet_since_) quiet_since_ = now;
    if (now - *quiet_since_ < settings_.spin.count() || stopping_) return;
    ++sleeps_;
    at_.bell.sleep_unless([&] {
      return !at_.box.was_empty() || at_.stopping.load(sync::relaxed);
    }); // the bell orders
    quiet_since_.reset();
  }

  [[nodiscard]] time_point to_point(std::int64_t ns) const noexcept {
    return time_point{duration{ns - hears_.epoch_ns}};
  }

  desk& at_;
  settings settings_;
  Device device_;
  event_source events_;
  interruptible<Device> driver_;
  P order_;
  chosen_accountant account_;
  hearing hears_;
  dispatcher_type dispatch_;
  std::vector<client*> clients_;
  awaiting_list awaiting_; ///< held until their events have completed
  bool stopping_ = false;
  bool gave_up_ = false;
  bool failed_ = false;
  bool hangs_ = false;
  std::uint64_t refused_ = 0;     ///< ended here, before the dispatcher knew of them ...
  std::uint64_t failed_here_ = 0; ///< ... or could
  std::int64_t host_ns_ = 0;
  std::uint64_t sleeps_ = 0;
  std::optional<std::int64_t> quiet_since_;
};

} // namespace gsched::abi
