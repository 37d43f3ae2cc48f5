// SPDX-License-Identifier: Apache-2.0
//
// A held lane must not delay other work, whatever its graph contains; and it is held only for its
// lease if the owner makes no call.
#include "cuda/device/device_driven.hpp"
#include "cuda/graph/program_kernels.cuh"
#include "cuda/graph/program_samples.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace gsched::testing {
namespace {

using kind = device_event::kind;

__global__ void wait_for_all(word* done) {
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) *done += 1;
}

/// Cooperative launches of wait_for_all, counted in memory of their own.
struct cooperative_launches {
  cooperative_launches() {
    cudaDeviceProp facts{};
    int on_one = 0;
    REQUIRE(cudaGetDeviceProperties(&facts, 0) == cudaSuccess);
    REQUIRE(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_one, wait_for_all, 1024, 0) ==
            cudaSuccess);
    most_blocks = static_cast<unsigned>(facts.multiProcessorCount * on_one);
    REQUIRE(cudaMalloc(&done, sizeof(word)) == cudaSuccess);
    REQUIRE(cudaMemset(done, 0, sizeof(word)) == cudaSuccess);
  }
  ~cooperative_launches() { cudaFree(done); }
  cooperative_launches(const cooperative_launches&) = delete;
  cooperative_launches& operator=(const cooperative_launches&) = delete;

  void launch(cudaStream_t s, unsigned blocks) {
    void* arguments[] = {&done};
    cuda::check(
        cudaLaunchCooperativeKernel(wait_for_all, dim3(blocks), dim3(1024), arguments, 0, s),
        "launch");
  }
  [[nodiscard]] word runs() const {
    word n = 0;
    REQUIRE(cudaMemcpy(&n, done, sizeof n, cudaMemcpyDeviceToHost) == cudaSuccess);
    return n;
  }

  unsigned most_blocks = 0; ///< blocks that fit on the GPU at once

private:
  word* done = nullptr;
};

/// A grid barrier without a cooperative launch: the last block to arrive opens it. Times out after
/// two seconds and counts in `missed`.
__global__ void wait_for_all_by_counting(word* came, word* missed) {
  if (threadIdx.x != 0) return;
  const word round = atomicAdd(came, 1u) / gridDim.x;
  std::uint64_t from, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from)::"memory");
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
    if (atomicAdd(came, 0u) / gridDim.x > round) return;
  } while (now - from < 2'000'000'000);
  atomicAdd(missed, 1u);
}

/// Launches of blocks that each use all shared memory of an SM.
struct filling_launches {
  filling_launches() {
    cudaDeviceProp facts{};
    REQUIRE(cudaGetDeviceProperties(&facts, 0) == cudaSuccess);
    sms = static_cast<unsigned>(facts.multiProcessorCount);
    shared_bytes = facts.sharedMemPerBlockOptin;
    REQUIRE(cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes)) == cudaSuccess);
  }
  void launch(cudaStream_t s, unsigned blocks) const {
    spin<<<blocks, 128, shared_bytes, s>>>(10000);
  }
  unsigned sms = 0;
  std::size_t shared_bytes = 0;
};

cuda::program_options unmeasured(std::string name, std::size_t n) {
  cuda::program_options how;
  how.name = std::move(name);
  how.durations.assign(n, std::chrono::microseconds{10});
  return how;
}

/// Captures the work that f submits to a stream.
template <class F>
cuda::program captured(const std::string& name, std::size_t operations, F f) {
  cuda::stream_capture c(name);
  f(c.stream());
  return cuda::program(c.end(), unmeasured(name, operations));
}

/// Groups of nine kernels of some microseconds, with other operations between the groups.
template <class F>
cuda::program groups_with(const std::string& name, std::size_t others, F between) {
  constexpr std::size_t groups = 14;
  return captured(name, groups * (9 + others), [&](cudaStream_t s) {
    for (std::size_t g = 0; g < groups; ++g) {
      for (int i = 0; i < 9; ++i) spin<<<132, 128, 0, s>>>(5000);
      between(s);
    }
  });
}

