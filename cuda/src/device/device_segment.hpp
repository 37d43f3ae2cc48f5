// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/device/device.hpp>

#include <boost/intrusive/list.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gsched::cuda {

namespace bi = boost::intrusive;
struct preemptible_program;
struct range_graphs;
struct segment_graph;

/// A segment of a device from its acceptance until its end is polled.
struct device_segment {
  enum class stage : std::uint8_t {
    held,      ///< waits for space in the ring, for its lane, or behind a segment that waits
    started,   ///< submitted to the driver
    ended,     ///< its end word says so; words of its kernels may still be missing
    refused,   ///< was held, and then refused by the driver
    withdrawn, ///< was held when its lane yielded
    lost       ///< hangs, or is queued behind a segment that does
  };
  segment what{};
  stage at = stage::held;
  bool alone = false;      ///< submit only when nothing else of its lane is in flight
  bool words_lost = false; ///< has ended, and some of its words never came
  bool needs_sms = false;  ///< needs SMs that gates of other lanes may occupy
  duration expected{};     ///< when run alone; estimated by size for standalone copies
  enum class outcome : std::uint8_t {
    whole,
    preempted, ///< not all operations have ended
    wrong ///< unknown which operations have ended, or the driver refused a standalone operation
  };
  outcome how = outcome::whole;       ///< valid after the end
  std::uint32_t operations_ended = 0; ///< of a preempted segment
  std::uint64_t within_gpu = 0;       ///< bit i: standalone operation i < 64 copies within the GPU
  std::uint32_t replay = 0;
  CUevent end_event = nullptr;       ///< recorded behind the launched graph; or null
  std::uint64_t* end_word = nullptr; ///< of the last graph launched for the segment
  std::uint64_t end_value = 0;       ///< the word's value when that launch has ended

  /// Whether a started segment has ended. Costs one load, or one call of the driver.
  [[nodiscard]] bool over(const driver_functions& cu) const noexcept {
    // check_health handles errors.
    if (end_event != nullptr) return cu.cuEventQuery(end_event) == CUDA_SUCCESS;
    // [L1] acquire <- the marker's store.
    return sync::atomic_ref<std::uint64_t>(*end_word).load(sync::acquire) >= end_value;
  }
  /// Whether the launched graph has gates.
  [[nodiscard]] bool has_gates() const noexcept;
  std::uint64_t words = 0; ///< that its kernels write to the ring
  std::uint64_t words_read = 0;
  preemptible_program* preemptible = nullptr; ///< of a preemptible program
  range_graphs* graphs = nullptr; ///< null for standalone operations and plain direct launches
  segment_graph* graph = nullptr; ///< the launched graph
  time_point started{};
  std::uint64_t words_checked = 0; ///< words_read at the last health check
  time_point last_word{};          ///< time of the last check at which it had grown
  time_point seen_ended{};         ///< while words are missing: when the end was seen
  bool stuck = false;              ///< made no progress for long while gates were closed
  time_point freed{};              ///< when a gate ended by itself while the segment was stuck

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

/// The segments of a device. Never allocates after construction.
class device_segment_pool {
public:
  explicit device_segment_pool(std::size_t n)
      : all_(std::make_unique<device_segment[]>(n)), size_(n) {
    free_.reserve(n);
    for (std::size_t i = n; i-- > 0;) free_.push_back(&all_[i]);
  }
  /// Null if all are in use.
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
