// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/kernel_counters.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gsched {

/// What kernels on a GPU share. Each SM has its own issue slots, pipelines, shared memory and L1;
/// L2 and DRAM belong to the device.
enum class resource : std::uint8_t {
  issue,
  alu,
  fma,
  fp16,
  fp64, ///< the port of FP64, by which FP16 instructions start as well
  tensor,
  xu,
  lsu,
  shared_memory,
  l1,
  l2,
  dram,
};
inline constexpr std::size_t resources = 12;
inline constexpr std::size_t resources_on_sm = 10; ///< those of an SM come first

[[nodiscard]] constexpr std::size_t index(resource r) noexcept {
  return static_cast<std::size_t>(r);
}
inline constexpr std::array<std::string_view, resources> resource_names{
    "issue", "alu", "fma",           "fp16", "fp64", "tensor",
    "xu",    "lsu", "shared_memory", "l1",   "l2",   "dram"};

/// Of a load that hits in L2, on an idle device: of an H100 and an H200.
inline constexpr double l2_hit_cycles = 290;
/// The same of one that DRAM serves.
inline constexpr double l2_miss_cycles = 990;

/// The part of DRAM's throughput, as the profiler counts it, that copies reach alone.
inline constexpr double copies_reach_of_dram = 0.82;

/// What one kernel takes of each resource when it runs alone.
///
/// Units    use: parts of a resource's capacity, 0 to 1; of an SM with its blocks, or of the
///          device.
struct demand {
  std::array<double, resources> use{};
  double kept = 0;          ///< part of its L2 traffic that hits: 0 to 1
  double working_set = 0;   ///< bytes that it touches again and again; 0: not known
  double conflict = 1;      ///< wavefronts of one access to shared memory
  bool low_clock = false;   ///< its tensor cores lower the SM clock of the whole device
  bool steady = false;      ///< it has no bursts: an endless probe, or an estimate
  double queued = 1;        ///< how far its accesses wait in queues: 0 to 1, of an endless probe
  warp_waits waits{};       ///< of its warps, where they are known
  double pressure = 1;      ///< of its graph on other SMs: see corun_factors
  double stores = 0;        ///< how far its stores fill the queues of memory: 0 to 1
  double queue_cycles = 0;  ///< for which accesses wait that queue behind its own: see queue_behind
  double buffer_us = 0;     ///< for which its buffers in shared memory last it: see buffer_us_of
  double fixed_stall = 1;   ///< cycles that a warp waits for the fixed time of each instruction
  double access_cycles = 0; ///< that its accesses to memory take; 0: not known

  bool operator==(const demand&) const noexcept = default;
  [[nodiscard]] double& of(resource r) noexcept { return use[index(r)]; }
  [[nodiscard]] double of(resource r) const noexcept { return use[index(r)]; }
  /// How many accesses it has waiting at DRAM, over those of a kernel whose accesses take as long
  /// as on an idle device: 1, and as much more as they take longer, as far as DRAM is what it waits
  /// for.
  [[nodiscard]] double accesses_ahead() const noexcept {
    const double filled = std::min(1.0, of(resource::dram) / copies_reach_of_dram);
    return 1 + filled * filled * (std::max(1.0, access_cycles / l2_miss_cycles) - 1);
  }
  /// The largest use of anything that an SM has.
  [[nodiscard]] double busiest() const noexcept {
    double most = 0;
    for (std::size_t r = 0; r < resources_on_sm; ++r) most = std::max(most, use[r]);
    return most;
  }
};

/// The time of a kernel under the profiler over its time outside, for demand_of: 1 if the former is
/// not known. Of kernels that are too short for either, the measurements scatter.
[[nodiscard]] inline double profiled_over(double profiled_us, double alone_us) noexcept {
  return profiled_us > 0 && alone_us > 0 ? std::clamp(profiled_us / alone_us, 0.5, 1.5) : 1;
}

