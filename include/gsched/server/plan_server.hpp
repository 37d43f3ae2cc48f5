// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/server/detail/engine.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/plan_engine.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/options.hpp>
#include <gsched/server/plan_options.hpp>
#include <gsched/server/server.hpp>
#include <gsched/serving/batch_runner.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace gsched {

/// A server that serves by plans: each model runs on partitions of the GPUs, in batches that are
/// made of the requests of all threads, and the partitions follow the measured rates.
///
///     plan_server s(std::move(offer), [&](const latency_table& t, const interference_function&) {
///       return cuda::partition_batches(options, source);
///     });
///     ticket t = s.submit({.model = model_id{0}, .payload = inputs_and_outputs});
///     if (t.wait().status == request_status::rejected) ... // it could not be in time
///
/// A request ends as finished when its batch has ended, with its outputs complete; as rejected when
/// no batch would end within its model's SLO any more; as cancelled or failed as those of any
/// server. Its SLO counts from its arrival. Models are numbered as in the offer; there is one
/// client, 0, and add_client gives more, which differ in nothing.
///
/// Source   Choi et al., USENIX ATC 2022, section 5; serving/plan_loop.hpp.
/// Errors   the constructor: those of plan_loop, of the planner and the runner; bad_option for an
///          offer whose models are not those of the table, and if no plan serves the expected rates
///          at all. add_model: bad_option. A request with a deadline of its own, or `after`, fails
///          with bad_option. If a later plan cannot be made, the current one stays (plan_report).
///          An error of a batch ends the service: what was accepted fails as device_failed.
/// Cost     as server; a batch costs the server's thread a pass over its requests, and what the
///          runner's begin and try_end take. While batches run, the thread polls.
/// Threads  as server.
class plan_server : public server {
public:
  /// make_runner(table, expected) returns the batch_runner by value, on the server's thread, and
  /// make_events(runner) its event_source; both arguments stay in place until the server's end. The
  /// runner's time runs with CLOCK_MONOTONIC.
  template <class MakeRunner, class MakeEvents = no_events>
    requires batch_runner<
        std::invoke_result_t<MakeRunner&, const latency_table&, const interference_function&>>
  plan_server(plan_offer offer, MakeRunner make_runner, const plan_server_options& how = {},
              MakeEvents make_events = {})
      : plan_server(std::make_shared<plan_offer>(std::move(offer)), make_runner, how, make_events,
                    std::make_shared<plan_report>()) {}

  /// After close: as at the end.
  /// Errors   timed_out if the server's thread was abandoned.
  [[nodiscard]] plan_report report() {
    refuse_own_thread("report");
    plan_report out;
    try {
      command([&](detail::engine& e) {
        out = static_cast<detail::reporting_engine&>(e).report();
        return true;
      });
    } catch (const error& e) {
      if (e.code() != errc::closed) throw;
      if (!wait_stopped(detail::never_ns))
        throw error(errc::timed_out, "the server's thread was abandoned in the driver");
      out = *last_;
    }
    return out;
  }

private:
  template <class MakeRunner, class MakeEvents>
  plan_server(const std::shared_ptr<plan_offer>& offer, MakeRunner make_runner,
              const plan_server_options& how, MakeEvents make_events,
              const std::shared_ptr<plan_report>& last)
      : server(options_of(how),
               [=](detail::server_state& at) -> std::unique_ptr<detail::engine> {
                 using Runner = std::invoke_result_t<MakeRunner&, const latency_table&,
                                                     const interference_function&>;
                 return std::make_unique<detail::plan_engine<Runner>>(
                     at, std::move(*offer), how, make_runner, make_events, last);
               }),
        last_(last) {}

  [[nodiscard]] static server_options options_of(const plan_server_options& how) {
    server_options o;
    o.spin = how.spin;
    o.longest_hang = how.longest_hang;
    return o;
  }

  std::shared_ptr<plan_report> last_; ///< written at the end of the server's thread
};

} // namespace gsched
