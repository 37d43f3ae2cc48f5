// SPDX-License-Identifier: Apache-2.0
//
// A held lane: it is not a hang, and it ends when it resumes, or when its device fails or is
// destroyed.
#include "cuda/device/device_child.hpp"
#include "cuda/device/device_driven.hpp"
#include "cuda/device/device_kernels.hpp"
#include "cuda/needs_gpu.hpp"

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <string>

namespace gsched::testing {
namespace {

/// A device with a lane that is held in the middle of a segment.
struct standing {
  cuda::program work = stand_ins("work", 40, kernel_of(132, 128, 20));
  std::unique_ptr<driven_cuda> d;
  lane_id low{}, high{};

  standing() {
    cuda::device_options o;
    o.watchdog = std::chrono::seconds{1};
    d = std::make_unique<driven_cuda>(o);
    low = d->device.open_lane({0, {}, true});
    high = d->device.open_lane({1, {}});
    d->device.load(work);
  }
  void stop(verdict& v) {
    v.need(!d->submit(low, work.host()), "accepted");
    v.need(!d->submit(low, work.host()), "accepted behind it");
    const time_point a_while = d->device.now() + from_us(150);
    while (d->device.now() < a_while) d->poll();
    d->device.yield(low);
    const time_point late = d->device.now() + from_us(5e6);
    while (d->device.now() < late &&
           (d->events.empty() || d->events.back().what != device_event::kind::lane_yielded))
      d->poll();
    v.need(d->device.now() < late, "it yields");
    v.need(d->done == 0 && d->device.statistics().stopped == 1, "in the middle");
  }
};

TEST_CASE("yield child: a lane that stands is not hung" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  standing s;
  s.stop(v);
  const time_point until = s.d->device.now() + from_us(2.5e6);
  while (s.d->device.now() < until) {
    s.d->device.wait(s.d->device.now() + from_us(1e4));
    s.d->poll();
  }
  v.need(!s.d->device.failure() && s.d->done == 0, "after two and a half of the watchdog's times");
  s.d->device.resume(s.low);
  v.need(s.d->finish(), "it goes on");
  v.need(s.d->done == 2 && s.d->failed == 0 && !s.d->device.failure(), "to a good end");
  v.leave();
}

TEST_CASE("yield child: a device goes while a lane stands" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  standing s;
  s.stop(v);
  const auto from = std::chrono::steady_clock::now();
  s.d.reset();
  v.need(seconds_since(from) < 0.9, "it opens the gates and is soon gone");
  v.need(cudaDeviceSynchronize() == cudaSuccess, "and the GPU is idle");
  v.leave();
}

TEST_CASE("yield child: a device fails while a lane stands" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program bad = make_faulty("bad");
  standing s;
  s.d->device.load(bad);
  s.stop(v);
  static_cast<void>(s.d->submit(s.high, bad.host()));
  v.need(s.d->finish(), "all that was accepted is polled");
  const std::string line = s.d->device.failure().value_or("");
  v.say(line);
  v.need(line.find("illegal memory access") != std::string::npos, "and it says why");
  s.d->device.resume(s.low);
  s.d->poll();
  v.need(s.d->events.back().what == device_event::kind::lane_resumed, "each call has its event");
  const auto from = std::chrono::steady_clock::now();
  s.d.reset();
  v.need(seconds_since(from) < 2, "it is soon gone");
  v.leave();
}

TEST_CASE("yield child: a kernel hangs while a lane stands" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  void* flag = nullptr;
  v.need(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped) == cudaSuccess, "memory");
  *static_cast<int*>(flag) = 0;
  cuda::program endless = make_endless("endless", static_cast<const int*>(flag));
  standing s;
  s.d->device.load(endless);
  s.stop(v);
  v.need(!s.d->submit(s.high, endless.host()), "accepted");
  const time_point late = s.d->device.now() + from_us(5e6);
  while (s.d->failed == 0 && s.d->device.now() < late) {
    s.d->device.wait(late);
    s.d->poll();
  }
  v.need(s.d->failed == 1, "it fails alone, soon after the watchdog's time");
  const std::string line = s.d->device.why_failed();
  v.say(line);
  v.need(line.find("endless operations 0 to 0") != std::string::npos, "it is named");
  v.need(line.find("work") == std::string::npos, "and it alone");
  v.need(!s.d->device.failure(), "the device lives");
  v.need(s.d->device.statistics().expired_leases == 1,
         "the lane was not held for urgent work that makes no progress");
  s.d->device.resume(s.low);
  v.need(s.d->finish() && s.d->done == 2, "and its work ends well");
  s.d.reset();
  v.leave();
}

TEST_CASE("a held lane does not count as hung") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("yield child: a lane that stands is not hung", 60) == "");
}
TEST_CASE("a destroyed device opens its gates") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("yield child: a device goes while a lane stands", 60) == "");
}
TEST_CASE("a device that fails while a lane is held loses no segment") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("yield child: a device fails while a lane stands", 60) == "");
}
TEST_CASE("a kernel that hangs beside a held lane is detected") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("yield child: a kernel hangs while a lane stands", 60) == "");
}

} // namespace
} // namespace gsched::testing
