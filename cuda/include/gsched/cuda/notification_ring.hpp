// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/launch_counters.hpp>
#include <gsched/cuda/report.hpp>
#include <gsched/notify/flow_control.hpp>
#include <gsched/notify/ring.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace gsched::cuda {

/// Where the blocks of one kernel launch count: given to at most one launch at a time. CUDA keeps
/// to that by itself for a node of an instantiated graph.
enum class launch_slot : std::uint32_t {};

/// Who has found the ring empty leaves it alone for that long: each look takes the line that words
/// arrive in away from the GPU, and words that cannot be delivered hold up the launches that wrote
/// them. On an H200, words of all 160 blocks add 5.8 us (p90 11.1) to a launch whose ring is polled
/// without a rest, 1.9 (3.1) with one of 300 ns, and 1.7 (1.7) with this one
/// (gsched.gpu.instrumentation --rivals).
inline constexpr std::chrono::nanoseconds reader_rest{2000};

/// Largest launch of which each block reports by itself where groups are chosen automatically.
/// A group costs a trip to L2 more, which its fewer words are not worth up to here: on an H200 and
/// over the plain kernel, 1.6 us where each of 160 blocks tells and 2.2 in groups of 16; of 1584
/// blocks 4.2 and 5.3 (gsched.gpu.instrumentation). Far above, the words fill the ring: 8 ns each.
inline constexpr std::uint64_t every_block_up_to = 2048;

/// Blocks that share a word in a launch of that many, where nothing else is asked for.
[[nodiscard]] constexpr std::uint32_t automatic_group(std::uint64_t blocks) noexcept {
  return blocks <= every_block_up_to ? 1 : max_group_blocks;
}

/// The notification ring of one GPU: slots in pinned host memory that the GPU writes and the host
/// reads, a ticket in device memory, and the counters of launch slots.
///
/// A word's instance is (slot << replay_bits) | replay, where replay counts the launches of the
/// slot, modulo 2^replay_bits; the GPU advances it by itself at the end of each launch, so that a
/// replayed graph needs nothing of the host.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2.
/// Units    a grid that reports has at most max_reporting_blocks.
/// Errors   too_small for slots that are no power of two, bad_option for more than max_slots of
///          them; device_failed where memory is short.
/// Threads  one owner.
class notification_ring {
public:
  static constexpr unsigned replay_bits = cuda::replay_bits;

  static constexpr std::size_t max_slots = std::size_t{1} << 28;

  notification_ring(int gpu, std::size_t slots);
  ~notification_ring();
  notification_ring(const notification_ring&) = delete;
  notification_ring& operator=(const notification_ring&) = delete;

  /// A slot for a kernel, that reports groups of that many blocks, 1 to max_group_blocks. Set-up:
  /// may allocate. It does not wait for what the GPU is doing. Errors   bad_option for groups of
  /// another size; too_small when 2^(32 - replay_bits) are in use.
  [[nodiscard]] launch_slot take_slot(std::uint32_t group_blocks);
  /// For launches of about that many blocks, which may differ later. Zero for group_blocks: as
  /// automatic_group says.
  [[nodiscard]] launch_slot take_slot(std::uint32_t group_blocks, std::uint64_t blocks);
  /// Nothing of it may be in flight.
  void give_back(launch_slot s);
  [[nodiscard]] report report_of(launch_slot s) const noexcept;

  /// Once for each launch of the slot, in the order of the launches: the instance that its words
  /// will carry.
  [[nodiscard]] std::uint32_t count_launch(launch_slot s) noexcept;
  [[nodiscard]] static constexpr launch_slot slot_of(std::uint32_t instance) noexcept {
    return launch_slot{instance >> replay_bits};
  }
  /// Words that one launch of that many blocks writes.
  [[nodiscard]] std::uint64_t words_of(launch_slot s, std::uint64_t blocks) const noexcept;

  [[nodiscard]] ring_reader& reader() noexcept;
  [[nodiscard]] flow_control& flow() noexcept;
  /// Device and pinned memory that it holds, in bytes.
  [[nodiscard]] std::size_t memory() const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
