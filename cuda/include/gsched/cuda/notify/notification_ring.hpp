// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/launch_counters.hpp>
#include <gsched/cuda/notify/report.hpp>
#include <gsched/notify/flow_control.hpp>
#include <gsched/notify/ring.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace gsched::cuda {

/// The counters of one kernel launch. At most one launch at a time may use a slot. CUDA guarantees
/// this for a node of an instantiated graph.
enum class launch_slot : std::uint32_t {};

/// A reader that finds the ring empty does not poll it for this long.
///
/// Each poll takes the cache line in which words arrive away from the GPU, and undelivered words
/// delay the launches that wrote them. On an H200, reporting all 160 blocks adds 5.8 us (p90 11.1)
/// to a launch if the ring is polled without a pause, 1.9 (3.1) with a pause of 300 ns, and 1.7
/// (1.7) with this one (gsched.gpu.instrumentation --rivals).
inline constexpr std::chrono::nanoseconds reader_rest{2000};

/// The largest launch of which each block reports by itself, where the group size is automatic.
///
/// A group costs one more trip to L2, which fewer words do not pay for up to this size. On an H200,
/// over the plain kernel: 160 blocks cost 1.6 us one by one and 2.2 in groups of 16; 1584 blocks
/// cost 4.2 and 5.3 (gsched.gpu.instrumentation). Far above this size the words fill the ring, at 8
/// ns each.
inline constexpr std::uint64_t every_block_up_to = 2048;

/// The automatic group size for a launch of that many blocks.
[[nodiscard]] constexpr std::uint32_t automatic_group(std::uint64_t blocks) noexcept {
  return blocks <= every_block_up_to ? 1 : max_group_blocks;
}

/// The notification ring of one GPU: slots in pinned host memory, which the GPU writes and the host
/// reads; a ticket in device memory; and the counters of the launch slots.
///
/// The instance of a word is (slot << replay_bits) | replay. `replay` counts the launches of the
/// slot, modulo 2^replay_bits. The GPU advances it at the end of each launch, so that a graph can
/// be replayed without action of the host.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2.
/// Units    a grid that reports has at most max_reporting_blocks.
/// Errors   too_small if the number of slots is no power of two, bad_option if it exceeds
///          max_slots; device_failed if memory is short.
/// Threads  one owner.
class notification_ring {
public:
  static constexpr unsigned replay_bits = cuda::replay_bits;

  static constexpr std::size_t max_slots = std::size_t{1} << 28;

  notification_ring(int gpu, std::size_t slots);
  ~notification_ring();
  notification_ring(const notification_ring&) = delete;
  notification_ring& operator=(const notification_ring&) = delete;

  /// Takes a slot for a kernel that reports groups of `group_blocks` blocks, 1 to max_group_blocks.
  /// Set-up: may allocate; does not wait for the GPU.
  ///
  /// Errors   bad_option for another group size; too_small if 2^(32 - replay_bits) slots are taken.
  [[nodiscard]] launch_slot take_slot(std::uint32_t group_blocks);
  /// The same for launches of about `blocks` blocks; the number may change later. group_blocks = 0
  /// selects automatic_group(blocks).
  [[nodiscard]] launch_slot take_slot(std::uint32_t group_blocks, std::uint64_t blocks);
  /// Returns a slot. None of its launches may be in flight.
  void give_back(launch_slot s);
  [[nodiscard]] report report_of(launch_slot s) const noexcept;

  /// The instance of the slot's next launch. Call it once for each launch, in launch order.
  [[nodiscard]] std::uint32_t count_launch(launch_slot s) noexcept;
  [[nodiscard]] static constexpr launch_slot slot_of(std::uint32_t instance) noexcept {
    return launch_slot{instance >> replay_bits};
  }
  /// The number of words that one launch of `blocks` blocks writes.
  [[nodiscard]] std::uint64_t words_of(launch_slot s, std::uint64_t blocks) const noexcept;

  [[nodiscard]] ring_reader& reader() noexcept;
  [[nodiscard]] flow_control& flow() noexcept;
  /// Device and pinned memory in use, in bytes.
  [[nodiscard]] std::size_t memory() const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
