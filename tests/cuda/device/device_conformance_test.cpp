// SPDX-License-Identifier: Apache-2.0
//
// The clauses of the device concept on a real GPU, with stand-ins for the suite's operations.
#include "cuda/needs_gpu.hpp"

#include <device/conformance.hpp>
#include <device/preemptive_conformance.hpp>

#include <gsched/cuda/device.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <optional>
#include <tuple>

namespace gsched::testing {
namespace {

/// Loads stand-ins of the given programs. Without a GPU, a simulated one is used, which tests the
/// rig itself.
class stand_in_device {
public:
  explicit stand_in_device(const cuda::device_options& o) {
    if (gpus_here() > 0) {
      real_.emplace(o);
      return;
    }
    MESSAGE("no GPU here: a simulated one");
    simulated_.emplace(sim::h200());
  }

  template <class F>
  auto on(F f) {
    return real_ ? f(*real_) : f(*simulated_);
  }

  lane_id open_lane(const lane_options& how) {
    return on([&](auto& d) { return d.open_lane(how); });
  }
  void load(gsched::program& p) {
    if (!real_) return simulated_->load(p);
    real_->load(programs_.emplace_back(cuda::make_stand_in(p)));
    p.set_id(programs_.back().host().id());
  }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    return on([&](auto& d) { return d.submit(s); });
  }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    return on([&](auto& d) { return d.poll(out); });
  }
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept {
    return on([&](auto& d) { return d.evict(lane); });
  }
  void yield(lane_id lane) noexcept {
    on([&](auto& d) { d.yield(lane); });
  }
  void resume(lane_id lane) noexcept {
    on([&](auto& d) { d.resume(lane); });
  }
  void wait(time_point t) noexcept {
    on([&](auto& d) { d.wait(t); });
  }
  [[nodiscard]] time_point now() const noexcept { return real_ ? real_->now() : simulated_->now(); }
  [[nodiscard]] const device_limits& limits() const noexcept {
    return real_ ? real_->limits() : simulated_->limits();
  }

private:
  std::deque<cuda::program> programs_; // must outlive the device
  std::optional<cuda::device> real_;
  std::optional<sim::device> simulated_;
};
static_assert(preemptive_device<stand_in_device>);

struct cuda_rig {
  using device = stand_in_device;
  static constexpr bool reports_blocks = true;
  static device make() { return device(options()); }
  static cuda::device_options options() {
    cuda::device_options o;
    o.instrumented = true;
    o.max_segments = 64;
    return o;
  }
};
/// A ring so small that segments wait for space, several graphs for each range, every block
/// reported.
struct narrow_cuda_rig {
  using device = stand_in_device;
  static constexpr bool reports_blocks = true;
  static device make() {
    cuda::device_options o = cuda_rig::options();
    o.ring_slots = std::size_t{1} << 15;
    o.copies = 3;
    o.group_blocks = 4;
    return device(o);
  }
};

using rigs = std::tuple<cuda_rig, narrow_cuda_rig>;

/// Stand-ins have no output that would show a block that ran twice.
template <unsigned GateEvery>
struct yielding_cuda_rig {
  using device = stand_in_device;
  static constexpr bool preemptible = true;
  static device make() {
    cuda::device_options o = cuda_rig::options();
    o.gate_every = GateEvery;
    return device(o);
  }
  static std::uint64_t wrong_blocks(device&, const gsched::program&, std::uint64_t) { return 0; }
};
using yielding_rigs = std::tuple<yielding_cuda_rig<1>, yielding_cuda_rig<2>>;

TEST_CASE_TEMPLATE_APPLY(device_lane_order, rigs);
TEST_CASE_TEMPLATE_APPLY(device_completeness, rigs);
TEST_CASE_TEMPLATE_APPLY(device_block_order, rigs);
TEST_CASE_TEMPLATE_APPLY(device_time, rigs);
TEST_CASE_TEMPLATE_APPLY(device_eviction, rigs);
TEST_CASE_TEMPLATE_APPLY(device_partitions, rigs);
TEST_CASE_TEMPLATE_APPLY(device_partition_rules, rigs);
TEST_CASE_TEMPLATE_APPLY(device_yielding, yielding_rigs);
TEST_CASE_TEMPLATE_APPLY(device_leaving, yielding_rigs);
TEST_CASE_TEMPLATE_APPLY(device_progress, yielding_rigs);
TEST_CASE_TEMPLATE_APPLY(device_holding, yielding_rigs);
TEST_CASE_TEMPLATE_APPLY(device_resuming, yielding_rigs);
TEST_CASE_TEMPLATE_APPLY(device_others, yielding_rigs);
TEST_CASE_TEMPLATE_APPLY(device_yield_hot_path, yielding_rigs);

} // namespace
} // namespace gsched::testing
