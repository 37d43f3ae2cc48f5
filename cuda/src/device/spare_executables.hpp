// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end/end_words.hpp"

#include <gsched/cuda/driver.hpp>

#include <cstddef>
#include <vector>

namespace gsched::cuda {

/// Keeps executable graphs and end words in reserve, so that a lane's stream and graphs can be
/// rebuilt while a kernel hangs.
///
/// After every few dozen streams or executable graphs the driver needs more memory, and waits for
/// all work on the GPU to get it (`gsched.gpu.standing --parts growth`); with a kernel that hangs,
/// it waits for ever. Destroying an executable frees its memory for the next stream or graph.
///
/// Errors   constructor: with CUDA's message.
/// Cost     constructor: one instantiation for each executable.
/// Threads  one owner. Another thread that makes a stream or a graph may take the freed memory.
class spare_executables {
public:
  /// A reserve for `lanes` lanes of `each` streams and executables.
  spare_executables(const driver_functions& cu, end_words& words, CUcontext place,
                    std::size_t lanes, std::size_t each);
  ~spare_executables();
  spare_executables(const spare_executables&) = delete;
  spare_executables& operator=(const spare_executables&) = delete;

  /// Frees the memory for one lane, and returns one end word. False if the reserve is empty.
  [[nodiscard]] bool make_room_for_lane() noexcept;

private:
  void destroy(std::size_t n) noexcept;

  const driver_functions& cu_;
  end_words& words_;
  std::size_t each_;
  std::vector<CUgraphExec> executables_{};
  std::vector<end_word*> kept_words_{};
};

} // namespace gsched::cuda