/// A lane that yields, with work of about a millisecond, and urgent lanes.
struct hold_rig {
  explicit hold_rig(cuda::device_options o = {}, unsigned urgent_lanes = 2) : d(options(o)) {
    low = d.device.open_lane({0, {}, true});
    for (unsigned i = 0; i < urgent_lanes; ++i) urgent.push_back(d.device.open_lane({1, {}}));
    d.device.load(quick);
  }
  static cuda::device_options options(cuda::device_options o) {
    o.grain = from_us(1e6);
    o.levels = 1;
    return o;
  }

  /// Holds the lane in the middle of the program. False if the program ended first.
  bool hold(const gsched::program& p) {
    const std::size_t yields = count(kind::lane_yielded);
    REQUIRE(!d.submit(low, p));
    const time_point a_while = d.device.now() + from_us(150);
    while (d.device.now() < a_while) d.poll();
    d.device.yield(low);
    REQUIRE(until([&] { return count(kind::lane_yielded) > yields; }));
    return d.done + d.failed < d.accepted;
  }
  void resume() {
    const std::size_t resumes = count(kind::lane_resumed);
    d.device.resume(low);
    REQUIRE(until([&] { return count(kind::lane_resumed) > resumes; }));
    REQUIRE(d.finish());
  }
  /// Runs a program on every urgent lane; false if that takes more than a second. The lane that is
  /// held may continue meanwhile, so its own ends do not count.
  bool run_urgent(const gsched::program& p) {
    std::vector<segment_id> waits_for;
    for (const lane_id lane : urgent) {
      waits_for.push_back(d.next());
      REQUIRE(!d.submit(lane, p));
    }
    return until([&] {
      return std::all_of(waits_for.begin(), waits_for.end(),
                         [&](segment_id s) { return d.has_ended(s); });
    });
  }
  template <class Stop>
  bool until(Stop stop, double seconds = 1) {
    const time_point late = d.device.now() + from_us(seconds * 1e6);
    while (!stop()) {
      if (d.device.now() > late) return false;
      d.poll();
    }
    return true;
  }
  [[nodiscard]] std::size_t count(kind what) const {
    std::size_t n = 0;
    for (const device_event& e : d.events) n += e.what == what ? 1u : 0u;
    return n;
  }

  cuda::program quick = stand_ins("quick", 3, kernel_of(4, 64, 3));
  driven_cuda d;
  lane_id low{};
  std::vector<lane_id> urgent;
};

