// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/chosen_accountant.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/server/described_error.hpp>
#include <gsched/server/detail/clock_epoch.hpp>
#include <gsched/server/detail/engine.hpp>
#include <gsched/server/detail/event_waits.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/interruptible_device.hpp>
#include <gsched/server/detail/message.hpp>
#include <gsched/server/detail/request_listener.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/observer.hpp>
#include <gsched/server/options.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/request_source.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched::detail {

/// The loop of one server: a dispatcher on a device whose time runs with CLOCK_MONOTONIC.
///
/// When a device says failure(), all that was accepted ends as failed with that line, and nothing
/// more is accepted.
///
/// Threads  all of it, from the constructor to the destructor, on the server's thread.
template <policy Policy, device Device>
class device_engine final : public engine, public request_taker {
public:
  /// make_device() and make_policy() return both by value, and make_events(device) the device's
  /// event_source.
  template <class MakeDevice, class MakePolicy, class MakeEvents>
  device_engine(server_state& at, const server_options& how, MakeDevice make_device,
                MakePolicy make_policy, MakeEvents make_events)
      : at_(at), options_(how), device_(make_device()), events_(make_events(device_)),
        driver_(device_, at.whose), order_(make_policy()),
        account_(device_.limits().sm, device_.limits().sms, how.account,
                 how.dispatch.instrumented ? account_of::blocks : account_of::segments),
        hears_(at, epoch_of(device_), how.decision_delay),
        dispatch_(driver_, order_, account_, hears_, how.dispatch), waits_(at, events_) {
    if constexpr (tells_failure) hears_.device_failure = &device_.failure();
    at_.events = &events_;
  }

