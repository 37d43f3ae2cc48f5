// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/device_driven.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/error.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

struct freed_on_device {
  void operator()(std::uint8_t* p) const noexcept { cudaFree(p); }
};
struct freed_on_host {
  void operator()(std::uint8_t* p) const noexcept { cudaFreeHost(p); }
};
using device_bytes = std::unique_ptr<std::uint8_t, freed_on_device>;
using pinned_bytes = std::unique_ptr<std::uint8_t, freed_on_host>;

device_bytes on_device(std::size_t n) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, n) == cudaSuccess);
  return device_bytes(static_cast<std::uint8_t*>(p));
}
pinned_bytes pinned(std::size_t n) {
  void* p = nullptr;
  REQUIRE(cudaHostAlloc(&p, n, cudaHostAllocDefault) == cudaSuccess);
  return pinned_bytes(static_cast<std::uint8_t*>(p));
}

std::uint8_t byte_at(std::size_t i) { return static_cast<std::uint8_t>(i * 131 + (i >> 8)); }

/// A copy to the GPU, one on the GPU, and one back.
void round_trip(driven_cuda& d, lane_id lane, std::uint8_t* from, std::uint8_t* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) from[i] = byte_at(i);
  std::fill_n(to, n, std::uint8_t{0});
  const device_bytes there = on_device(n);
  const device_bytes elsewhere = on_device(n);
  const cuda::copy_action up(there.get(), from);
  const cuda::copy_action over(elsewhere.get(), there.get());
  const cuda::copy_action down(to, elsewhere.get());
  const std::array ops{up.as_operation(copy_direction::host_to_device, n),
                       over.as_operation(copy_direction::device_to_device, n),
                       down.as_operation(copy_direction::device_to_host, n)};
  const std::array<const operation*, 3> all{&ops[0], &ops[1], &ops[2]};
  CHECK(!d.submit_loose(lane, all));
  REQUIRE(d.finish());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) wrong += to[i] != byte_at(i) ? 1u : 0u;
  CHECK(wrong == 0);
}

TEST_CASE("copies from and to pinned and pageable memory are complete") {
  GSCHED_NEEDS_GPU();
  driven_cuda d;
  const lane_id common = d.device.open_lane({});
  const lane_id own = d.device.open_lane({0, sm_count{8}});
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{4097}, std::size_t{1} << 16, (std::size_t{5} << 20) + 3}) {
    CAPTURE(n);
    const pinned_bytes from = pinned(n);
    const pinned_bytes to = pinned(n);
    std::vector<std::uint8_t> pageable_from(n);
    std::vector<std::uint8_t> pageable_to(n);
    for (const lane_id lane : {common, own}) {
      round_trip(d, lane, from.get(), to.get(), n);
      round_trip(d, lane, pageable_from.data(), pageable_to.data(), n);
      round_trip(d, lane, from.get(), pageable_to.data(), n);
      round_trip(d, lane, pageable_from.data(), to.get(), n);
    }
  }
  CHECK(d.failed == 0);
}

TEST_CASE("sets and copies of a lane run in order, after its graphs") {
  GSCHED_NEEDS_GPU();
  constexpr std::size_t n = 1 << 20;
  cuda::program p = stand_ins("p", 1, kernel_of(132, 128, 2000));
  driven_cuda d;
  const lane_id lane = d.device.open_lane({});
  d.device.load(p);
  const device_bytes there = on_device(n);
  const pinned_bytes seen = pinned(n);
  const cuda::set_action set(there.get(), 0x5a);
  const cuda::set_action half(there.get(), 0x21);
  const cuda::copy_action down(seen.get(), there.get());
  const std::array ops{set.as_operation(n), half.as_operation(n / 2),
                       down.as_operation(copy_direction::device_to_host, n)};
  CHECK(!d.submit(lane, p.host()));
  for (const operation& op : ops) {
    const operation* one = &op;
    CHECK(!d.submit_loose(lane, {&one, 1}));
    CHECK(d.done == 0); // nothing was polled, and the kernel is still running
  }
  REQUIRE(d.finish());
  CHECK(d.done == 4);
  CHECK(std::all_of(seen.get(), seen.get() + n / 2, [](std::uint8_t b) { return b == 0x21; }));
  CHECK(std::all_of(seen.get() + n / 2, seen.get() + n, [](std::uint8_t b) { return b == 0x5a; }));
}

