// SPDX-License-Identifier: Apache-2.0
#include "relaxed_capture.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace gsched::cuda {

namespace {

constexpr std::size_t chunk_slots = 1024;
constexpr std::size_t all_slots = std::size_t{1} << (32 - replay_bits);
constexpr std::size_t ticket_bytes = 256; // an L2 line of its own: every block accesses it

struct freed_on_host {
  void operator()(void* p) const noexcept { cudaFreeHost(p); }
};
struct freed_on_device {
  void operator()(void* p) const noexcept { cudaFree(p); }
};
struct destroyed_stream {
  void operator()(cudaStream_t s) const noexcept { cudaStreamDestroy(s); }
};
template <class T>
using device_memory = std::unique_ptr<T, freed_on_device>;

template <class T>
device_memory<T> allocate(std::size_t bytes, const char* what) {
  void* p = nullptr;
  check(cudaMalloc(&p, bytes), what);
  return device_memory<T>(static_cast<T*>(p));
}

constexpr launch_counters fresh(std::size_t slot) noexcept {
  const std::uint64_t first = static_cast<std::uint64_t>(slot << replay_bits) << 32;
  return {first, first, first};
}

std::size_t checked(std::size_t slots) {
  if (slots > notification_ring::max_slots)
    throw error(errc::bad_option, "notification ring of " + std::to_string(slots) +
                                      " slots, expected at most " +
                                      std::to_string(notification_ring::max_slots));
  return gsched::detail::checked_slots(slots);
}

} // namespace

struct notification_ring::state {
  state(int on, std::size_t slots)
      : gpu(on), words(pinned(checked(slots)), slots), ring(words), limit(slots),
        ticket(allocate<std::uint64_t>(ticket_bytes, "notification ring: its ticket")) {
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "notification ring: its stream");
    stream.reset(s);
    void* seen = nullptr;
    check(cudaHostGetDevicePointer(&seen, words.data(), 0), "notification ring: its slots");
    device_words = static_cast<std::uint64_t*>(seen);
    // By a copy: a memset outside of a graph is a kernel, and kernels launched on several streams
    // slow every later graph of the process.
    const std::array<std::byte, ticket_bytes> zeros{};
    check(cudaMemcpyAsync(ticket.get(), zeros.data(), zeros.size(), cudaMemcpyHostToDevice, s),
          "notification ring: its ticket");
    check(cudaStreamSynchronize(s), "notification ring: its ticket");
    add_chunk();
  }

  std::uint64_t* pinned(std::size_t slots) {
    void* p = nullptr;
    check(cudaHostAlloc(&p, slots * sizeof(std::uint64_t),
                        cudaHostAllocPortable | cudaHostAllocMapped),
          "notification ring: pinned memory");
    memory.reset(static_cast<std::uint64_t*>(p));
    std::fill_n(memory.get(), slots, nothing_here);
    return memory.get();
  }

  void add_chunk() {
    const std::size_t first = groups.size();
    std::vector<launch_counters> start(chunk_slots);
    for (std::size_t i = 0; i < chunk_slots; ++i) start[i] = fresh(first + i);
    auto chunk = allocate<launch_counters>(chunk_slots * sizeof(launch_counters),
                                           "notification ring: counters of launches");
    write(chunk.get(), start);
    free.reserve(first + chunk_slots);
    launches.resize(first + chunk_slots);
    groups.resize(first + chunk_slots);
    chunks.push_back(std::move(chunk));
    for (std::size_t i = chunk_slots; i-- > 0;)
      free.push_back(static_cast<std::uint32_t>(first + i));
  }

  /// Waits only for its own stream; running kernels of other streams do not delay it.
  void write(launch_counters* where, std::span<const launch_counters> what) const {
    check(cudaMemcpyAsync(where, what.data(), what.size_bytes(), cudaMemcpyHostToDevice,
                          stream.get()),
          "notification ring: counters of launches");
    check(cudaStreamSynchronize(stream.get()), "notification ring: counters of launches");
  }

  [[nodiscard]] launch_counters* counters(std::size_t slot) const noexcept {
    return chunks[slot / chunk_slots].get() + slot % chunk_slots;
  }

  int gpu;
  std::unique_ptr<std::uint64_t, freed_on_host> memory;
  std::span<std::uint64_t> words;
  ring_reader ring;
  flow_control limit;
  std::uint64_t* device_words = nullptr;
  device_memory<std::uint64_t> ticket;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroyed_stream> stream;
  std::vector<device_memory<launch_counters>> chunks;
  std::vector<std::uint32_t> launches; ///< by slot: launches since it was taken
  std::vector<std::uint8_t> groups;    ///< by slot: group size; zero: never taken
  std::vector<std::uint32_t> free;     ///< a stack
};

