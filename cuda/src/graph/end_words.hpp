// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/gate.hpp"
#include "graph/marker.hpp"

#include <gsched/cuda/driver.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gsched::cuda {

/// Where the end of a graph's launch is told, in pinned memory, and where its gates look.
///
/// Of a program's graph: the host clears the word before a launch, and the launch sets it to 1; so
/// this can be used while no other launch of that graph is under way. Of a lane's own graph: how
/// many of its launches have ended, which CUDA runs in turn; so the n-th has when the word has
/// reached n.
struct end_word {
  std::uint64_t* seen = nullptr; ///< as the host sees it
  CUdeviceptr word = 0;
  CUdeviceptr count = 0;
  gate_line* gates = nullptr; ///< as the host sees them
  CUdeviceptr gates_there = 0;
  std::uint64_t launched = 0; ///< by the host's count
};

/// The words of a device's graphs, each in a cache line of its own, and so are those of its gates.
/// They stay in place, and start at 0.
///
/// Errors   out_of_memory, device_failed, with CUDA's words.
/// Cost     take allocates for many at a time, in set-up and for graphs that are built late.
/// Threads  take and give_back: any.
class end_words {
public:
  end_words();
  ~end_words();
  end_words(const end_words&) = delete;
  end_words& operator=(const end_words&) = delete;

  [[nodiscard]] end_word* take();
  /// Of a graph of which nothing is under way.
  void give_back(end_word* w) noexcept;
  /// Frees nothing from now on: for a GPU that may still write.
  void leave_behind() noexcept { left_ = true; }

private:
  static constexpr std::size_t chunk_words = 512;
  struct chunk;
  void add_chunk();

  std::mutex set_up_;
  std::vector<std::unique_ptr<chunk>> chunks_;
  std::vector<end_word*> free_;
  bool left_ = false;
};

/// Adds a kernel to a graph that runs when all else in it has ended and then tells it, on the SMs
/// of a context, with the priority of a kernel before it.
///
/// A programmatic edge counts as any other: the kernel behind one has to wait for the kernel before
/// it (griddepcontrol.wait) if that lets it start early, so it ends later.
void add_marker(const driver_functions& cu, CUgraph graph, marker what, const end_word& to,
                CUcontext place);

} // namespace gsched::cuda