TEST_CASE("a copy to pageable memory waits for its lane without blocking the host") {
  GSCHED_NEEDS_GPU();
  constexpr std::size_t n = 1 << 20;
  cuda::program p = stand_ins("p", 1, kernel_of(132, 128, 50'000));
  driven_cuda d;
  const lane_id lane = d.device.open_lane({});
  const lane_id other = d.device.open_lane({});
  d.device.load(p);
  const device_bytes there = on_device(n);
  std::vector<std::uint8_t> seen(n, 0);
  const cuda::set_action set(there.get(), 0x5a);
  const cuda::copy_action down(seen.data(), there.get());
  const std::array ops{set.as_operation(n), down.as_operation(copy_direction::device_to_host, n)};
  const std::array<const operation*, 2> all{&ops[0], &ops[1]};
  const time_point from = d.device.now();
  CHECK(!d.submit(lane, p.host()));
  CHECK(!d.submit_loose(lane, all));
  CHECK(!d.submit(lane, p.host())); // after the copy
  CHECK(!d.submit(other, p.host()));
  CHECK(d.device.now() - from < from_us(25'000));
  CHECK(d.device.statistics().held == 2);
  REQUIRE(d.finish());
  CHECK(d.done == 4);
  CHECK(std::count(seen.begin(), seen.end(), std::uint8_t{0x5a}) == n);
  CHECK(!d.submit(lane, p.host()));
  CHECK(!d.submit_loose(lane, all));
  CHECK(d.device.evict(lane) == 1);
  --d.accepted;
  REQUIRE(d.finish());
}

TEST_CASE("a copy that CUDA refuses is refused with its message, and the device continues") {
  GSCHED_NEEDS_GPU();
  driven_cuda d;
  const lane_id lane = d.device.open_lane({});
  const device_bytes there = on_device(64);
  std::array<std::uint8_t, 64> here{};
  const cuda::copy_action nowhere(nullptr, here.data());
  const operation op = nowhere.as_operation(copy_direction::host_to_device, 64);
  const operation* one = &op;
  const std::error_code e = d.submit_loose(lane, {&one, 1});
  CHECK(e == cuda::code_of(cudaErrorInvalidValue));
  CHECK(!d.device.failure());
  const cuda::copy_action forwards(there.get(), here.data());
  const operation good = forwards.as_operation(copy_direction::host_to_device, 64);
  one = &good;
  CHECK(!d.submit_loose(lane, {&one, 1}));
  REQUIRE(d.finish());
}

TEST_CASE(
    "a copy that CUDA refuses after another one fails its segment, and the device continues") {
  GSCHED_NEEDS_GPU();
  driven_cuda d;
  const lane_id lane = d.device.open_lane({});
  constexpr std::size_t n = 1 << 16;
  const device_bytes there = on_device(n);
  const pinned_bytes from = pinned(n);
  const pinned_bytes to = pinned(n);
  const cuda::copy_action up(there.get(), from.get());
  const cuda::copy_action nowhere(nullptr, from.get());
  const cuda::copy_action down(to.get(), there.get());
  const std::array ops{up.as_operation(copy_direction::host_to_device, n),
                       nowhere.as_operation(copy_direction::host_to_device, n),
                       down.as_operation(copy_direction::device_to_host, n)};
  const std::array<const operation*, 3> all{&ops[0], &ops[1], &ops[2]};
  std::fill_n(from.get(), n, std::uint8_t{7});
  std::fill_n(to.get(), n, std::uint8_t{0});
  CHECK(!d.submit_loose(lane, all));
  REQUIRE(d.finish());
  CHECK(d.failed == 1);
  REQUIRE(d.events.size() == 1);
  CHECK(!d.events[0].lost); // the first copy has ended
  CHECK(to.get()[0] == 0);  // and the next one was skipped
  CHECK(!d.device.failure());
  CHECK(d.device.why_failed().find("cudaErrorInvalidValue") != std::string::npos);
  round_trip(d, lane, from.get(), to.get(), n);
  CHECK(d.done == 1);
  CHECK(d.failed == 1);
}

void count_call(void* counter) {
  // relaxed: read after the segment's end was polled.
  static_cast<std::atomic<int>*>(counter)->fetch_add(1, std::memory_order_relaxed);
}

TEST_CASE("host functions in a captured graph run once for each launch") {
  GSCHED_NEEDS_GPU();
  std::atomic<int> calls{0};
  const device_bytes there = on_device(256);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  cudaMemsetParams set{};
  set.dst = there.get();
  set.value = 7;
  set.elementSize = 1;
  set.width = 256;
  set.height = 1;
  cudaHostNodeParams call{};
  call.fn = count_call;
  call.userData = &calls;
  cudaGraphNode_t last = nullptr;
  for (int i = 0; i < 2; ++i) {
    cudaGraphNode_t node = nullptr;
    REQUIRE(cudaGraphAddMemsetNode(&node, graph, &last, last == nullptr ? 0 : 1, &set) ==
            cudaSuccess);
    REQUIRE(cudaGraphAddHostNode(&last, graph, &node, 1, &call) == cudaSuccess);
  }
  cuda::program_options how;
  how.name = "calls";
  how.durations = {from_us(200), from_us(200)};
  how.measure = false;
  cuda::program p(graph, how);
  static_cast<void>(cudaGraphDestroy(graph));
  driven_cuda d;
  const lane_id lane = d.device.open_lane({});
  d.device.load(p);
  REQUIRE(p.host().size() == 2);
  for (int i = 0; i < 5; ++i) {
    CHECK(!d.submit(lane, p.host(), 0, 1));
    CHECK(!d.submit(lane, p.host(), 1, 2));
  }
  REQUIRE(d.finish());
  CHECK(calls.load(std::memory_order_relaxed) == 10);
}

} // namespace
} // namespace gsched::testing
