// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/stand_in.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched::testing {

[[nodiscard]] inline operation kernel_of(std::uint32_t blocks, std::uint32_t threads, double us) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {threads, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = from_us(us);
  op.kernel = kernel_id{0};
  return op;
}

/// A program of equal stand-in kernels.
[[nodiscard]] inline cuda::program stand_ins(std::string name, std::size_t n,
                                             const operation& each) {
  return cuda::make_stand_in(gsched::program(std::move(name), std::vector<operation>(n, each)));
}

/// A device, with a record of its events.
struct driven_cuda {
  explicit driven_cuda(const cuda::device_options& o = {}) : device(o) {}

  std::error_code submit(lane_id lane, const gsched::program& p, std::size_t first,
                         std::size_t last, bool instrumented = false,
                         submission how = submission::graph) {
    segment s;
    s.lane = lane;
    s.program = p.id();
    s.first = static_cast<std::uint32_t>(first);
    s.operations = p.range(first, last);
    s.instrumented = instrumented;
    s.how = how;
    return submit(s);
  }
  std::error_code submit(lane_id lane, const gsched::program& p, bool instrumented = false) {
    return submit(lane, p, 0, p.size(), instrumented);
  }
  std::error_code submit_loose(lane_id lane, std::span<const operation* const> ops) {
    segment s;
    s.lane = lane;
    s.operations = ops;
    return submit(s);
  }
  std::error_code submit(segment s) {
    s.id = segment_id{next_++};
    const std::error_code e = device.submit(s);
    if (!e) ++accepted;
    return e;
  }

  /// Polls until all work has ended; false if that takes too long.
  [[nodiscard]] bool finish(double seconds = 20) {
    const time_point until = device.now() + from_us(seconds * 1e6);
    while (done + failed < accepted && device.now() < until) {
      device.wait(until);
      poll();
    }
    return done + failed == accepted;
  }

  void poll() {
    std::array<device_event, 64> out;
    for (std::size_t n = device.poll(out); n > 0; n = device.poll(out)) {
      for (std::size_t i = 0; i < n; ++i) {
        events.push_back(out[i]);
        done += out[i].what == device_event::kind::segment_done ? 1u : 0u;
        failed += out[i].what == device_event::kind::segment_failed ? 1u : 0u;
      }
    }
  }

  /// The id of the next segment to be submitted.
  [[nodiscard]] segment_id next() const { return segment_id{next_}; }

  [[nodiscard]] bool has_ended(segment_id s) const {
    return std::any_of(events.rbegin(), events.rend(), [&](const device_event& e) {
      return e.segment == s && (e.what == device_event::kind::segment_done ||
                                e.what == device_event::kind::segment_failed);
    });
  }

  [[nodiscard]] std::uint64_t blocks(device_event::kind what) const {
    std::uint64_t n = 0;
    for (const device_event& e : events)
      if (e.what == what) n += e.blocks;
    return n;
  }

  cuda::device device;
  std::vector<device_event> events;
  std::size_t accepted = 0;
  std::size_t done = 0;
  std::size_t failed = 0;

private:
  std::uint64_t next_ = 0;
};

} // namespace gsched::testing
