// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dispatch/shared/any_dispatcher.hpp"

#include <gsched/device/null_device.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

/// Records all events.
struct recording_listener : gsched::silent_listener {
  struct submitted {
    gsched::job_id job{};
    gsched::segment_id segment{};
    gsched::lane_id lane{};
    gsched::duration expected{};
  };
  struct ended {
    gsched::job_id id{};
    gsched::job_state how{};
  };
  void on_submit(const gsched::job& j, const gsched::segment& s, gsched::duration expected,
                 gsched::time_point) noexcept {
    submits.push_back({j.id, s.id, s.lane, expected});
    most_in_flight = std::max(most_in_flight, ++in_flight);
  }
  void on_segment_end(const gsched::job&, gsched::segment_id, gsched::time_point) noexcept {
    --in_flight;
  }
  void on_almost_finished(const gsched::job&, void*, gsched::duration,
                          gsched::time_point) noexcept {
    ++almost_finished;
    submits_before_almost = static_cast<int>(submits.size());
  }
  void on_end(const gsched::job& j, void*, gsched::time_point) noexcept {
    ends.push_back({j.id, j.state});
  }

  std::vector<submitted> submits;
  std::vector<ended> ends;
  int almost_finished = 0;
  int submits_before_almost = 0;
  std::uint32_t in_flight = 0;
  std::uint32_t most_in_flight = 0;
};

/// A dispatcher on a null device with all that it refers to.
template <gsched::policy P, class Listener = recording_listener>
struct rig {
  explicit rig(const gsched::dispatch_options& o = even())
      : device({gsched::limits_for(9, 0), gsched::sm_count{132},
                o.lanes + o.preemption.real_time_lanes},
               gsched::from_us(50)),
        account(device.limits().sm, device.limits().sms, accountant_options()),
        made(device, order, account, hears, o) {}

  /// Options with segments of one quantum, whether or not jobs wait.
  static gsched::dispatch_options even() {
    gsched::dispatch_options o;
    o.most_quantum = o.quantum;
    return o;
  }

  static gsched::accountant_options accountant_options() {
    gsched::accountant_options a;
    a.max_outstanding = 4096;
    a.overshoot_fill = 1e6;
    return a;
  }

  gsched::program& make_program(std::string name, std::size_t operations, gsched::duration each) {
    gsched::operation op;
    op.launch.grid = {132, 1, 1};
    op.launch.block = {128, 1, 1};
    op.launch.registers_per_thread = 32;
    op.expected = each;
    std::vector<gsched::operation> all(operations, op);
    for (std::size_t i = 0; i < operations; ++i)
      all[i].kernel = gsched::kernel_id{static_cast<std::uint32_t>(i % 5)};
    programs.emplace_back(std::move(name), std::move(all));
    dispatch.load(programs.back());
    return programs.back();
  }

  gsched::job_request request(gsched::model_id m, gsched::client& c) const {
    gsched::job_request q;
    q.model = m;
    q.owner = &c;
    q.arrival = device.now();
    return q;
  }

  /// One round of the loop; false once no job is active.
  bool step_once() {
    if (!dispatch.step() && !dispatch.nothing_in_flight()) device.wait(gsched::no_deadline);
    return !dispatch.idle();
  }

  void run() {
    while (step_once()) {
    }
  }

  gsched::null_device device;
  P order;
  gsched::aggregate_accountant account;
  Listener hears;
  gsched::test::shared_dispatcher made;
  gsched::test::any_dispatcher& dispatch = *made;
  std::deque<gsched::program> programs;
};
