// SPDX-License-Identifier: Apache-2.0
#include <device/conformance.hpp>

#include <gsched/device/null_device.hpp>
#include <gsched/occupancy/limits.hpp>

#include <doctest/doctest.h>

#include <tuple>

using namespace gsched;
using namespace gsched::testing;

namespace {

struct null_rig {
  using device = null_device;
  static constexpr bool reports_blocks = false;
  static device make() { return device(limits(), from_us(5)); }
  static device_limits limits() { return {limits_for(9, 0), sm_count{132}, 8}; }
};
using rigs = std::tuple<null_rig>;

// Each near miss violates one requirement of the concept.
struct base {
  lane_id open_lane(const lane_options&) { return {}; }
  void load(program&) {}
  std::error_code submit(const segment&) noexcept { return {}; }
  std::size_t poll(std::span<device_event>) noexcept { return 0; }
  std::size_t evict(lane_id) noexcept { return 0; }
  void wait(time_point) noexcept {}
  time_point now() const noexcept { return {}; }
  const device_limits& limits() const noexcept { return limits_; }
  device_limits limits_{};
};
struct silent_open : base {
  void open_lane(const lane_options&) {}
};
struct rvalue_load : base {
  void load(const program&&) {} // accepts no program that persists
};
struct answering_load : base {
  program_id load(program&) { return {}; }
};
struct throwing_submit : base {
  std::error_code submit(const segment&) { return {}; }
};
struct blind_poll : base {
  bool poll(std::span<device_event>) noexcept { return false; }
};
struct throwing_poll : base {
  std::size_t poll(std::span<device_event>) { return 0; }
};
struct changing_now : base {
  time_point now() noexcept { return {}; }
};
struct silent_evict : base {
  void evict(lane_id) noexcept {}
};
struct throwing_wait : base {
  void wait(time_point) {}
};
struct copied_limits : base {
  device_limits limits() const noexcept { return limits_; }
};
static_assert(device<base>);
static_assert(!device<silent_open> && !device<rvalue_load> && !device<answering_load> &&
              !device<throwing_poll>);
static_assert(!device<throwing_submit> && !device<blind_poll> && !device<changing_now> &&
              !device<silent_evict> && !device<throwing_wait> && !device<copied_limits>);

} // namespace

TEST_CASE_TEMPLATE_APPLY(device_lane_order, rigs);
TEST_CASE_TEMPLATE_APPLY(device_completeness, rigs);
TEST_CASE_TEMPLATE_APPLY(device_block_order, rigs);
TEST_CASE_TEMPLATE_APPLY(device_time, rigs);
TEST_CASE_TEMPLATE_APPLY(device_eviction, rigs);
TEST_CASE_TEMPLATE_APPLY(device_partitions, rigs);
TEST_CASE_TEMPLATE_APPLY(device_partition_rules, rigs);
