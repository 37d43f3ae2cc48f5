// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/job/program.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/server/detail/device_engine.hpp>
#include <gsched/server/detail/engine.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/detail/stall_detector.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/observer.hpp>
#include <gsched/server/options.hpp>
#include <gsched/server/request.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/request_source.hpp>
#include <gsched/server/statistics.hpp>
#include <gsched/server/ticket.hpp>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched {

/// A dispatcher with a thread of its own: requests come from any thread and end as tickets,
/// callbacks or coroutines.
///
///     gsched::server s([] { return cuda::device(cuda::device_options{}); },
///                      [] { return deficit_over<srpt>(); });
///     const model_id infer = s.add_model("infer", program);
///     ticket t = s.submit({.model = infer, .client = s.add_client(), .deadline = 5ms});
///     if (t.wait().status != request_status::finished) ...
///
/// Every request ends: as finished, failed, rejected or cancelled, also when the device fails, a
/// kernel hangs, or the server is closed.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, sections 4.1 and 5, doi:10.1145/3600006.3613163.
/// Errors   gsched::error, one line: bad_option and unknown_name for bad arguments, in a child
///          process, and for a call that would wait for the thread on which it is made; closed
///          once the server is; device_failed once its device has.
/// Cost     submit: an allocation or two, a lock-free post, and a wake-up if the thread sleeps.
/// Threads  any, but for the destructor.
class server {
public:
  using clock = std::chrono::steady_clock;

  /// Starts the thread. There make_device() and make_policy() return both by value, and
  /// make_events(device) the device's event_source; throws what they throw. The device's time runs
  /// with CLOCK_MONOTONIC.
  template <std::invocable MakeDevice, std::invocable MakePolicy, class MakeEvents = no_events>
    requires device<std::invoke_result_t<MakeDevice&>> && policy<std::invoke_result_t<MakePolicy&>>
  server(MakeDevice make_device, MakePolicy make_policy, const server_options& how = {},
         MakeEvents make_events = {})
      : server(how, [=](detail::server_state& at) -> std::unique_ptr<detail::engine> {
          using Device = std::invoke_result_t<MakeDevice&>;
          using Policy = std::invoke_result_t<MakePolicy&>;
          return std::make_unique<detail::device_engine<Policy, Device>>(at, how, make_device,
                                                                         make_policy, make_events);
        }) {}
  /// Closes without draining, if it was not closed.
  virtual ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // Models and clients ------------------------------------------------------------------------

  /// Errors   bad_option for a weight that is not a finite number above 0.
  client_id add_client(double weight = 1.0);

  /// A model whose requests launch one of these programs: as many run at once as there are
  /// programs, which have the same operations. They live until the model is removed.
  model_id add_model(std::string name, std::vector<program> instances);
  model_id add_model(std::string name, program only);
  /// `make` gives the model, on the calling thread. It is called after all checks that can refuse
  /// the model; what may change meanwhile is checked again afterwards. Programs are built on the
  /// calling thread, while requests are served.
  /// Errors   bad_option for one model too many; as the device's build and load.
  model_id add_model(std::span<const model_id> excludes,
                     const std::function<std::unique_ptr<served_model>()>& make);
  /// Refuses further requests of a model, waits for those accepted, and frees it on the calling
  /// thread.
  /// Errors   timed_out if they have not ended in time: call it again; device_failed if one of its
  ///          kernels hangs: the memory of its graphs must never be freed or used again.
  void remove_model(model_id model, duration timeout = duration::max());
  /// In place until the server's end; its constant parts may be read.
  /// Errors   unknown_name.
  [[nodiscard]] const served_model& model(model_id id) const;

  // Requests ----------------------------------------------------------------------------------

  ticket submit(const server_request& r);
  /// Refuses what submit would refuse of a request. What it passes can still be refused, where the
  /// server or its device changes in between.
  void check(const server_request& r) const;
  /// The same for a request with more state, made by new for this server's state(); check(r) has
  /// passed it. `taken` is called with the request right before it is posted, since a callback may
  /// look for it there, and with null if the server was closed in between; without it the submitter
  /// gets no share. A `collected` request is handed out by collect, with the submitter's share.
  void submit_as(std::unique_ptr<request_record> made, const server_request& r, bool collected,
                 const std::function<void(request_record*)>& taken);
  /// What requests are made with.
  [[nodiscard]] const std::shared_ptr<detail::server_state>& state() const noexcept {
    return state_;
  }
  /// The time on CLOCK_MONOTONIC at which a timeout ends, saturated.
  [[nodiscard]] static std::int64_t end_of_wait(duration timeout) noexcept;
  /// Has collect hand out a request at its end. False if it has ended already.
  /// Errors   bad_option for one that is collected already.
  [[nodiscard]] static bool watch(request_record& s);
  /// Waits until requests that are to be collected have ended, or the timeout; writes up to `most`
  /// of them, each with a share, and returns how many: 0 after the timeout.
  /// Errors   closed once the server is, and all were handed out.
  [[nodiscard]] std::uint32_t collect(request_record** out, std::uint32_t most,
                                      duration timeout = duration::max());

  // Sources -----------------------------------------------------------------------------------

  /// Has the server's thread fetch requests from a source, until detach or the server's end, which
  /// it outlives.
  void attach(request_source& s);
  /// After it the source is not called any more. Requests that it has handed over are not affected.
  void detach(request_source& s);
  /// Wakes the server's thread, if it sleeps. Any thread; never waits.
  void wake() noexcept { state_->bell.ring(); }

  // The server --------------------------------------------------------------------------------

  [[nodiscard]] const server_options& options() const noexcept { return options_; }
  /// After close: as at the end.
  /// Errors   timed_out if the server's thread was abandoned.
  [[nodiscard]] server_statistics statistics();
  /// From now on it receives what the server's thread does, until the server's end or another call;
  /// null: nothing does.
  void observe(server_observer* by);
  /// Never waits, and reads four words: for what has to know the load often.
  [[nodiscard]] server_load was_load() const noexcept {
    // unordered: a snapshot
    return {state_->active.load(sync::relaxed), state_->waiting.load(sync::relaxed),
            duration{state_->queued_ns.load(sync::relaxed)}, state_->failed.load(sync::relaxed)};
  }

  /// Refuses further requests, serves those accepted for so long, cancels the rest, and ends the
  /// thread. Again: waits for the end.
  /// Errors   timed_out if the thread does not end, device_failed if the device has failed; the
  ///          server is closed nevertheless.
  void close(duration drain_for = duration::max());

protected:
  using make_engine = std::function<std::unique_ptr<detail::engine>(detail::server_state&)>;
  /// With another loop than that of a dispatcher. `make` is called on the server's thread.
  server(const server_options& how, make_engine make);
  /// Runs it on the server's thread; waits.
  void command(std::function<bool(detail::engine&)> round);
  void refuse_own_thread(const char* what) const { refuse_on_thread(*state_, what); }
  /// Waits until the server's thread has released everything; false if it was abandoned.
  [[nodiscard]] bool wait_stopped(std::int64_t deadline_ns) const;

private:
  struct visit;
  static void thread_main(const std::shared_ptr<detail::server_state>& at, make_engine make,
                          std::promise<std::exception_ptr> started);
  [[nodiscard]] static bool wait_for_visitors(detail::server_state& at);
  void refuse_if_gone() const;
  void refuse_unknown(std::uint32_t model) const;
  void refuse_full() const;

  server_options options_;
  std::shared_ptr<detail::server_state> state_;
};

} // namespace gsched

#include <gsched/server/detail/server_members.hpp>