/// How much of what makes memory slower reaches a kernel: the more, the longer its warps wait for
/// memory. 1 in the mean over the time of graphs, and where that is not known.
///
/// Source   70 graphs on SMs of their own of an H200.
[[nodiscard]] inline double felt_of_memory(const warp_waits& w) noexcept {
  constexpr double mean = 0.3, more = 1.3;
  return w == warp_waits{} ? 1 : 1 + more * (w.memory - mean);
}

/// How much others feel of a kernel's traffic: the more, the longer its warps wait for it, as more
/// accesses are under way at once. 1 in the mean over the traffic of graphs, and where that is not
/// known.
///
/// Source   as felt_of_memory.
[[nodiscard]] inline double weight_of_traffic(const warp_waits& w) noexcept {
  constexpr double mean = 0.5;
  return w == warp_waits{} ? 1 : 1 + w.memory - mean;
}

/// How long an access waits that queues behind the loads of a kernel, in cycles: as long as these
/// take more than on an idle device, while any of them are under way.
///
/// Source   an H100: 640 cycles for loads of copies of 4 GiB that use little of it, of whose
///          accesses half are hits.
[[nodiscard]] inline double queue_behind(const warp_waits& w, double kept) noexcept {
  constexpr double always = 0.85; // part of the warps' time from which some always wait
  const double idle = l2_hit_cycles * kept + l2_miss_cycles * (1 - kept);
  return std::max(0.0, w.load_cycles - idle) * std::min(1.0, w.memory / always);
}

/// For how long the shared memory of a kernel's blocks, so many bytes on each of `sms` SMs, lasts
/// it at the rate of its traffic with L2: products load tiles ahead, by a part of that. 0 of a
/// kernel that has no such buffers, and where that is not known.
///
/// Units    microseconds.
[[nodiscard]] inline double buffer_us_of(const kernel_counters& c, double bytes_on_sm,
                                         double sms) noexcept {
  constexpr double least_bytes = 2500; // less is no buffer, but what a reduction needs
  if (!(bytes_on_sm >= least_bytes) || !(c.l2_bytes > 0)) return 0;
  return bytes_on_sm * sms * c.us / c.l2_bytes;
}

/// How long the accesses of a kernel with such buffers take, as far as an SM has them under way at
/// once: at the rate of its traffic, so many bytes. The counters of loads do not have these
/// accesses.
///
/// Source   products of matrices with vectors beside copies, on one H200: 40 to 60 KB predict them
///          alike.
/// Units    cycles of an SM.
[[nodiscard]] inline double buffered_access_cycles(const kernel_counters& c, double bytes_on_sm,
                                                   double sms) noexcept {
  constexpr double most_bytes = 50e3, cycles_a_us = 1755; // of an SM; of an H200
  return cycles_a_us * buffer_us_of(c, std::min(most_bytes, bytes_on_sm), sms);
}

/// For how many cycles a warp waits after each of its instructions for the fixed time of that, in
/// the mean: next to 0 of one that issues long runs of instructions. 1 where it is not known.
[[nodiscard]] inline double fixed_stall_of(const kernel_counters& c) noexcept {
  constexpr double warp_slots = 64; // of an SM, of all GPUs since Volta but small ones
  if (!(c.ipc > 0) || !(c.waits.executing > 0)) return 1;
  return std::max(0.0, c.waits.executing * c.warps_active * warp_slots / c.ipc - 1);
}

/// How long a load waits behind accesses to shared memory with bank conflicts, as it is served
/// where they are, if the kernel has so many warps on the SM: few conflicts pass between loads,
/// many follow one another.
///
/// Source   networks beside 8-, 16- and 32-way conflicts of four warps, on an H100 and an H200.
[[nodiscard]] inline double conflict_cycles(const demand& d, double warps) noexcept {
  constexpr double cycles = 0.045;
  const double wavefronts = d.conflict * warps;
  return cycles * wavefronts * wavefronts * d.of(resource::shared_memory);
}

