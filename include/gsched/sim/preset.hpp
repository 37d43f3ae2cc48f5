// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/detail/laws/graph_law.hpp>
#include <gsched/sim/detail/laws/scaling.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gsched::sim {

/// The time that one host thread takes to drive a device, and the latencies of submissions and
/// notifications.
///
/// Units    host time, except the latencies, which elapse concurrently.
struct host_costs {
  duration launch{};          ///< one kernel, launched by itself
  duration graph{};           ///< one graph, without its operations
  duration graph_operation{}; ///< each operation of a graph
  duration start{};           ///< latency: from the call of a submission to its first operation
  duration start_operation{}; ///< latency: additional, for each operation of a graph
  /// latency: from the end of a segment to its observation by the host
  duration segment_notification{};
  /// latency: from a store of a kernel to its observation by the host
  duration block_notification{};
  duration poll{};  ///< one poll without events
  duration take{};  ///< each event that a poll returns
  duration evict{}; ///< withdrawing segments that have not started, until this is certain
};

/// The gap between an operation and the operation that it depends on, both already submitted.
/// Within one graph, graph_law applies.
struct device_gaps {
  duration launches{}; ///< two kernels of one stream that were launched individually
  duration segments{}; ///< two graphs of one stream, with a notification between them
};

/// The costs of preemptible kernels. The defaults are measured on one H200.
struct preemption_law {
  /// Additional time of a kernel, because each block reads the flag before it starts. Source:
  /// gsched.gpu.preemption: chains of kernels of 2 to 200 us and 16 to 1584 blocks, with the
  /// preemption parameter set and not set.
  duration preamble = from_us(0.28);
  /// For blocks that find the flag set as they start: each makes three or four requests to one
  /// cache line of L2, the head of its kernel's list. Two requests by each of 1584 blocks take 2.6
  /// us longer than by each of 16 blocks (gsched.gpu.instrumentation, ticket of the ring): 0.8 ns a
  /// request. Of 2, 3 and 4 ns, 3 ns fits the four pairs of realtime_figures best; its six other
  /// workloads were not used for the choice.
  duration listing = duration{3};
};

/// The laws for the times of operations. The defaults are the laws' own coefficients.
struct device_laws {
  scaling_law scaling{};
  contention_law contention{}; ///< how much kernels that run together slow one another
  replay_law replay{};         ///< how lanes do
  graph_law graph{};
  preemption_law preemption{};
  /// Blocks of a kernel that were placed within this fraction of their time end with those placed
  /// first. Real blocks scatter more; this keeps a wave together when kernels interleave.
  double slack = 0.05;
  /// false: kernels never slow one another down, and all blocks take equal times
  bool contended = true;
};

/// The costs of yielding lanes. The defaults are measured on one H200.
struct yield_costs {
  /// There is a gate beside every gate_every-th operation, at which a graph can be held. With more
  /// than two, a GPU runs the graph slower than `gate` says.
  std::uint32_t gate_every = 2;
  duration gate = from_us(0.05); ///< additional time an operation: 0.02 to 0.09, by blocks
  duration hold = from_us(0.1);  ///< host time: a store to pinned memory, to hold or to resume
  /// Latency: from that store to a gate that sees it. A gate reads when the kernel beside it
  /// starts, and that kernel ends first: with gates at every first, second and fourth kernel of 8,
  /// the host observes the GPU idle after 15.7, 19.8 and 26.7 us (gsched.gpu.gates).
  duration held = from_us(2.0);
  /// latency: from the store that resumes to the first held operation
  duration going_on = from_us(2.2);
  /// Host time: a stream memory operation sets or clears the flag in device memory. One behind each
  /// kernel makes a launch take 4.3 us instead of 3.4 us.
  duration flag = from_us(0.9);
  /// Latency: from that call to blocks that see the flag. Of the 5.1 us from a decision to the
  /// observation that 528 constantly polling blocks have exited, the rest after half a checkpoint,
  /// the notification and the poll.
  duration flagged = from_us(3.6);
  /// The time of each wave of a kernel, or of the rest of one, whose blocks all find the flag set
  /// as they start, with at most one block an SM (`calibrate`); preemption_law::listing covers more
  /// blocks.
  duration passing = from_us(1.31);
};

/// The bus between host and device, with one engine a direction, and copies and memsets within the
/// device. Each takes a start-up time, then its bytes at a rate.
struct copy_engines {
  double to_device_bytes_per_ns = 1;
  double to_host_bytes_per_ns = 1;
  double on_device_bytes_per_ns = 1; ///< bytes read or written: a copy does both
  duration to_device{};
  duration to_host{};
  duration on_device{};
};

/// All parameters of sim::device: the GPU and the host that drives it.
struct preset {
  std::string name;
  architecture_limits sm{};
  sm_count sms{};
  sm_count partition_unit{};          ///< SMs of a partition group; the last group has the rest
  std::uint32_t hardware_queues = 8;  ///< as CUDA_DEVICE_MAX_CONNECTIONS
  std::uint32_t queue_limit = 32;     ///< larger values of hardware_queues count as this
  std::uint32_t resident_grids = 128; ///< kernels that are being placed or running at once
  std::uint32_t max_lanes = 1u << 16;
  host_costs host{};
  device_gaps gaps{};
  copy_engines copies{};
  device_laws laws{};
  yield_costs yields{};

