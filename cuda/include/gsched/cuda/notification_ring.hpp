// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/launch_counters.hpp>
#include <gsched/cuda/report.hpp>
#include <gsched/notify/flow_control.hpp>
#include <gsched/notify/ring.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gsched::cuda {

/// Where the blocks of one kernel launch count: given to at most one launch at a time. CUDA keeps
/// to that by itself for a node of an instantiated graph.
enum class launch_slot : std::uint32_t {};

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
