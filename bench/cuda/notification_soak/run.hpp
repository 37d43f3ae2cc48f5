// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/notification_ring.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace soak {

struct options {
  double words = 1e9;
  double overload_words = 2e7;
  double seconds = 150; ///< of the first part, at most
  std::size_t slots = std::size_t{1} << 21;
  std::size_t overload_slots = std::size_t{1} << 12;
  /// pause after an empty read of the ring
  std::chrono::nanoseconds rest = gsched::cuda::reader_rest;
  std::uint64_t seed = 1;
  int gpu = 0;
  std::string json;
};

/// Prints progressively; writes the JSON. Returns false if a word was lost, duplicated or out of
/// order.
[[nodiscard]] bool run(const options& o);

} // namespace soak
