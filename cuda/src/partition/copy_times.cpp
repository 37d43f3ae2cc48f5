// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/partition/copy_times.hpp>

#include "hung_streams.hpp"
#include "owners.hpp"
#include "relaxed_capture.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace gsched::cuda {
namespace {

constexpr std::size_t large = std::size_t{8} << 20;
constexpr std::size_t small = 64;
constexpr int small_copies = 64;
constexpr std::size_t repetitions = 7;
constexpr const char* what = "times of copies";

struct host_freer {
  void operator()(std::byte* p) const noexcept { cudaFreeHost(p); }
};

/// Copies on a stream of their own, and their times.
class timed_copies {
public:
  timed_copies(int gpu, duration watchdog)
      : gpu_(gpu), watchdog_(watchdog), stream_(make_stream(what)), begin_(make_event(what)),
        end_(make_event(what)), on_gpu_(make_device_memory<std::byte>(large, what)) {
    void* p = nullptr;
    check(cudaHostAlloc(&p, large, cudaHostAllocPortable), what);
    on_host_.reset(static_cast<std::byte*>(p));
  }

  /// Nanoseconds of so many copies, one after the other; the median.
  [[nodiscard]] double median(cudaMemcpyKind kind, std::size_t bytes, int copies) {
    std::array<double, repetitions> all{};
    static_cast<void>(once(kind, bytes, copies)); // the first ones map memory
    for (double& t : all) t = once(kind, bytes, copies);
    std::nth_element(all.begin(), all.begin() + repetitions / 2, all.end());
    return all[repetitions / 2];
  }

private:
  [[nodiscard]] double once(cudaMemcpyKind kind, std::size_t bytes, int copies) {
    check(cudaEventRecord(begin_.get(), stream_.get()), what);
    for (int i = 0; i < copies; ++i) {
      // Not one behind the other: each request has memory of its own.
      std::byte* const host = on_host_.get() + static_cast<std::size_t>(i) * 2 * bytes;
      std::byte* const device = on_gpu_.get() + static_cast<std::size_t>(i) * bytes;
      const bool up = kind == cudaMemcpyHostToDevice;
      check(cudaMemcpyAsync(up ? device : host, up ? host : device, bytes, kind, stream_.get()),
            what);
    }
    check(cudaEventRecord(end_.get(), stream_.get()), what);
    wait();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), what);
    return 1e6 * static_cast<double>(ms);
  }

  void wait() {
    const auto until = std::chrono::steady_clock::now() + watchdog_;
    for (;;) {
      const cudaError_t e = cudaEventQuery(end_.get());
      if (e == cudaSuccess) return;
      if (e != cudaErrorNotReady) check(e, what);
      if (std::chrono::steady_clock::now() > until) break;
      std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
    abandon_stream(gpu_, stream_.release()); // to free any of these would wait for the copies
    static_cast<void>(begin_.release());
    static_cast<void>(end_.release());
    static_cast<void>(on_gpu_.release());
    static_cast<void>(on_host_.release());
    throw error(errc::device_failed, std::string(what) + ": GPU " + std::to_string(gpu_) +
                                         " ends no copy, expected an idle copy engine");
  }

  int gpu_;
  duration watchdog_;
  stream_owner stream_;
  event_owner begin_;
  event_owner end_;
  device_memory<std::byte> on_gpu_;
  std::unique_ptr<std::byte, host_freer> on_host_;
};

} // namespace

copy_times measure_copies(int gpu, duration watchdog) {
  static_cast<void>(find_gpu(gpu)); // throws where there is none
  const current_gpu here(gpu);
  const relaxed_capture relaxed;
  expect_no_hang(gpu, what);
  timed_copies copies(gpu, watchdog);
  const double up = copies.median(cudaMemcpyHostToDevice, small, small_copies) / small_copies;
  const double down = copies.median(cudaMemcpyDeviceToHost, small, small_copies) / small_copies;
  const double each = std::max(up, down);
  const auto rate = [&](cudaMemcpyKind kind) {
    return static_cast<double>(large) / std::max(1.0, copies.median(kind, large, 1) - each);
  };
  return {duration{static_cast<duration::rep>(each)}, rate(cudaMemcpyHostToDevice),
          rate(cudaMemcpyDeviceToHost)};
}

} // namespace gsched::cuda
