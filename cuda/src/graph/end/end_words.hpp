// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end/marker.hpp"
#include "graph/gates/gate.hpp"

#include <gsched/cuda/driver.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gsched::cuda {

/// The words of one graph in pinned memory: its end word, and the words of its gates.
///
/// For a program's graph, the host clears the end word before a launch, and the launch sets it to
/// 1. No other launch of that graph may be in flight then. For a lane's own graph, the word counts
/// the launches that have ended. CUDA runs these launches in order, so the n-th has ended when the
/// word has reached n.
struct end_word {
  std::uint64_t* seen = nullptr; ///< host address of the word
  CUdeviceptr word = 0;          ///< its device address
  CUdeviceptr count = 0;         ///< in device memory: ended launches, for marker::counts
  gate_line* gates = nullptr;    ///< host address of the gates' words
  CUdeviceptr gates_device = 0;  ///< their device address
  std::uint64_t launched = 0;    ///< launches counted by the host
};

/// Owns the end words of a device's graphs. Each word, and the words of each graph's gates, have a
/// cache line of their own. Words have stable addresses and start at 0.
///
/// Errors   out_of_memory, device_failed, with CUDA's message.
/// Cost     take allocates chunk_words words at a time, in set-up and for graphs built late.
/// Threads  take and give_back: any.
class end_words {
public:
  end_words();
  ~end_words();
  end_words(const end_words&) = delete;
  end_words& operator=(const end_words&) = delete;

  [[nodiscard]] end_word* take();
  /// Returns the word of a graph of which nothing is in flight.
  void give_back(end_word* w) noexcept;
  /// Disables all freeing from now on, because the GPU may still write.
  void abandon() noexcept { abandoned_ = true; }

private:
  static constexpr std::size_t chunk_words = 512;
  struct chunk;
  void add_chunk();

  std::mutex set_up_;
  std::vector<std::unique_ptr<chunk>> chunks_;
  std::vector<end_word*> free_;
  bool abandoned_ = false;
};

/// Adds a marker to a graph: a kernel that runs when all other nodes have ended and stores to the
/// end word. It runs on the SMs of `place`, with the priority of a kernel before it.
///
/// A programmatic edge counts as a full edge: a kernel behind one that starts early must wait for
/// the kernel before it (griddepcontrol.wait), so it ends later.
void add_marker(const driver_functions& cu, CUgraph graph, marker what, const end_word& to,
                CUcontext place);

} // namespace gsched::cuda
