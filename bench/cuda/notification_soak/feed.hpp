// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "books.hpp"
#include "kernels.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace soak {

struct tally {
  std::uint64_t graph_launches = 0;
  std::uint64_t direct_launches = 0;
  std::uint64_t held = 0; ///< launches that had to wait for free words in the ring
  std::uint64_t most_reserved = 0;
  std::uint64_t empty_looks = 0;
};

/// One thread that launches and reads, like a dispatcher: graphs of mixed kernels, one stream each,
/// launched again as soon as the ring has free words, and occasionally a single kernel with a new
/// slot. A launch requires free words for all its notifications.
class feed {
public:
  struct shape {
    std::size_t slots = std::size_t{1} << 21;
    unsigned graphs = 8;
    unsigned kernels = 6;               ///< of a graph
    std::uint64_t graph_words = 60'000; ///< about
    unsigned in_flight = 2;             ///< launches of one graph
    unsigned direct_every = 64;         ///< graph launches to one direct launch
    unsigned direct_blocks = 3000;      ///< at most
    std::chrono::nanoseconds rest = gsched::cuda::reader_rest; ///< pause after an empty read
  };

  feed(const gsched::cuda::gpu& gpu, const shape& how, std::uint64_t seed);
  ~feed();
  feed(const feed&) = delete;
  feed& operator=(const feed&) = delete;

  /// Launches what the ring has free words for.
  void launch();
  /// Reads the available words, except for a while after it found none. Returns their number.
  std::size_t read();
  /// Whether all launches have ended and are recorded.
  [[nodiscard]] bool idle() const noexcept;
  /// Counts missing words as lost, after the GPU is done.
  void finalise();

  [[nodiscard]] const books& booked() const noexcept { return books_; }
  [[nodiscard]] const tally& counted() const noexcept { return tally_; }
  [[nodiscard]] gsched::cuda::notification_ring& ring() noexcept { return ring_; }

private:
  struct graph {
    cudaStream_t stream = nullptr;
    CUgraphExec exec = nullptr;
    gsched::cuda::launch_slot last{}; ///< of its last kernel, which ends after all others
    std::uint64_t words = 0;
    std::uint64_t launched = 0;
    std::uint64_t over = 0;
    bool held = false;
  };
  struct single {
    work what;
    gsched::cuda::launch_slot slot{};
    std::uint64_t words = 0;
  };

  [[nodiscard]] work draw(std::uint64_t words);
  void build(graph& g);
  void launch_single();
  [[nodiscard]] bool reserve(std::uint64_t words) noexcept;

  shape how_;
  std::mt19937_64 random_;
  gsched::cuda::notification_ring ring_;
  books books_;
  tally tally_;
  std::vector<graph> graphs_;
  cudaStream_t singles_on_ = nullptr;
  std::deque<single> singles_;
  std::chrono::steady_clock::time_point look_again_{};
};

} // namespace soak
