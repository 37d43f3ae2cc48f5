// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/pad_programs.hpp"
#include "realtime/platform.hpp"
#include "realtime/result_collector.hpp"

#include "common/run/backend.hpp"
#include "common/run/traced_device.hpp"

#include <gsched/core/time.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/preempt/statistics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace realtime {

[[nodiscard]] inline timed timed_of(const gsched::timed_count& c) {
  return {c.count, c.latency.percentile(0.5), c.latency.percentile(0.99)};
}

/// Requests of a client that can be in flight at once; the others wait. Each has a program of its
/// own, as a captured graph has one set of addresses.
[[nodiscard]] inline std::uint32_t instances_of(const arrival_spec& a) noexcept {
  return a.law == arrival_law::closed ? std::min(a.under_way, 4u) : 2;
}

/// Submits requests as they fall due and drives the dispatcher until the run's end, and on until
/// every request has ended.
template <class Dispatcher, class Device, class Books, class Submit>
void drive(Dispatcher& to, Device& on, Books& books, Submit submit) {
  for (;;) {
    std::optional<sources::next_request> next = books.next();
    for (; next && next->at <= on.now(); next = books.next()) submit(*next);
    if (to.step()) {
      books.show_progress();
      continue;
    }
    next = books.next();
    if (to.idle() && !next) return;
    if (to.nothing_in_flight() && !next)
      to.cancel_all(); // they wait for events that cannot come
    else
      on.wait(std::min(books.until(next), to.step_by()));
  }
}

template <common::backend S>
void serve_on(S& on, const run_request& run) {
  using namespace gsched;
  using device_type = common::traced_device<typename S::device>;
  std::deque<typename S::body> bodies;   // outlive the dispatcher, and the device that loaded them
  std::deque<typename S::padded> padded; // the same
  std::vector<std::uint32_t> instances;
  for (std::size_t i = 0; i < run.clients.size(); ++i) {
    const client_spec& c = run.clients[i];
    instances.push_back(instances_of(c.arrivals));
    bodies.push_back(on.make_body(run.models[i], c.real_time() ? preemptibility::never : run.leaves,
                                  instances.back()));
  }
  if (run.record != nullptr) run.record->use_lanes(run.how.dispatch.lanes);
  device_type device(on.make_device(run.how), run.record);
  aggregate_accountant account(device.limits().sm, device.limits().sms, run.how.account);
  ordering order;
  order.set_whole(run.whole);
  result_collector<S, device_type> books(on, device, order, run);
  dispatcher<ordering, device_type, aggregate_accountant, result_collector<S, device_type>>
      dispatch(device, order, account, books, run.how.dispatch);
  std::vector<model_id> ids;
  std::vector<client*> owners;
  for (std::size_t i = 0; i < run.clients.size(); ++i) {
    program& p = bodies[i].program(0);
    dispatch.load(p);
    ids.push_back(dispatch.add_model(run.clients[i].name, bodies[i], &p, instances[i]));
    for (std::uint32_t k = 1; k < instances[i]; ++k) {
      dispatch.load(bodies[i].program(k));
      dispatch.add_replica(ids.back(), bodies[i].program(k), p);
    }
    owners.push_back(&dispatch.add_client());
  }
  if (run.pad) pad_programs(on, device.inner(), dispatch, run, bodies, instances, padded);
  run.result.padded_programs = padded.size();
  books.begin();
  const auto submit = [&](const sources::next_request& q) {
    job_request r;
    r.model = ids[q.client];
    r.owner = owners[q.client];
    r.service = run.clients[q.client].service;
    r.arrival = q.at;
    r.user = &books.add_request(q.client);
    run.from.take(q.client);
    static_cast<void>(dispatch.submit(r));
  };
  drive(dispatch, device, books, submit);
  books.end();
  const preemption_statistics& p = dispatch.preemption();
  run.result.preemptions = timed_of(p.preemptions);
  run.result.restores = timed_of(p.restores);
  run.result.starvations = p.starvations;
  run.result.longest_wait = p.longest_wait;
  run.result.preempted_segments = p.preempted_segments;
  run.result.undone_operations = p.undone_operations;
  run.result.side_segments = p.side_segments;
  run.result.reserved_segments = p.reserved_segments;
  for (const model_id id : ids) run.result.reserved.push_back(dispatch.reserved(id).count());
  run.result.padded_segments = p.padded_segments;
  run.result.carried_operations = p.carried_operations;
  run.result.carried = p.carried;
  run.result.padded_alone = p.padded_alone;
  run.result.padded_took = p.padded_took;
  run.result.rerun_blocks = on.rerun(device.inner());
  on.finish(device.inner(), dispatch.statistics());
}

} // namespace realtime