  [[nodiscard]] std::uint32_t effective_queues() const noexcept {
    const std::uint32_t n = hardware_queues < queue_limit ? hardware_queues : queue_limit;
    return n == 0 ? 1 : n;
  }

  /// Refuses values with which no device works.
  ///
  /// Errors   bad_option, in one line.
  void check() const {
    const auto expect = [this](bool holds, const char* what) {
      if (!holds) throw error(errc::bad_option, "preset " + name + ": " + what);
    };
    expect(sms.count() >= 1 && sms.count() <= 4096, "sms, expected 1 to 4096");
    expect(partition_unit.count() >= 1, "partition_unit, expected at least 1");
    expect(sm.max_blocks >= 1 && sm.max_blocks <= 64, "sm.max_blocks, expected 1 to 64");
    expect(sm.max_warps >= 1 && sm.register_unit >= 1 && sm.shared_unit >= 1 && sm.warp_unit >= 1,
           "sm, expected the limits of an architecture");
    expect(resident_grids >= 1, "resident_grids, expected at least 1");
    expect(max_lanes >= 1, "max_lanes, expected at least 1");
    expect(yields.gate_every >= 1, "yields.gate_every, expected at least 1");
    expect(copies.to_device_bytes_per_ns > 0 && copies.to_host_bytes_per_ns > 0 &&
               copies.on_device_bytes_per_ns > 0,
           "copies, expected bandwidths above 0");
    for (const duration d : {host.launch,
                             host.graph,
                             host.graph_operation,
                             host.start,
                             host.start_operation,
                             host.segment_notification,
                             host.block_notification,
                             host.poll,
                             host.take,
                             host.evict,
                             gaps.launches,
                             gaps.segments,
                             laws.graph.gap,
                             laws.preemption.preamble,
                             laws.preemption.listing,
                             copies.to_device,
                             copies.to_host,
                             copies.on_device,
                             yields.gate,
                             yields.hold,
                             yields.held,
                             yields.going_on,
                             yields.flag,
                             yields.flagged,
                             yields.passing})
      expect(d >= duration::zero(), "a time below 0");
    expect(host.block_notification <= host.segment_notification,
           "block_notification, expected at most segment_notification, so that ends come last");
  }
};

/// One H200 with 132 SMs, driven by one thread with CUDA 13.
///
/// Source   measured there (docs/research, tools/data); each line names its measurement.
///          Fitted values are fitted to a table of whole runs, not to one model.
[[nodiscard]] inline preset h200() {
  preset p;
  p.name = "sim:h200";
  p.sm = limits_for(9, 0);
  p.sms = sm_count{132};
  p.partition_unit = sm_count{8}; // green contexts: 15 groups of 8 and one of 12
  p.hardware_queues = 8;          // the driver's default; 128 behave as 32
  p.queue_limit = 32;
  p.resident_grids = 128; // CUDA C++ Programming Guide, resident grids of 9.0

  p.host.launch = from_us(4.3);            // 3.4 to 4.4; 4.3 with a stream write behind each kernel
  p.host.graph = from_us(2.29);            // segments.csv, submit_us_per_segment: fitted ...
  p.host.graph_operation = from_us(0.228); // ... over all rows, on segments and operations
  p.host.start = from_us(1.5); // segments.csv, first launch to last observed write: fitted
  p.host.start_operation = from_us(0.08); // ... over all rows, beside segment_notification and take
  // a stream write behind a kernel, observed by the host
  p.host.segment_notification = from_us(3.8);
  p.host.block_notification = from_us(1.1); // half of a round trip through pinned memory
  p.host.poll = from_us(0.1);               // a read of a cache line that the GPU has not written
  // additional host time a kernel of interleaved 8-kernel jobs, beyond the launch
  p.host.take = from_us(1.5);
  p.host.evict = from_us(5.1); // a flag in device memory: set, obeyed, and observed by the host

  p.gaps.launches = from_us(1.0); // back-to-back kernels of a stream
  p.gaps.segments = from_us(3.9); // segments.csv: all_submitted_us, for each additional cut

  // Pinned memory, consecutive copies of one stream, medians of 7 times 20.
  p.copies.to_device_bytes_per_ns = 55.3; // 256 MiB
  p.copies.to_host_bytes_per_ns = 55.3;
  p.copies.on_device_bytes_per_ns = 4400; // memset of 256 MiB; a copy reaches 2 times 2084
  p.copies.to_device = from_us(2.5);      // 588 KiB and 1 MiB, less their bytes
  p.copies.to_host = from_us(1.5);
  p.copies.on_device = from_us(4.0); // memset 3.8, copy 4.2

  // tools/data/interference/h200.json: fitted on pairs of networks (`interference fit`).
  p.laws.contention = contention_law::of({0.2774, 0.5689, 0.2, 1.15, 0.82, 0.977, 0.09});
  p.laws.replay.gap_us = 0.6687;
  p.laws.replay.start_us = 0.25;
  return p;
}

/// The preset with that name.
///
/// Errors   unknown_name.
[[nodiscard]] inline preset preset_by_name(std::string_view name) {
  if (name == "sim:h200") return h200();
  throw error(errc::unknown_name, "device " + std::string(name) + ": not known, expected sim:h200");
}

} // namespace gsched::sim