/// The time of f in milliseconds.
template <class F>
double ms_of(F f) {
  const auto from = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

TEST_CASE("a held graph occupies no hardware queue, whatever its nodes are") {
  GSCHED_NEEDS_GPU();
  char* device = nullptr;
  char* pinned = nullptr;
  REQUIRE(cudaMalloc(&device, 8 << 20) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, 1 << 20) == cudaSuccess);
  hold_rig rig({}, 20); // more lanes than there are hardware queues
  const auto check = [&](cuda::program p, bool can_be_held) {
    CAPTURE(p.host().name());
    rig.d.device.load(p);
    for (int round = 0; round < 3; ++round) {
      CHECK(rig.hold(p.host()) == can_be_held);
      CHECK(rig.run_urgent(rig.quick.host()));
      rig.resume();
    }
    CHECK(rig.d.failed == 0);
    CHECK(rig.d.device.statistics().expired_leases == 0); // no gate opened for urgent work
    static_cast<void>(rig.d.device.unload(p.host()));
  };
  const auto set = [&](std::size_t bytes) {
    return [=](cudaStream_t s) { cudaMemsetAsync(device, 1, bytes, s); };
  };
  check(groups_with("kernels alone", 0, [](cudaStream_t) {}), true);
  check(groups_with("sets of 4 bytes", 1, set(4)), true);
  check(groups_with("sets of 4 KiB", 1, set(4096)), true);
  check(groups_with("sets of 1 MiB", 1, set(1 << 20)), true);
  check(groups_with("sets of rows", 1,
                    [&](cudaStream_t s) { cudaMemset2DAsync(device, 512, 3, 100, 16, s); }),
        true);
  check(groups_with("copies within the GPU", 1,
                    [&](cudaStream_t s) {
                      cudaMemcpyAsync(device, device + (4 << 20), 4096, cudaMemcpyDeviceToDevice,
                                      s);
                    }),
        true);
  check(groups_with("copies from pinned memory", 1,
                    [&](cudaStream_t s) {
                      cudaMemcpyAsync(device, pinned, 4096, cudaMemcpyHostToDevice, s);
                    }),
        true);
  check(groups_with("copies to pinned memory", 1,
                    [&](cudaStream_t s) {
                      cudaMemcpyAsync(pinned, device, 4096, cudaMemcpyDeviceToHost, s);
                    }),
        true);
  // A host function cannot be a kernel, so such a graph has no gates.
  check(groups_with("host functions", 0,
                    [](cudaStream_t s) {
                      cudaLaunchHostFunc(
                          s, [](void*) {}, nullptr);
                    }),
        false);
  cudaFree(device);
  cudaFreeHost(pinned);
}

TEST_CASE("words of a held graph in the ring do not delay urgent work") {
  GSCHED_NEEDS_GPU();
  cuda::program work = stand_ins("work", 20, kernel_of(16, 128, 50));        // 40 words
  cuda::program urgent = stand_ins("urgent", 1, kernel_of(16 * 20, 128, 5)); // 40 words too
  cuda::device_options o;
  o.instrumented = true;
  o.ring_slots = 64;
  hold_rig rig(o, 1);
  rig.d.device.load(work);
  rig.d.device.load(urgent);
  for (const bool yields_first : {true, false}) {
    CAPTURE(yields_first);
    const std::size_t done = rig.d.done;
    const std::size_t yields = rig.count(kind::lane_yielded);
    REQUIRE(!rig.d.submit(rig.low, work.host(), true));
    const time_point a_while = rig.d.device.now() + from_us(150);
    while (rig.d.device.now() < a_while) rig.d.poll();
    if (yields_first) {
      rig.d.device.yield(rig.low);
      REQUIRE(rig.until([&] { return rig.count(kind::lane_yielded) > yields; }));
      REQUIRE(rig.d.done == done); // in the middle
    }
    REQUIRE(!rig.d.submit(rig.urgent[0], urgent.host(), true)); // the ring has no space for it
    if (!yields_first) rig.d.device.yield(rig.low);
    CHECK(rig.until([&] { return rig.d.done == done + 2; }));
    CHECK(rig.d.device.statistics().expired_leases == 0);
    rig.d.device.resume(rig.low);
    REQUIRE(rig.until([&] { return rig.count(kind::lane_resumed) > yields; }));
  }
  CHECK(rig.d.device.statistics().opened == 1);
  CHECK(rig.d.failed == 0);
}

TEST_CASE("a held lane continues by itself when its owner makes no call") {
  GSCHED_NEEDS_GPU();
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig;
  rig.d.device.load(work);
  REQUIRE(rig.hold(work.host()));
  REQUIRE(!rig.d.submit(rig.low, work.host())); // must not start before the lane resumes
  const std::size_t done = rig.d.done;
  for (int i = 0; i < 20; ++i) { // polls renew the lease: held for ten times the lease
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    rig.d.poll();
  }
  CHECK(rig.d.done == done);
  CHECK(rig.d.device.statistics().expired_leases == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds{45});
  CHECK(rig.until([&] { return rig.d.done == done + 1; }, 0.005));
  CHECK(rig.d.device.statistics().expired_leases == 1);
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  rig.d.poll();
  CHECK(rig.d.done == done + 1); // and no other segment of the lane starts
  rig.resume();
  CHECK(rig.d.done == done + 2);

  REQUIRE(rig.hold(work.host())); // the next time it is held as before
  std::this_thread::sleep_for(std::chrono::milliseconds{10});
  rig.d.poll();
  CHECK(rig.d.done == done + 2);
  rig.resume();
  CHECK(rig.d.device.statistics().expired_leases == 1);
}

