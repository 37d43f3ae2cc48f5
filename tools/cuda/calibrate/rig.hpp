// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/kernels.hpp"

#include <gsched/cuda/gpu.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ratio>
#include <span>
#include <vector>

namespace calibrate {

/// Host time in microseconds.
[[nodiscard]] inline double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// An executable graph.
class executable {
public:
  explicit executable(std::span<const node> nodes);
  explicit executable(const node& n) : executable(std::span(&n, 1)) {}
  ~executable();
  executable(executable&& o) noexcept : exec_(o.exec_) { o.exec_ = nullptr; }
  executable& operator=(executable&&) = delete;

  void launch(CUstream on) const;

private:
  CUgraphExec exec_ = nullptr;
};

[[nodiscard]] inline executable chain_of(std::size_t n, std::uint64_t cycles = 0) {
  return executable(std::vector<node>(n, spin(cycles)));
}

struct destroyed {
  void operator()(cudaStream_t s) const noexcept { cudaStreamDestroy(s); }
  void operator()(cudaEvent_t e) const noexcept { cudaEventDestroy(e); }
};
struct freed_on_device {
  void operator()(std::uint64_t* p) const noexcept { cudaFree(p); }
};
struct freed_on_host {
  void operator()(std::uint64_t* p) const noexcept { cudaFreeHost(p); }
};

/// The resources that experiments share on one GPU: a stream, events, and lines of pinned memory.
///
/// Errors   gsched::error with CUDA's message, from every call; device_us also too_small if the
///          host is too slow.
class rig {
public:
  explicit rig(const gsched::cuda::gpu& which);
  ~rig();
  rig(const rig&) = delete;
  rig& operator=(const rig&) = delete;

  [[nodiscard]] const gsched::cuda::gpu& gpu() const noexcept { return gpu_; }
  [[nodiscard]] CUstream stream() const noexcept { return stream_.get(); }
  /// At the GPU's maximum clock.
  [[nodiscard]] std::uint64_t cycles(double us) const noexcept {
    return static_cast<std::uint64_t>(us * cycles_per_us_);
  }

  static constexpr std::size_t lines = 8;
  /// A line of pinned memory with a cache line of its own; host and GPU use the same address.
  [[nodiscard]] std::uint64_t* line(std::size_t i) const noexcept { return pinned_.get() + 8 * i; }
  [[nodiscard]] std::uint64_t* counter(std::size_t i) const noexcept { return counters_.get() + i; }
  [[nodiscard]] std::uint64_t read(std::size_t i) const noexcept {
    // acquire <- the GPU's store. The word is all that it publishes; later reads must not move up.
    return std::atomic_ref<std::uint64_t>(*line(i)).load(std::memory_order_acquire);
  }
  void write(std::size_t i, std::uint64_t value) const noexcept {
    std::atomic_ref<std::uint64_t>(*line(i)).store(value, std::memory_order_release);
  }
  /// Waits until the line holds the value; only the watchdog bounds the wait. Returns the time.
  double wait_for(std::size_t i, std::uint64_t value) const noexcept;

  /// Writes the value after all earlier work of the stream.
  void notify(std::size_t i, std::uint64_t value) const;
  void synchronize() const;

  /// GPU time of the work that `enqueue` puts on the stream, in microseconds. A blocker keeps the
  /// stream busy until everything is enqueued, so the time contains no host time.
  double device_us(const std::function<void()>& enqueue) { return device_us(stream(), enqueue); }
  double device_us(CUstream on, const std::function<void()>& enqueue);

private:
  gsched::cuda::gpu gpu_;
  double cycles_per_us_ = 1000;
  std::unique_ptr<CUstream_st, destroyed> stream_;
  std::unique_ptr<CUevent_st, destroyed> begin_;
  std::unique_ptr<CUevent_st, destroyed> end_;
  std::unique_ptr<std::uint64_t, freed_on_host> pinned_;
  std::unique_ptr<std::uint64_t, freed_on_device> counters_;
  std::vector<executable> blockers_; ///< each twice as long as the previous one
  std::size_t blocker_ = 0;
};

} // namespace calibrate