  ~device_engine() override {
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
    for (request_source* const s : sources_) static_cast<void>(s->poll(*this)); // the last ends
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

  std::unique_ptr<built_program> build(program& p) override {
    if constexpr (builds)
      return std::make_unique<built_by<Device>>(device_.build(p));
    else
      return nullptr;
  }

  void load(program& p, std::unique_ptr<built_program> built, model_facts& costs) override {
    if constexpr (builds)
      dispatch_.load(p, std::move(static_cast<built_by<Device>&>(*built).what));
    else
      dispatch_.load(p);
    costs.operations = p.size();
    costs.segments = p.grain_ends().empty() ? 1 : p.grain_ends().size() - 1;
    costs.expected = p.expected();
    ++costs.instances;
    if constexpr (requires(const Device& d) { d.memory_of(p).nodes; }) {
      const auto memory = device_.memory_of(p);
      costs.device_bytes += memory.device_bytes;
      costs.graphs += memory.graphs;
      costs.nodes += memory.nodes;
    }
  }

  unloaded unload(program& p) override {
    unloaded out{unloads};
    if constexpr (requires { device_.hangs(p.id()); }) out.hangs = device_.hangs(p.id());
    try {
      if constexpr (builds)
        out.built = std::make_unique<built_by<Device>>(dispatch_.unload(p));
      else
        dispatch_.unload(p);
    } catch (const error& e) { // a segment that was given up is in flight on the device
      if (!has_lost() || e.code() != errc::bad_option) throw;
      out = {.forgotten = false, .hangs = true};
    }
    return out;
  }

  std::uint32_t add(served_model& m) override {
    const std::uint32_t id = at_.models_count.load(sync::relaxed); // unordered: written here alone
    refuse_one_more_model(id);
    const program* const first = m.instances.front().program;
    m.id = dispatch_.add_model(m.name, m, first, static_cast<std::uint32_t>(m.instances.size()));
    try {
      for (const model_instance& i : m.instances)
        if (i.program != first) dispatch_.add_replica(m.id, *i.program, *first);
      for (const std::uint32_t each : m.excludes)
        // unordered: written by this thread
        if (const served_model& other = *at_.models[each].record.load(sync::relaxed);
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

  void remove(served_model& m) override {
    dispatch_.remove(m.id);
    m.removed = true;
  }

  void attach(request_source& s) override {
    sources_.push_back(&s);
    if (closed_sources_) s.close();
  }
  void detach(request_source& s) noexcept override { std::erase(sources_, &s); }

  void observe(server_observer* by) noexcept override { hears_.observer = by; }

  [[nodiscard]] bool has_model(std::uint32_t model) const noexcept override {
    // unordered: written by this thread
    return model < at_.models_count.load(sync::relaxed) &&
           !at_.models[model].record.load(sync::relaxed)->closed;
  }
  void take(request_record& r) noexcept override { submit(r); }
  void cancel(request_record& r) noexcept override {
    // unordered: this thread reads it
    if (!r.has_ended() && !r.cancelling.exchange(true, sync::relaxed)) dispatch_.cancel(r.id);
  }

  [[nodiscard]] server_statistics statistics() noexcept override {
    server_statistics out{};
    out.requests = dispatch_.statistics();
    dispatch_statistics& n = out.requests;
    n.submitted += refused_ + failed_here_;
    n.finished -= at_.unsignalled;
    n.failed += failed_here_ + at_.unsignalled;
    n.cancelled += refused_;
    out.preemption = dispatch_.preemption();
    out.use = dispatch_.use();
    out.up_time = device_.now().time_since_epoch();
    out.sms = device_.limits().sms.count();
    if constexpr (requires(Device& d) { d.sm_time(); }) {
      out.kernel_time = device_.busy_time();
      out.sm_seconds = device_.sm_time();
    }
    out.host_time = duration{host_ns_};
    out.sleeps = sleeps_;
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
    if constexpr (requires(const Device& d) { d.hangs(); }) out.hangs = device_.hangs();
    return out;
  }

private:
  static constexpr bool tells_failure = requires(const Device& d) { d.failure()->c_str(); };
  static constexpr bool unloads = requires(Device& d, program& p) { d.unload(p); };
  static constexpr bool builds = requires(Device& d, program& p) { d.build(p); };
  /// What D built; D is Device, and a parameter so that a device without build compiles.
  template <class D>
  struct built_by final : built_program {
    using built = decltype(std::declval<D&>().build(std::declval<program&>()));
    explicit built_by(built w) : what(std::move(w)) {}
    built what;
  };
  using dispatcher_type =
      dispatcher<Policy, interruptible_device<Device>, chosen_accountant, request_listener>;

  /// One round; false if there was nothing to do.
  bool round() {
    const bool stop = at_.stopping.load(sync::acquire); // [Z1] acquire <- [Z1] release in stop
    driver_.read_clock();
    bool moved = at_.box.take_each([&](message& m) { take(m); });
    stopping_ = stop; // what was posted before was served as always
    if (stop && !std::exchange(closed_sources_, true))
      for (request_source* const s : sources_) s->close();
    for (request_source* const s : sources_) moved |= s->poll(*this);
    moved |= at_.work_on_commands(*this);
    moved |= ask_for_events();
    moved |= dispatch_.step();
    if (moved) look_for_failure();
    // unordered: the number alone counts
    if (stopping_ && now_ns() >= at_.drain_until_ns.load(sync::relaxed)) give_up_active();
    return moved;
  }

  void take(message& m) noexcept {
    switch (m.what) {
    case message::kind::submit: submit(*static_cast<request_record*>(m.of)); return;
    case message::kind::cancel: {
      request_record& t = *static_cast<request_record*>(m.of);
      if (!t.has_ended()) dispatch_.cancel(t.id);
      t.release();
      return;
    }
    case message::kind::command: at_.commands.push_back(static_cast<command*>(m.of)); return;
    }
  }

  void submit(request_record& t) noexcept {
    if (to_point(t.arrival_ns) > driver_.now()) driver_.read_clock(); // it starts after it came
    at_.live.push_back(t);
    server_state::entry& of = at_.models[t.model];
    if (stopping_) {
      t.code = errc::closed;
      return refuse(t, request_status::cancelled, "cancelled: the server was closed");
    }
    const served_model& kind = *of.record.load(sync::relaxed); // unordered: written by this thread
    if (kind.closed)
      return refuse(t, request_status::cancelled, "cancelled: its model was removed");
    job_request r;
    if (t.after != nullptr && !follow(t, r)) return;
    if (t.wait_event != nullptr && !await(t, r)) return;
    t.taken_up = true;
    of.active.fetch_add(1, sync::relaxed); // unordered: remove_model asks this thread first
    if (r.held) waits_.hold(t);
    r.model = kind.id;
    r.owner = clients_[t.client];
    r.service = t.real_time ? service_class::real_time : service_class::best_effort;
    r.arrival = to_point(t.arrival_ns);
    if (t.deadline_ns != never_ns) r.deadline = to_point(t.deadline_ns);
    r.user = &t;
    try {
      static_cast<void>(dispatch_.submit(r));
    } catch (...) { // no memory for one more job
      const described_error why = describe_current_exception();
      t.code = why.code;
      refuse(t, request_status::failed, why.line.c_str());
    }
  }

  /// False if the request before it has ended otherwise than finished, and so has this one.
  [[nodiscard]] bool follow(request_record& t, job_request& r) noexcept {
    const request_record& before = *t.after;
    const char* why = nullptr;
    if (!before.has_ended()) {
      r.after = before.id;
      if (!before.taken_up) why = "cancelled: its predecessor was not submitted before it";
    } else if (before.status == request_status::failed) {
      why = "cancelled: its predecessor failed";
    } else if (before.status == request_status::rejected) {
      why = "cancelled: its predecessor was rejected";
    } else if (before.status == request_status::cancelled) {
      why = "cancelled: its predecessor was cancelled";
    }
    std::exchange(t.after, nullptr)->release();
    if (why != nullptr) refuse(t, request_status::cancelled, why);
    return why == nullptr;
  }

  /// False if its event has failed, and so has the request.
  [[nodiscard]] bool await(request_record& t, job_request& r) noexcept {
    const event_answer a = waits_.ask(t);
    r.held = a.what == event_answer::kind::pending;
    if (a.what != event_answer::kind::failed) return true;
    const described_error why = describe(waits_.failure_for(a));
    t.code = why.code;
    refuse(t, request_status::failed, why.line.c_str());
    return false;
  }

  /// Ends a request that the dispatcher does not know.
  void refuse(request_record& t, request_status how, const char* why) noexcept {
    set_line(t.error, why);
    ++(how == request_status::failed ? failed_here_ : refused_);
    at_.end(t, how, now_ns());
  }

  // Events ------------------------------------------------------------------------------------

  /// Releases requests whose events have completed.
  bool ask_for_events() noexcept {
    return waits_.look([this](request_record& t) { static_cast<void>(dispatch_.release(t.id)); },
                       [this](request_record& t, std::exception_ptr why) {
                         static_cast<void>(dispatch_.fail(t.id, std::move(why)));
                       });
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
      waits_.take_all([this](request_record& t) { // their events may never complete
        static_cast<void>(dispatch_.fail(t.id, gsched::failure_of(device_, errc::device_failed)));
      });
    }
  }

  void give_up_active() {
    if (dispatch_.idle() || std::exchange(gave_up_, true)) return;
    dispatch_.cancel_all();
  }

  /// Without work now: waits for the device, or for a post.
  void rest(std::int64_t now) {
    if (!dispatch_.nothing_in_flight() || !waits_.empty()) {
      // So short that a request which is posted meanwhile is seen within a few microseconds.
      driver_.wait(std::min(device_.now() + std::chrono::microseconds{2}, dispatch_.step_by()));
      return;
    }
    if (!dispatch_.idle()) return dispatch_.cancel_all(); // they wait for what never comes
    if (!quiet_since_) quiet_since_ = now;
    if (now - *quiet_since_ < options_.spin.count() || stopping_) return;
    ++sleeps_;
    at_.bell.sleep_unless([&] { // the bell orders
      bool come = !at_.box.was_empty() || at_.stopping.load(sync::relaxed);
      for (request_source* const s : sources_) come |= s->fall_asleep();
      return come;
    });
    for (request_source* const s : sources_) s->wake_up();
    quiet_since_.reset();
  }

  [[nodiscard]] time_point to_point(std::int64_t ns) const noexcept {
    return time_point{duration{ns - hears_.epoch_ns}};
  }

  server_state& at_;
  server_options options_;
  Device device_;
  event_source events_;
  interruptible_device<Device> driver_;
  Policy order_;
  chosen_accountant account_;
  request_listener hears_;
  dispatcher_type dispatch_;
  std::vector<client*> clients_;
  event_waits waits_; ///< held until their events have completed
  std::vector<request_source*> sources_;
  bool closed_sources_ = false;
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

} // namespace gsched::detail