TEST_CASE("a lane without a lease is held until it resumes") {
  GSCHED_NEEDS_GPU();
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  cuda::device_options o;
  o.lease = {};
  hold_rig rig(o);
  rig.d.device.load(work);
  REQUIRE(rig.hold(work.host()));
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  rig.d.poll();
  CHECK(rig.d.done == 0);
  rig.resume();
  CHECK(rig.d.done == 1);
}

/// A lane is held beside urgent work that leaves SMs free. For urgent work that needs every SM it
/// is released, or stops at the end of its segment.
void check_needs_every_sm(hold_rig& rig, const gsched::program& work, const gsched::program& small,
                          const gsched::program& full) {
  REQUIRE(rig.hold(work));
  CHECK(rig.run_urgent(small));
  CHECK(rig.d.device.statistics().opened == 0);
  CHECK(rig.run_urgent(full));
  CHECK(rig.d.device.statistics().opened == 1);
  rig.resume();

  // While such a program is active, a lane that yields stops at the end of its segment.
  REQUIRE(!rig.d.submit(rig.urgent.front(), full));
  REQUIRE(!rig.d.submit(rig.low, work));
  rig.d.device.yield(rig.low);
  CHECK(rig.until([&] { return rig.count(kind::lane_yielded) == 2; }));
  rig.resume();
  CHECK(rig.d.failed == 0);
}

TEST_CASE("a cooperative launch that needs every SM runs beside a held lane") {
  GSCHED_NEEDS_GPU();
  cooperative_launches all_sms;
  const auto cooperative = [&](const std::string& name, unsigned blocks) {
    return captured(name, 1, [&](cudaStream_t s) { all_sms.launch(s, blocks); });
  };
  cuda::program full = cooperative("full", all_sms.most_blocks);
  cuda::program small = cooperative("small", 8);
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig;
  for (cuda::program* p : {&full, &small, &work}) rig.d.device.load(*p);
  const architecture_limits& sm = rig.d.device.limits().sm;
  const sm_count all = rig.d.device.limits().sms;
  constexpr auto to_run = cuda::program::need::to_run;
  CHECK(full.needs_at_once(0, 1, sm, all, to_run) == all);
  CHECK(full.needs_at_once(0, 1, sm, sm_count{all.count() - 1}, to_run).count() == 0);
  CHECK(work.needs_at_once(0, work.host().size(), sm, all, cuda::program::need::to_be_quick)
            .count() == 0);

  check_needs_every_sm(rig, work.host(), small.host(), full.host());
  CHECK(all_sms.runs() == 5);
}

TEST_CASE("kernels that use all shared memory of every SM run in one wave beside a held lane") {
  GSCHED_NEEDS_GPU();
  const filling_launches filling;
  const auto filled = [&](const std::string& name, unsigned blocks) {
    return captured(name, 1, [&](cudaStream_t s) { filling.launch(s, blocks); });
  };
  cuda::program full = filled("full", filling.sms);
  cuda::program small = filled("small", 8);
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig;
  for (cuda::program* p : {&full, &small, &work}) rig.d.device.load(*p);
  const architecture_limits& sm = rig.d.device.limits().sm;
  const sm_count all = rig.d.device.limits().sms;
  CHECK(full.needs_at_once(0, 1, sm, all, cuda::program::need::to_be_quick) == all);
  CHECK(full.needs_at_once(0, 1, sm, all, cuda::program::need::to_run).count() == 0);

  check_needs_every_sm(rig, work.host(), small.host(), full.host());
  CHECK(rig.d.device.statistics().expired_leases == 0);
}

