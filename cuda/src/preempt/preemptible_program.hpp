// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end/end_words.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/cuda/preempt/preemption_slots.hpp>

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace gsched::cuda {

/// The preemption state of a loaded program: the slots of its kernels, and the flag that preempts
/// them. At most one segment of such a program runs at a time, on any lane.
///
/// The device raises the flag when a lane with segments of the program yields, and lowers it when
/// these have ended. No segment of the program starts until the flag is known to be down. Both
/// writes go through one stream, so they are ordered.
struct preemptible_program {
  preemptible_program(preemption_slots s, end_word& w) noexcept : slots(std::move(s)), words(w) {}

  /// In device memory: the count of an end word, which the program's markers do not use.
  [[nodiscard]] CUdeviceptr flag() const noexcept { return words.count; }
  /// Whether the flag is down, as far as the host has seen.
  [[nodiscard]] bool is_down() noexcept {
    // [L2] acquire <- the stream's second write, after the write of the flag.
    if (lowering && sync::atomic_ref<std::uint64_t>(*words.seen).load(sync::acquire) == lowered)
      raised = lowering = false;
    return !raised;
  }

  preemption_slots slots;
  end_word& words;
  std::uint32_t in_flight = 0; ///< segments that have started and not ended
  std::uint32_t lowered = 0;   ///< number of times the flag was lowered
  bool raised = false;         ///< until the flag is known to be down
  bool lowering = false;
  std::optional<std::uint32_t> rest_from; ///< the first operation with remaining blocks
};

} // namespace gsched::cuda
