// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/device/device.hpp>

#include <boost/intrusive/list.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gsched::cuda {

namespace bi = boost::intrusive;
struct leaving_program;
struct range_graphs;
struct segment_graph;

/// A segment from when it is accepted until its end is polled.
struct device_segment {
  enum class stage : std::uint8_t {
    held,      ///< waits for room in the notification ring, for its lane, or behind one that does
    started,   ///< handed to the driver
    ended,     ///< as its word says; its kernels' words may still be missing
    refused,   ///< was held, and then the driver refused it
    withdrawn, ///< was held, and then its lane yielded
    lost       ///< it hangs, or is queued behind one that does
  };
  segment what{};
  stage at = stage::held;
  bool alone = false;      ///< it is handed over when nothing else is under way on its lane
  bool words_lost = false; ///< it has ended, and some of its words never came
  bool needs_sms = false;  ///< on which gates of other lanes may stand
  duration expected{};     ///< what it takes alone; of loose copies a guess from their size
  enum class outcome : std::uint8_t {
    whole,
    left, ///< not all of its operations have ended
    wrong ///< not known which have, or the driver refused one of several loose ones
  };
  outcome how = outcome::whole;       ///< of one that has ended
  std::uint32_t operations_ended = 0; ///< of one that has left
  std::uint64_t within_gpu =
      0; ///< which of its first 64 loose operations are copies within the GPU
  std::uint32_t replay = 0;
  CUevent end_event = nullptr; ///< recorded behind the graph that was launched for it; or null
  std::uint64_t* end_word = nullptr; ///< of the graph that was launched last for it ...
  std::uint64_t end_value = 0;       ///< ... and what it has reached once that launch has ended

  /// Whether it has, of one that has started: one load, or a call of the driver.
  [[nodiscard]] bool over(const driver_functions& cu) const noexcept {
    // An error is left to check_health.
    if (end_event != nullptr) return cu.cuEventQuery(end_event) == CUDA_SUCCESS;
    // [L1] acquire <- the marker's store.
    return sync::atomic_ref<std::uint64_t>(*end_word).load(sync::acquire) >= end_value;
  }
  /// Whether it was launched as a graph with gates.
  [[nodiscard]] bool has_gates() const noexcept;
  std::uint64_t words = 0; ///< that its kernels write
  std::uint64_t words_read = 0;
  leaving_program* leaves = nullptr; ///< its program, of one whose operations leave
  range_graphs* graphs = nullptr;    ///< null for loose operations and plain direct launches
  segment_graph* graph = nullptr;    ///< the one that was launched
  time_point started{};
  std::uint64_t words_checked = 0; ///< words_read when it was last looked at ...
  time_point last_word{};          ///< ... and when that was, if they had grown
  time_point seen_ended{};         ///< while words are missing
  bool stuck = false;              ///< it did not move for long, while gates stood
  time_point freed{};              ///< it was stuck until then, when a gate ended by itself

  using hook = bi::list_member_hook<bi::link_mode<bi::safe_link>>;
  hook lane_hook{};
  hook held_hook{};
  hook graph_hook{};
};

template <device_segment::hook device_segment::*Hook>
using device_segment_queue =
    bi::list<device_segment, bi::member_hook<device_segment, device_segment::hook, Hook>,
             bi::constant_time_size<false>>;
using lane_queue = device_segment_queue<&device_segment::lane_hook>;
using held_queue = device_segment_queue<&device_segment::held_hook>;
using graph_queue = device_segment_queue<&device_segment::graph_hook>;

/// All flights of a device. Never allocates after construction.
class device_segment_pool {
public:
  explicit device_segment_pool(std::size_t n)
      : all_(std::make_unique<device_segment[]>(n)), size_(n) {
    free_.reserve(n);
    for (std::size_t i = n; i-- > 0;) free_.push_back(&all_[i]);
  }
  /// Null when all are in use.
  [[nodiscard]] device_segment* try_take() noexcept {
    if (free_.empty()) return nullptr;
    device_segment* const f = free_.back();
    free_.pop_back();
    return f;
  }
  void give_back(device_segment& f) noexcept { free_.push_back(&f); } // within reserved capacity
  [[nodiscard]] std::size_t in_use() const noexcept { return size_ - free_.size(); }

private:
  std::unique_ptr<device_segment[]> all_;
  std::vector<device_segment*> free_;
  std::size_t size_;
};

} // namespace gsched::cuda