TEST_CASE("best-effort kernels in clusters wait for a gate for at most one lease, later for none") {
  GSCHED_NEEDS_GPU();
  const filling_launches filling; // allows `spin` all shared memory
  int major = 0;
  REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  if (major < 9) return;
  REQUIRE(cudaFuncSetAttribute(spin, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
          cudaSuccess);
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig({}, 1);
  rig.d.device.load(work);
  const lane_id beside = rig.d.device.open_lane({0, {}});
  const cuda::device_statistics& seen = rig.d.device.statistics();
  int tried = 0;
  for (const unsigned blocks : {2u, 8u, 16u}) {
    CAPTURE(blocks);
    cudaLaunchAttribute with{};
    with.id = cudaLaunchAttributeClusterDimension;
    with.val.clusterDim = {blocks, 1, 1};
    cudaLaunchConfig_t how{};
    how.gridDim = filling.sms / blocks * blocks;
    how.blockDim = 128;
    how.dynamicSmemBytes = filling.shared_bytes;
    how.attrs = &with;
    how.numAttrs = 1;
    int at_once = 0; // not every GPU supports clusters of 16
    if (cudaOccupancyMaxActiveClusters(&at_once, spin, &how) != cudaSuccess || at_once == 0) {
      static_cast<void>(cudaGetLastError());
      continue;
    }
    ++tried;
    how.gridDim = static_cast<unsigned>(at_once) * blocks; // the most that fit at once
    cuda::program clusters = captured("clusters", 1, [&](cudaStream_t s) {
      how.stream = s;
      cuda::check(cudaLaunchKernelEx(&how, spin, 10000), "launch");
    });
    rig.d.device.load(clusters);
    const auto run = [&] { // waits for its own end: a lane that continues has ends, too
      const segment_id mine = rig.d.next();
      REQUIRE(!rig.d.submit(beside, clusters.host()));
      return rig.until([&] { return rig.d.has_ended(mine); });
    };
    CHECK(run()); // alone, so that the driver has loaded the kernel
    const std::uint64_t leases = seen.expired_leases;
    REQUIRE(rig.hold(work.host()));
    CHECK(run());
    rig.resume();
    CHECK(seen.expired_leases <= leases + 1);
    const std::uint64_t later = seen.expired_leases;
    for (int round = 0; round < 3; ++round) {
      REQUIRE(rig.hold(work.host()));
      CHECK(ms_of([&] { CHECK(run()); }) < 10);
      rig.resume();
    }
    CHECK(seen.expired_leases == later);
    static_cast<void>(rig.d.device.unload(clusters.host()));
  }
  CHECK(tried >= 2);
  CHECK(rig.d.failed == 0);
}

TEST_CASE("a program with a barrier of its own waits for a gate once; later no gate closes beside "
          "it") {
  GSCHED_NEEDS_GPU();
  const cooperative_launches all_sms; // gives the number of blocks that fit
  word* words = nullptr;
  REQUIRE(cudaMalloc(&words, 2 * sizeof(word)) == cudaSuccess);
  REQUIRE(cudaMemset(words, 0, 2 * sizeof(word)) == cudaSuccess);
  cuda::program counts = captured("counts", 1, [&](cudaStream_t s) {
    wait_for_all_by_counting<<<all_sms.most_blocks, 1024, 0, s>>>(words, words + 1);
  });
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig({}, 1);
  for (cuda::program* p : {&counts, &work}) rig.d.device.load(*p);
  const cuda::device_statistics& seen = rig.d.device.statistics();

  // Neither a run alone nor a lease that expired while the host paused proves anything.
  CHECK(rig.run_urgent(counts.host()));
  REQUIRE(rig.hold(work.host()));
  std::this_thread::sleep_for(std::chrono::milliseconds{60});
  rig.d.poll();
  CHECK(rig.run_urgent(counts.host()));
  rig.resume();
  CHECK(seen.found_to_need_sms == 0);
  const std::uint64_t leases = seen.expired_leases;
  CHECK(leases == 1);

  REQUIRE(rig.hold(work.host()));
  CHECK(rig.run_urgent(counts.host())); // after the lease has expired
  rig.resume();
  CHECK(seen.expired_leases == leases + 1);
  CHECK(seen.found_to_need_sms == 1);

  for (std::uint64_t round = 1; round <= 3; ++round) {
    REQUIRE(rig.hold(work.host()));
    const time_point from = rig.d.device.now();
    CHECK(rig.run_urgent(counts.host()));
    CHECK(rig.d.device.now() - from < from_us(10e3));
    CHECK(seen.opened == round);
    rig.resume();
  }
  CHECK(seen.expired_leases == leases + 1);
  CHECK(seen.found_to_need_sms == 1);
  CHECK(rig.d.failed == 0);
  word missed = 0;
  REQUIRE(cudaMemcpy(&missed, words + 1, sizeof missed, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(missed == 0);
  cudaFree(words);
}

TEST_CASE("a cooperative kernel that is launched directly runs beside a held lane") {
  GSCHED_NEEDS_GPU();
  cooperative_launches all_sms;
  cuda::program full =
      captured("full", 1, [&](cudaStream_t s) { all_sms.launch(s, all_sms.most_blocks); });
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig({}, 1);
  for (cuda::program* p : {&full, &work}) rig.d.device.load(*p);
  const auto launch = [&] {
    const std::size_t done = rig.d.done;
    REQUIRE(!rig.d.submit(rig.urgent.front(), full.host(), 0, 1, false, submission::launches));
    return rig.until([&] { return rig.d.done > done; });
  };
  REQUIRE(launch()); // so that the driver has loaded the kernel
  REQUIRE(rig.hold(work.host()));
  CHECK(launch());
  CHECK(rig.d.device.statistics().opened == 1);
  CHECK(rig.d.device.statistics().expired_leases == 0);
  rig.resume();
  CHECK(rig.d.failed == 0);
  CHECK(all_sms.runs() == 2);
}

TEST_CASE("a kernel with more blocks than fit does not hide what a range needs at once") {
  GSCHED_NEEDS_GPU();
  cooperative_launches cooperative;
  const filling_launches filling;
  const unsigned sms = filling.sms;
  const auto fills = [&](unsigned blocks) {
    return [&filling, blocks](cudaStream_t s) { filling.launch(s, blocks); };
  };
  cuda::program one_wave = captured("one wave", 1, fills(sms - 3));
  cuda::program two_waves = captured("two waves", 1, fills(sms + 4));
  cuda::program both = captured("both", 3, [&](cudaStream_t s) {
    filling.launch(s, sms + 4);
    cooperative.launch(s, 21);
    filling.launch(s, sms + 4);
  });
  hold_rig rig;
  const architecture_limits& sm = rig.d.device.limits().sm;
  const sm_count all = rig.d.device.limits().sms;
  constexpr auto to_run = cuda::program::need::to_run;
  constexpr auto to_be_quick = cuda::program::need::to_be_quick;
  CHECK(one_wave.needs_at_once(0, 1, sm, all, to_be_quick).count() == sms - 3);
  CHECK(one_wave.needs_at_once(0, 1, sm, all, to_run).count() == 0);
  CHECK(two_waves.needs_at_once(0, 1, sm, all, to_be_quick).count() == 0);
  CHECK(two_waves.needs_at_once(0, 1, sm, sm_count{2 * sms}, to_be_quick).count() == sms + 4);
  const sm_count needed = both.needs_at_once(1, 2, sm, all, to_run);
  CHECK(needed.count() > 0);
  CHECK(both.needs_at_once(0, 3, sm, all, to_run) == needed);
}

TEST_CASE("a lane of kernels that use all shared memory is held between two of them") {
  GSCHED_NEEDS_GPU();
  const filling_launches filling;
  constexpr std::size_t kernels = 100;
  cuda::program work = captured("work", kernels, [&](cudaStream_t s) {
    for (std::size_t i = 0; i < kernels; ++i) filling.launch(s, filling.sms);
  });
  hold_rig rig;
  rig.d.device.load(work);
  for (int round = 0; round < 3; ++round) {
    CHECK(rig.hold(work.host()));
    CHECK(rig.run_urgent(rig.quick.host()));
    rig.resume();
  }
  CHECK(rig.d.device.statistics().expired_leases == 0);
  CHECK(rig.d.failed == 0);
}

TEST_CASE("a gate does not close beside a cooperative kernel of its graph that needs every SM") {
  GSCHED_NEEDS_GPU();
  cooperative_launches all_sms;
  const auto cooperative = [&](cudaStream_t s) { all_sms.launch(s, all_sms.most_blocks); };
  cuda::program first = groups_with("first", 1, cooperative);
  cuda::program second = groups_with("second", 0, [](cudaStream_t) {});
  cuda::device_options o;
  o.gate_every = 1;
  hold_rig rig(o);
  const lane_id other = rig.d.device.open_lane({0, {}, true});
  for (cuda::program* p : {&first, &second}) rig.d.device.load(*p);
  // A kernel that waited for its own gate could block the other lane's kernels until the lease of
  // the gate expired.
  for (int i = 0; i < 60; ++i) {
    const std::size_t yields = rig.count(kind::lane_yielded);
    REQUIRE(!rig.d.submit(rig.low, first.host()));
    REQUIRE(!rig.d.submit(other, second.host()));
    const time_point a_while = rig.d.device.now() + from_us(20 + 37 * i % 900);
    while (rig.d.device.now() < a_while) rig.d.poll();
    rig.d.device.yield(rig.low);
    rig.d.device.yield(other);
    REQUIRE(rig.until([&] { return rig.count(kind::lane_yielded) == yields + 2; }));
    const std::size_t resumes = rig.count(kind::lane_resumed);
    rig.d.device.resume(rig.low);
    rig.d.device.resume(other);
    REQUIRE(rig.until([&] { return rig.count(kind::lane_resumed) == resumes + 2; }));
    REQUIRE(rig.d.finish());
  }
  CHECK(rig.d.failed == 0);
  CHECK(rig.d.device.statistics().expired_leases == 0);
}

/// A thread that frees memory, for which the driver waits for the whole GPU.
class freeing_thread {
public:
  explicit freeing_thread(void* memory, bool on_host)
      : it_([=, this] {
          on_host ? cudaFreeHost(memory) : cudaFree(memory);
          freed_ = true;
        }) {
    std::this_thread::sleep_for(std::chrono::milliseconds{2}); // then it waits inside the driver
  }
  ~freeing_thread() { it_.join(); } // a held lane continues after its lease
  freeing_thread(const freeing_thread&) = delete;
  freeing_thread& operator=(const freeing_thread&) = delete;
  [[nodiscard]] bool has_freed() const noexcept { return freed_; }

private:
  std::atomic<bool> freed_{false};
  std::thread it_;
};

void* memory_to_free(bool on_host) {
  void* memory = nullptr;
  REQUIRE((on_host ? cudaMallocHost(&memory, 1 << 20) : cudaMalloc(&memory, 64 << 20)) ==
          cudaSuccess);
  return memory;
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Limit of the median time, far from both leases: one millisecond in a call of the driver, 20
/// otherwise. The median ignores pauses of the host.
constexpr double short_lease_ms = 10;
constexpr int freeing_rounds = 7;

TEST_CASE(
    "another thread that waits for the whole GPU delays urgent work by milliseconds at most") {
  GSCHED_NEEDS_GPU();
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig;
  rig.d.device.load(work);
  for (const bool on_host : {false, true}) {
    CAPTURE(on_host);
    const std::uint64_t leases = rig.d.device.statistics().expired_leases;
    std::vector<double> ms;
    for (int round = 0; round < freeing_rounds; ++round) {
      void* const memory = memory_to_free(on_host);
      REQUIRE(rig.hold(work.host()));
      {
        const freeing_thread other(memory, on_host);
        bool all = true;
        ms.push_back(ms_of([&] {
          while (!other.has_freed() && all)
            all = rig.run_urgent(rig.quick.host()); // without a pause
        }));
        CAPTURE(round);
        CAPTURE(ms.back());
        CAPTURE(rig.d.device.statistics().expired_leases - leases);
        CHECK(all);
        CHECK(other.has_freed());
      }
      rig.resume();
    }
    CHECK(median(ms) < short_lease_ms);
    CHECK(rig.d.device.statistics().expired_leases > leases); // else nothing was tested
    CHECK(rig.d.failed == 0);
  }
}

TEST_CASE("an event is recorded at once while a lane is held, also if another thread waits for the "
          "whole GPU") {
  GSCHED_NEEDS_GPU();
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig;
  rig.d.device.load(work);
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  const auto complete = [&] { return cudaEventQuery(event) == cudaSuccess; };
  std::vector<double> ms;
  for (int round = 0; round < freeing_rounds; ++round) {
    void* const memory = memory_to_free(false);
    REQUIRE(rig.hold(work.host()));
    const std::size_t done = rig.d.done;
    const std::uint64_t leases = rig.d.device.statistics().expired_leases;
    REQUIRE(!rig.d.device.record(event));
    CHECK(rig.until(complete));
    CHECK(rig.d.done == done); // the lane is held
    CHECK(rig.d.device.statistics().expired_leases == leases);
    {
      const freeing_thread other(memory, false);
      std::error_code e;
      ms.push_back(ms_of([&] { e = rig.d.device.record(event); }));
      CHECK(!e);
      bool all = true;
      while (!other.has_freed() && all) all = rig.run_urgent(rig.quick.host());
      CHECK(all);
    }
    CHECK(rig.until(complete));
    rig.resume();
  }
  CHECK(median(ms) < short_lease_ms);
  CHECK(rig.d.failed == 0);
  cudaEventDestroy(event);
}

TEST_CASE("a capture of another thread in global mode neither fails the device nor is broken") {
  GSCHED_NEEDS_GPU();
  cuda::program work = groups_with("work", 0, [](cudaStream_t) {});
  hold_rig rig;
  rig.d.device.load(work);
  std::atomic<int> step{0};
  cudaError_t ended = cudaSuccess;
  std::thread other([&] {
    cudaStream_t s = nullptr;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    spin<<<1, 32, 0, s>>>(100);
    step = 1;
    while (step == 1) std::this_thread::yield();
    cudaGraph_t g = nullptr;
    ended = cudaStreamEndCapture(s, &g);
    if (g != nullptr) cudaGraphDestroy(g);
    cudaStreamDestroy(s);
  });
  while (step == 0) std::this_thread::yield();
  REQUIRE(!rig.d.submit(rig.low, work.host()));
  const time_point until = rig.d.device.now() + from_us(20e3);
  while (rig.d.device.now() < until) rig.d.device.wait(until); // detects errors meanwhile
  CHECK(rig.d.finish());
  CHECK(!rig.d.device.failure());
  cuda::program more = stand_ins("more", 5, kernel_of(4, 64, 3));
  rig.d.device.load(more);
  CHECK(!rig.d.submit(rig.low, more.host()));
  CHECK(rig.d.finish());
  step = 2;
  other.join();
  CHECK(ended == cudaSuccess);
}

} // namespace
} // namespace gsched::testing
