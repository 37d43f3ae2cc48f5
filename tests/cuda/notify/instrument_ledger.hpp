// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/notification_ring.hpp>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace gsched::testing {

/// Checks every word of a ring: each launch of a slot reports its blocks once, ends never precede
/// starts, and launches do not mix.
class ledger {
public:
  explicit ledger(std::uint32_t sms) : sms_(sms) {}

  /// Sets the number of blocks of the slot's launches from now on.
  void expect(cuda::launch_slot s, std::uint64_t blocks, std::uint32_t group) {
    const auto at = static_cast<std::size_t>(s);
    if (at >= slots_.size()) slots_.resize(at + 1);
    slots_[at] = {};
    slots_[at].instance = static_cast<std::uint32_t>(at << cuda::replay_bits);
    slots_[at].blocks = blocks;
    slots_[at].group = group;
    slots_[at].on_sm.assign(sms_, 0);
  }

  void operator()(const notification& n) {
    ++words;
    const std::size_t at = n.instance >> cuda::replay_bits;
    if (at >= slots_.size() || slots_[at].instance != n.instance) {
      ++strays;
      return;
    }
    if (n.sm >= sms_) {
      ++bad_sms;
      return;
    }
    slot& s = slots_[at];
    const bool start = n.type == notification_type::blocks_started;
    if (n.blocks != s.group) { // only the last group of the launch may be smaller
      if (n.blocks != s.blocks % s.group || (start ? s.small_start : s.small_end)) ++bad_groups;
      (start ? s.small_start : s.small_end) = true;
    }
    (start ? s.started : s.ended) += n.blocks;
    if (s.group == 1) { // a block ends on the SM on which it started
      s.on_sm[n.sm] += start ? 1 : -1;
      if (s.on_sm[n.sm] < 0) ++disorder;
    }
    if (s.ended > s.started || s.started > s.blocks) ++disorder;
    if (s.ended < s.blocks) return;
    s.started = s.ended = 0;
    s.small_start = s.small_end = false;
    s.instance = cuda::next_instance(s.instance);
    ++s.launches;
    ++launches;
  }

  [[nodiscard]] std::uint64_t launches_of(cuda::launch_slot s) const {
    return slots_.at(static_cast<std::size_t>(s)).launches;
  }
  [[nodiscard]] bool clean() const noexcept {
    return strays + bad_sms + bad_groups + disorder == 0;
  }

  std::uint64_t words = 0;
  std::uint64_t launches = 0; ///< complete
  std::uint64_t strays = 0;   ///< words of no launch that can be running
  std::uint64_t bad_sms = 0;
  std::uint64_t bad_groups = 0;
  std::uint64_t disorder = 0;

private:
  struct slot {
    std::uint32_t instance = ~0u;
    std::uint32_t group = 1;
    std::uint64_t blocks = 0;
    std::uint64_t started = 0;
    std::uint64_t ended = 0;
    std::uint64_t launches = 0;
    bool small_start = false;
    bool small_end = false;
    std::vector<std::int64_t> on_sm;
  };
  std::uint32_t sms_;
  std::vector<slot> slots_;
};

/// A kernel that hangs cannot be stopped: ends the process, with a line that names the place.
class time_limit {
public:
  explicit time_limit(const char* what, int seconds = 20)
      : what_(what), until_(std::chrono::steady_clock::now() + std::chrono::seconds{seconds}) {}
  void look() const {
    if (std::chrono::steady_clock::now() < until_) return;
    std::fprintf(stderr, "%s: hangs; process ends\n", what_);
    std::fflush(nullptr);
    std::_Exit(3);
  }

private:
  const char* what_;
  std::chrono::steady_clock::time_point until_;
};

/// Reads the ring until the stream has ended and all words are read.
inline cudaError_t drain_until_done(cudaStream_t stream, ring_reader& from, ledger& into,
                                    const char* what) {
  const time_limit limit(what);
  for (;;) {
    const cudaError_t e = cudaStreamQuery(stream);
    while (from.drain(into) > 0) {
    }
    if (e != cudaErrorNotReady) return e;
    limit.look();
  }
}

} // namespace gsched::testing