notification_ring::notification_ring(int gpu, std::size_t slots) {
  const current_gpu here(gpu);
  const relaxed_capture apart;
  state_ = std::make_unique<state>(gpu, slots);
}

notification_ring::~notification_ring() {
  const current_gpu here(state_->gpu);
  const relaxed_capture apart;
  state_.reset();
}

launch_slot notification_ring::take_slot(std::uint32_t group_blocks, std::uint64_t blocks) {
  return take_slot(group_blocks == 0 ? automatic_group(blocks) : group_blocks);
}

launch_slot notification_ring::take_slot(std::uint32_t group_blocks) {
  state& s = *state_;
  if (group_blocks == 0 || group_blocks > max_group_blocks)
    throw error(errc::bad_option, "notifications of groups of " + std::to_string(group_blocks) +
                                      " blocks, expected 1 to " + std::to_string(max_group_blocks));
  const current_gpu here(s.gpu);
  const relaxed_capture apart;
  if (s.free.empty()) {
    if (s.groups.size() == all_slots)
      throw error(errc::too_small, "notification ring: all " + std::to_string(all_slots) +
                                       " launch slots are taken, expected fewer");
    s.add_chunk();
  }
  const std::uint32_t slot = s.free.back();
  if (s.groups[slot] != 0) { // used before: reset its counters
    const launch_counters again = fresh(slot);
    s.write(s.counters(slot), {&again, 1});
    s.launches[slot] = 0;
  }
  s.free.pop_back();
  s.groups[slot] = static_cast<std::uint8_t>(group_blocks);
  return launch_slot{slot};
}

void notification_ring::give_back(launch_slot slot) {
  state_->free.push_back(static_cast<std::uint32_t>(slot)); // within reserved capacity
}

report notification_ring::report_of(launch_slot slot) const noexcept {
  const state& s = *state_;
  const auto number = static_cast<std::uint32_t>(slot);
  report r;
  r.counters = s.counters(number);
  r.slots = s.device_words;
  r.ticket = s.ticket.get();
  r.group = s.groups[number];
  r.reciprocal = reciprocal_of(r.group);
  r.slot_mask = static_cast<std::uint32_t>((s.words.size() - 1) * sizeof(std::uint64_t));
  r.lap_shift = static_cast<std::uint32_t>(std::countr_zero(s.words.size()));
  return r;
}

std::uint32_t notification_ring::count_launch(launch_slot slot) noexcept {
  const auto number = static_cast<std::uint32_t>(slot);
  const std::uint32_t launch = state_->launches[number]++;
  return number << replay_bits | (launch & ((1u << replay_bits) - 1));
}

std::uint64_t notification_ring::words_of(launch_slot slot, std::uint64_t blocks) const noexcept {
  const std::uint64_t group = state_->groups[static_cast<std::uint32_t>(slot)];
  return 2 * ((blocks + group - 1) / group);
}

ring_reader& notification_ring::reader() noexcept { return state_->ring; }
flow_control& notification_ring::flow() noexcept { return state_->limit; }

std::size_t notification_ring::memory() const noexcept {
  const state& s = *state_;
  return s.words.size_bytes() + ticket_bytes +
         s.chunks.size() * chunk_slots * sizeof(launch_counters);
}

} // namespace gsched::cuda
