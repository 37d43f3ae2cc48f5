// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end_words.hpp"

#include <gsched/cuda/driver.hpp>

#include <cstddef>
#include <vector>

namespace gsched::cuda {

/// Graph executables and words of ended graphs that are kept so that a lane's stream and graphs can
/// be made anew while a kernel hangs.
///
/// Every few dozen streams or graph executables the driver needs more room, and waits for all work
/// on the GPU to get it (`gsched.gpu.standing --parts growth`): behind a kernel that hangs, for
/// ever. An executable that is destroyed leaves its room to what is made next.
///
/// Errors   of the constructor: with CUDA's words.
/// Cost     the constructor: an instantiation for each executable.
/// Threads  one owner. The room may be taken by another thread that makes a stream or a graph.
class spare_executables {
public:
  /// For so many lanes; each is made of so many streams and executables.
  spare_executables(const driver_functions& cu, end_words& words, CUcontext place,
                    std::size_t lanes, std::size_t each);
  ~spare_executables();
  spare_executables(const spare_executables&) = delete;
  spare_executables& operator=(const spare_executables&) = delete;

  /// Makes room for one lane, and gives back a word. False if nothing is left.
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