/// How far a kernel only computes: its warps wait for their own instructions and pipelines, and
/// next to never for memory or code. 0 where its waits are not known.
[[nodiscard]] inline double only_computes(const warp_waits& w) noexcept {
  constexpr double some = 0.8, all = 0.95; // parts of its warps' time
  return std::clamp((w.executing - some) / (all - some), 0.0, 1.0);
}

/// The demand of a kernel with counters. `faster` is its time under the profiler over its time
/// outside: instructions and bytes are the same, so all rates rise by that.
///
/// Differs  L2 counts each store as a hit, so the part that hits follows from the bytes that DRAM
///          moves, where both are known. The counter of tensor cores has the FP16 instructions too.
///          A kernel that uses its tensor cores for 1% of the time counts as one that lowers the
///          clock.
/// Cost     O(resources).
[[nodiscard]] inline demand demand_of(const kernel_counters& c, double faster = 1) noexcept {
  constexpr double some_tensor_use = 0.01;
  demand d;
  const double active = c.sm_active > 0 ? c.sm_active : 1;
  const auto part = [&](double x) { return std::clamp(x * faster, 0.0, 1.0); };
  const double tensor = std::max(0.0, c.pipes.tensor - c.pipes.fp16);
  const double port = c.pipes.fp64 + c.pipes.fp16;
  d.use = {part(c.ipc / 4),     part(c.pipes.alu), part(c.pipes.fma),
           part(c.pipes.fp16),  part(port),        part(tensor),
           part(c.pipes.xu),    part(c.pipes.lsu), part(c.shared_memory / active),
           part(c.l1 / active), part(c.l2),        part(c.dram)};
  d.kept = c.l2_bytes > 0 && c.dram_bytes > 0 ? 1 - c.dram_bytes / c.l2_bytes : c.l2_hit_rate;
  d.kept = std::clamp(d.kept, 0.0, 1.0);
  d.working_set = c.working_set_bytes;
  d.low_clock = tensor > some_tensor_use;
  d.waits = c.waits;
  d.queue_cycles = queue_behind(c.waits, d.kept);
  d.access_cycles = c.waits.load_cycles;
  d.fixed_stall = fixed_stall_of(c);
  if (c.pipes.lsu > 0) d.conflict = std::clamp(c.shared_memory / active / c.pipes.lsu, 1.0, 32.0);
  return d;
}

/// The part of a kernel's time before its end at which the mean SM is done with its blocks, if they
/// are one wave; 0 if it is not known, and below a half, so that each block takes some time.
/// `coverage` is the part of the device's SMs that has blocks.
///
/// Source   the time in which SMs have warps: of a kernel's time under the profiler they have none
///          for before_us, and then as blocks have ended. Of 864 kernels of 8 us and more of
///          PyTorch's graphs on one H200 this correlates by 0.94 to 1.00 with the ends that were
///          measured, of 678 shorter ones by 0.25, with the same mean (bench/block_ends.py
///          --profiles).
[[nodiscard]] inline double ends_early(const kernel_counters& c, double coverage) noexcept {
  constexpr double before_us = 0.85, most = 0.45;
  if (!(c.sm_active > 0) || !(c.us > 0) || !(coverage > 0)) return 0;
  return std::clamp(1 - c.sm_active / coverage - before_us / c.us, 0.0, most);
}

/// The demand of a kernel on other SMs than `d`. There it takes `slower` times as long alone, and
/// each SM with its blocks does `denser` times as much of its work.
///
/// Differs  its accesses take as long as on all SMs: chosen on decode steps beside copies.
[[nodiscard]] inline demand on_fewer_sms(demand d, double slower, double denser) noexcept {
  for (std::size_t r = 0; r < resources; ++r)
    d.use[r] = std::min(1.0, d.use[r] * (r < resources_on_sm ? denser : 1) / slower);
  return d;
}

} // namespace gsched
