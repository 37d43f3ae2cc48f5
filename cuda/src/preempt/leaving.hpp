// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end_words.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/cuda/preemption_slots.hpp>

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace gsched::cuda {

/// What a program of kernels that leave has beside its graphs: where each kernel stands, and the
/// flag that has them leave. Of such a program one segment runs at a time, on whatever lane.
///
/// The flag is raised when a lane yields that has segments of it in flight, and lowered when these
/// have ended; until it is known to be down, nothing of the program starts. Both are writes on one
/// stream, so in that order.
struct leaving_program {
  leaving_program(preemption_slots s, end_word& w) noexcept : slots(std::move(s)), words(w) {}

  /// In device memory: of an end word, the count, which no marker of this one uses.
  [[nodiscard]] CUdeviceptr flag() const noexcept { return words.count; }
  /// Whether nothing leaves, as far as the host has seen.
  [[nodiscard]] bool is_down() noexcept {
    // [L2] acquire <- the stream's second write, which it makes after the flag's.
    if (lowering && sync::atomic_ref<std::uint64_t>(*words.seen).load(sync::acquire) == lowered)
      raised = lowering = false;
    return !raised;
  }

  preemption_slots slots;
  end_word& words;
  std::uint32_t in_flight = 0; ///< segments that have started and not ended
  std::uint32_t lowered = 0;   ///< how often
  bool raised = false;         ///< until it is known to be down
  bool lowering = false;
  std::optional<std::uint32_t>
      rest_from; ///< the operation that has not ended, and may be half done
};

} // namespace gsched::cuda
