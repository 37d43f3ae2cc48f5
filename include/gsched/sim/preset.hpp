// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/detail/contention.hpp>
#include <gsched/sim/detail/graph_law.hpp>
#include <gsched/sim/detail/scaling.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace gsched::sim {

/// What one host thread pays to drive a device, and how long its word takes either way.
///
/// Units    host time, but for the latencies, which run beside it.
struct host_costs {
  duration launch{};          ///< one kernel as a launch of its own
  duration graph{};           ///< one graph, before its operations
  duration graph_operation{}; ///< each operation of a graph
  duration start{};           ///< latency: from the call of a submission to its first operation
  duration start_operation{}; ///< latency: more of it for each operation of a graph
  duration segment_notice{};  ///< latency: from the end of a segment to a host that sees it
  duration block_notice{};    ///< latency: from a store of a kernel to a host that sees it
  duration poll{};            ///< looking once, whatever is found
  duration take{};            ///< each event that a poll gives out
  duration evict{};           ///< taking back what has not started, until that is certain
};

/// How soon an operation follows the one that it waits for, when both have been submitted. Within
/// one graph, graph_law says.
struct device_gaps {
  duration launches{}; ///< two kernels of one stream that were launched one by one
  duration segments{}; ///< two graphs of one stream, with a notification between them
};

/// What kernels cost that can leave. The defaults are measured on one H200.
struct leaving_law {
  /// Longer by that: each block looks at the flag before it begins. gsched.gpu.preemption: chains
  /// of kernels of 2 to 200 us and 16 to 1584 blocks, with their parameter filled in and not.
  duration preamble = from_us(0.28);
  /// Of blocks that find the flag set as they start, each takes its turn at one line of L2, where
  /// its kernel's list begins: three requests or four. Two of them, of each of 1584 blocks,
  /// take 2.6 longer than of 16 (gsched.gpu.instrumentation, a ring's ticket): 0.8 ns a request. Of
  /// 2, 3 and 4, 3 suits best the four pairs of realtime_figures; its six other workloads were left
  /// aside.
  duration listing = duration{3};
};

/// How long operations take. The defaults are the laws' own coefficients.
struct device_laws {
  scaling_law scaling{};
  contention_law contention{};
  graph_law graph{};
  leaving_law leaving{};
  /// Blocks of a kernel that were placed within this part of their time end with those placed
  /// first: real ones scatter more, and a wave stays one wave when kernels interleave.
  double slack = 0.05;
  bool contended = true; ///< false: kernels never slow one another, and blocks take equal times
};

/// How lanes make way. The defaults are measured on one H200.
struct yield_costs {
  /// A gate beside every so-manyth operation: a graph can be held before the next one. With more
  /// than two a GPU runs the graph slower than `gate` says.
  std::uint32_t gate_every = 2;
  duration gate = from_us(0.05); ///< longer from operation to operation: 0.02 to 0.09, by blocks
  duration hold = from_us(0.1);  ///< host time: a store to pinned memory, or its undoing
  /// Latency: from that store to a gate that sees it. A gate looks when the kernel beside it
  /// starts, and that ends first: with gates at every first, second and fourth kernel of 8 the host
  /// sees the GPU quiet after 15.7, 19.8 and 26.7 (gsched.gpu.gates).
  duration held = from_us(2.0);
  duration going_on = from_us(2.2); ///< latency: from its undoing until what was held runs
  /// Host time: a stream memory operation sets the flag in device memory, or clears it. One behind
  /// each kernel makes a launch take 4.3 instead of 3.4.
  duration flag = from_us(0.9);
  /// Latency: from its call to blocks that see it. What is left of 5.1 from a decision until the
  /// host sees 528 blocks gone that look all the time, less half a checkpoint, their words' way and
  /// the poll.
  duration flagged = from_us(3.6);
  /// A kernel, or what is left of one, all of whose blocks find the flag set as they start: each
  /// wave of them, with a block an SM at most (`calibrate`); leaving_law::listing says for more.
  duration passing = from_us(1.31);
};

