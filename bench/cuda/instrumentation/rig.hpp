// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"

#include "experiment.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace instrumentation {

namespace cuda = gsched::cuda;

/// Reads a ring on its own thread, like a dispatcher.
class consumer {
public:
  explicit consumer(gsched::ring_reader& from) : reader_(from), thread_([this] { read(); }) {}
  ~consumer() {
    // relaxed: asks the thread to end; join orders the rest.
    leave_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  consumer(const consumer&) = delete;
  consumer& operator=(const consumer&) = delete;

  /// The pause after it found nothing in the ring: a read takes the cache line from where the GPU's
  /// words arrive.
  void rest(unsigned ns) noexcept {
    // relaxed: a hint.
    rest_ns_.store(ns, std::memory_order_relaxed);
  }

  /// Waits until that many words have been read in total.
  void wait_for(std::uint64_t words) const {
    // [C1] acquire <- [C1] release in read.
    while (words_.load(std::memory_order_acquire) < words) {
    }
  }

private:
  void read() {
    std::uint64_t words = 0;
    while (!leave_.load(std::memory_order_relaxed)) {
      const std::size_t found = reader_.drain([](const gsched::notification&) {}, 4096);
      words += found;
      words_.store(words, std::memory_order_release); // [C1]
      const unsigned ns = found > 0 ? 0 : rest_ns_.load(std::memory_order_relaxed);
      if (ns == 0) continue;
      const double until = experiment::seconds_now() + ns * 1e-9;
      while (experiment::seconds_now() < until) {
      }
    }
  }

  gsched::ring_reader& reader_;
  std::atomic<bool> leave_{false};
  std::atomic<std::uint64_t> words_{0};
  std::atomic<unsigned> rest_ns_{cuda::reader_rest.count()};
  std::thread thread_;
};

/// A ring with its reader, a launch slot for each variant, one stream.
class rig {
public:
  rig(int gpu, std::size_t slots, unsigned most_blocks, bool rivals)
      : ring_(gpu, slots), consumer_(ring_.reader()) {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    cuda::check(instrumentation::prepare(), "shared memory of a kernel");
    void* p = nullptr;
    cuda::check(cudaMalloc(&p, most_blocks * sizeof(std::uint32_t)), "counters of exits");
    exits_ = static_cast<std::uint32_t*>(p);
    cuda::check(cudaMemset(exits_, 0, most_blocks * sizeof(std::uint32_t)), "counters of exits");
    for (const variant& v : variants)
      if (rivals || !v.rival) {
        chosen_.push_back({v, {}, {}});
        if (v.group == 0) continue;
        chosen_.back().slot = ring_.take_slot(v.group);
        chosen_.back().to = ring_.report_of(chosen_.back().slot);
        if (v.how == way::merged) cuda::check(prepare_merged(chosen_.back().to), "counters");
      }
  }
  ~rig() {
    cudaStreamDestroy(stream_);
    cudaFree(exits_);
  }
  rig(const rig&) = delete;
  rig& operator=(const rig&) = delete;

  struct choice {
    variant what;
    cuda::launch_slot slot;
    cuda::report to;
  };
  [[nodiscard]] const std::vector<choice>& chosen() const noexcept { return chosen_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }

  void rest_as(const choice& c) noexcept { consumer_.rest(c.what.rest_ns); }

  void launch(const choice& c, unsigned blocks, unsigned threads, const duration& d) {
    cuda::check(instrumentation::launch(c.what.how, blocks, threads, stream_, c.to, exits_, d),
                "launch");
  }

  /// That many launches have ended: waits for their words.
  void expect(const choice& c, unsigned blocks, std::uint64_t launches) {
    if (c.what.group == 0) return;
    words_ += launches * ring_.words_of(c.slot, blocks);
    consumer_.wait_for(words_);
  }
  [[nodiscard]] bool intact() noexcept { return ring_.reader().counts().intact(); }

private:
  cuda::notification_ring ring_;
  consumer consumer_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* exits_ = nullptr;
  std::vector<choice> chosen_;
  std::uint64_t words_ = 0;
};

} // namespace instrumentation
