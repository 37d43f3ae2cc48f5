// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dispatch/shared/native_dispatchers.hpp"

#include <gsched/io/profile_json.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/workload/serve_workload.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gsched::test {

/// A request of a served mix.
struct planned {
  time_point at{};
  std::uint32_t model = 0;
  std::uint32_t client = 0;
  duration allowed = run_to_completion; ///< until its deadline, from `at`
};

/// The outcome of a request.
struct outcome {
  job_state how = job_state::waiting;
  duration latency{};
};

/// Models of tools/data/profiles on the simulated H200, each job a copy in, the model and a copy
/// out, as in serve_mix; and the outcomes of a list of requests.
class served_mix {
public:
  struct settings {
    dispatch_options dispatch{};
    accountant_options account{};
    std::vector<double> weights{1.0}; ///< of the clients
    std::uint32_t instances = instance_pool::unlimited;
    bool waits_at_end = false; ///< bodies end in a synchronous call
    bool natively = false;     ///< the policy's own dispatcher: see native_dispatcher
  };

  explicit served_mix(const std::vector<std::string>& models) {
    for (const std::string& name : models)
      profiles_.push_back(load_profile(
          std::filesystem::path(GSCHED_SOURCE_DIR "/tools/data/profiles") / (name + ".json")));
  }

  /// The latency of a single request of the model.
  [[nodiscard]] duration alone(std::uint32_t model) const {
    fifo order;
    settings how;
    how.dispatch.most_quantum = how.dispatch.quantum = run_to_completion;
    return serve(order, how, {{{}, model, 0}}).front().latency;
  }

  /// `until`: requests that have not ended by then are cancelled.
  template <policy P>
  std::vector<outcome> serve(P& order, const settings& how, std::vector<planned> requests,
                             time_point until = no_deadline) const {
    std::stable_sort(requests.begin(), requests.end(),
                     [](const planned& a, const planned& b) { return a.at < b.at; });
    std::deque<body> bodies;
    sim::device device(sim::h200());
    aggregate_accountant account(device.limits().sm, device.limits().sms, how.account);
    listener_type hears;
    const shared_dispatcher made =
        how.natively ? native_dispatcher(device, order, account, hears, how.dispatch)
                     : shared_dispatcher(device, order, account, hears, how.dispatch);
    any_dispatcher& dispatch = *made;
    std::vector<model_id> ids;
    for (const profile& p : profiles_) {
      bodies.emplace_back(p, how.waits_at_end);
      dispatch.load(bodies.back().graph);
      ids.push_back(
          dispatch.add_model(p.full_name(), bodies.back(), &bodies.back().graph, how.instances));
    }
    std::vector<client*> clients;
    for (const double weight : how.weights) clients.push_back(&dispatch.add_client(weight));
    std::vector<outcome> out(requests.size());
    const auto submit = [&](std::size_t i) {
      const planned& q = requests[i];
      job_request r;
      r.model = ids[q.model];
      r.owner = clients[q.client];
      r.arrival = q.at;
      if (q.allowed != run_to_completion) r.deadline = q.at + q.allowed;
      r.user = &out[i];
      static_cast<void>(dispatch.submit(r));
    };
    for (std::size_t next = 0;;) {
      for (; next < requests.size() && requests[next].at <= device.now(); ++next) submit(next);
      if (device.now() >= until) dispatch.cancel_all();
      if (dispatch.step()) continue;
      if (dispatch.idle() && (next == requests.size() || device.now() >= until)) break;
      device.wait(next < requests.size() ? requests[next].at : no_deadline);
    }
    announced = hears.announced;
    return out;
  }

  mutable std::uint64_t announced = 0; ///< jobs with on_almost_finished

private:
  struct body {
    body(const profile& p, bool waits)
        : graph(to_program(p)), in(p.input), out(p.output), waits_at_end(waits) {}
    program graph;
    byte_count in, out;
    bool waits_at_end;
    task operator()(job_context& ctx) {
      const stream_id s = ctx.default_stream();
      if (in.count() > 0) ctx.copy_async(s, copy_direction::host_to_device, in);
      ctx.launch(s, graph);
      if (out.count() > 0) ctx.copy_async(s, copy_direction::device_to_host, out);
      if (waits_at_end) co_await ctx.synchronize(s);
    }
  };
  struct listener_type : silent_listener {
    std::uint64_t announced = 0;
    void on_almost_finished(const job&, void*, duration, time_point) noexcept { ++announced; }
    void on_end(const job& j, void* user, time_point now) noexcept {
      *static_cast<outcome*>(user) = {j.state, now - j.arrival};
    }
  };

  std::vector<profile> profiles_;
};

} // namespace gsched::test