/// The way between host and device, one engine a direction, and memory that is copied or set on the
/// device. Each takes its start, then its bytes at a rate.
struct copy_engines {
  double to_device_bytes_per_ns = 1;
  double to_host_bytes_per_ns = 1;
  double on_device_bytes_per_ns = 1; ///< read or written: a copy does both
  duration to_device{};
  duration to_host{};
  duration on_device{};
};

/// Everything that sim::device has to know of a GPU and of the host that drives it.
struct preset {
  std::string name;
  architecture_limits sm{};
  sm_count sms{};
  sm_count partition_unit{};          ///< SMs come in groups of that many; the last has the rest
  std::uint32_t hardware_queues = 8;  ///< as CUDA_DEVICE_MAX_CONNECTIONS says
  std::uint32_t queue_limit = 32;     ///< no more of them than this take effect
  std::uint32_t resident_grids = 128; ///< kernels that are placing or running at once
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

  /// Errors   bad_option, in one line, for values with which no device works.
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
                             host.segment_notice,
                             host.block_notice,
                             host.poll,
                             host.take,
                             host.evict,
                             gaps.launches,
                             gaps.segments,
                             laws.graph.gap,
                             laws.leaving.preamble,
                             laws.leaving.listing,
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
    expect(host.block_notice <= host.segment_notice,
           "block_notice, expected at most segment_notice, so that ends come last");
  }
};

/// One H200 with 132 SMs, driven from one thread with CUDA 13.
///
/// Source   measured there (docs/architecture.md, tools/data): each line says how. Where a value
///          is fitted, it is to a table of whole runs and not to one model.
[[nodiscard]] inline preset h200() {
  preset p;
  p.name = "sim:h200";
  p.sm = limits_for(9, 0);
  p.sms = sm_count{132};
  p.partition_unit = sm_count{8}; // green contexts: 15 groups of 8 and one of 12
  p.hardware_queues = 8;          // the driver's default; 128 behave as 32
  p.queue_limit = 32;
  p.resident_grids = 128; // CUDA C++ Programming Guide, resident grids of 9.0

  p.host.launch = from_us(4.3);            // 3.4-4.4; 4.3 with a stream write behind each kernel
  p.host.graph = from_us(2.29);            // segments.csv, submit_us_per_segment: fitted ...
  p.host.graph_operation = from_us(0.228); // ... over all rows, on segments and operations
  p.host.start = from_us(1.5);             // segments.csv, first launch to last write seen: fitted
  p.host.start_operation = from_us(0.08);  // ... over all rows, beside notice and take
  p.host.segment_notice = from_us(3.8);    // a stream write behind a kernel, seen by the host
  p.host.block_notice = from_us(1.1);      // half of a round trip through pinned memory
  p.host.poll = from_us(0.1);              // a read of a line that the GPU has not written
  p.host.take = from_us(1.5);  // what interleaved 8-kernel jobs pay a kernel beyond its launch
  p.host.evict = from_us(5.1); // a flag in device memory: set, obeyed and seen by the host

  p.gaps.launches = from_us(1.0); // back-to-back kernels of a stream
  p.gaps.segments = from_us(3.9); // segments.csv: all_submitted_us, each cut more

  // Pinned memory, copies of one stream back to back, medians of 7 times 20.
  p.copies.to_device_bytes_per_ns = 55.3; // 256 MiB
  p.copies.to_host_bytes_per_ns = 55.3;
  p.copies.on_device_bytes_per_ns = 4400; // memset of 256 MiB; a copy makes 2 times 2084
  p.copies.to_device = from_us(2.5);      // 588 KiB and 1 MiB, less their bytes
  p.copies.to_host = from_us(1.5);
  p.copies.on_device = from_us(4.0); // memset 3.8, copy 4.2
  return p;
}

/// Errors   unknown_name.
[[nodiscard]] inline preset preset_by_name(std::string_view name) {
  if (name == "sim:h200") return h200();
  throw error(errc::unknown_name, "device " + std::string(name) + ": not known, expected sim:h200");
}

} // namespace gsched::sim
