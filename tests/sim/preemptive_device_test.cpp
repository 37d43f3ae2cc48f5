// SPDX-License-Identifier: Apache-2.0
#include <device/preemptive_conformance.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <tuple>

namespace gsched::testing {
namespace {

struct sim_rig {
  using device = sim::device;
  static constexpr bool leaves = true;
  static device make() { return device(sim::h200()); }
  static std::uint64_t ended_again(device& d) { return d.rerun_blocks(); }
};
struct narrow_rig : sim_rig { // one queue, one kernel at a time, no laws, fewer gates
  static device make() {
    sim::preset p = sim::h200();
    p.hardware_queues = 1;
    p.sms = sm_count{30};
    p.resident_grids = 1;
    p.laws.contended = false;
    p.yields.gate_every = 3;
    return device(p);
  }
};
struct free_rig : sim_rig { // nothing of it takes time
  static device make() {
    sim::preset p = sim::h200();
    p.host = {};
    p.gaps = {};
    p.laws.graph = {1.0, duration::zero()};
    p.yields = {2, {}, {}, {}, {}, {}, {}, {}};
    return device(p);
  }
};
using rigs = std::tuple<sim_rig, narrow_rig, free_rig>;

TEST_CASE_TEMPLATE_APPLY(device_yielding, rigs);
TEST_CASE_TEMPLATE_APPLY(device_leaving, rigs);
TEST_CASE_TEMPLATE_APPLY(device_progress, rigs);
TEST_CASE_TEMPLATE_APPLY(device_holding, rigs);
TEST_CASE_TEMPLATE_APPLY(device_resuming, rigs);
TEST_CASE_TEMPLATE_APPLY(device_others, rigs);
TEST_CASE_TEMPLATE_APPLY(device_yield_hot_path, rigs);

} // namespace
} // namespace gsched::testing
