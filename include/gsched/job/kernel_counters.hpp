// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gsched {

/// Use of an SM's pipelines, as parts of their peak issue rates.
///
/// Source   sm__inst_executed_pipe_*.avg.pct_of_peak_sustained_active of the profiling tools.
/// Units    0 to 1, averaged over the SMs with a resident warp.
struct pipe_use {
  double alu = 0;    ///< integers and logic
  double fma = 0;    ///< fp32
  double fp16 = 0;   ///< fp16 outside of the tensor cores
  double fp64 = 0;   ///< fp64
  double tensor = 0; ///< tensor cores
  double xu = 0;     ///< transcendental functions and conversions
  double lsu = 0;    ///< loads and stores
  bool operator==(const pipe_use&) const noexcept = default;
};

/// What a kernel's warps do with their time, and how long their accesses take.
///
/// Source   smsp__warp_issue_stalled_*_per_warp_active (its names in parentheses) and
///          sm__average_inst_latency_pipe_lsu_mem_*_cmd_read of the profiling tools.
/// Units    parts of the time of resident warps, 0 to 1, and cycles of an SM.
struct warp_waits {
  double memory = 0;        ///< wait for global or local memory (long_scoreboard)
  double load_cycles = 0;   ///< mean latency of a load from there; 0: not known, or there are none
  double shared_memory = 0; ///< wait for shared memory (short_scoreboard)
  double shared_cycles = 0; ///< mean latency of a load from there
  double instructions = 0;  ///< wait for code or its constants (no_instruction, imc_miss)
  double executing = 0;     ///< issue an instruction, or wait its fixed time (selected, wait)
  /// part of an active SM's cycles in which L1 cannot pass on a request
  /// (l1tex__m_l1tex2xbar_req_cycles_stalled)
  double blocked = 0;
  bool operator==(const warp_waits&) const noexcept = default;
};

/// Hardware counters of one kernel that ran alone.
///
/// Source   the resources of Elvinger et al., SoCC 2025, section 2.2, doi:10.1145/3772052.3772270.
/// Units    parts of peak are 0 to 1. "Active" counts only SMs and cycles with a resident warp;
///          "elapsed" counts all SMs for the whole kernel.
struct kernel_counters {
  double us = 0;           ///< time under the profiler (gpu__time_duration)
  double sm_active = 0;    ///< active part of all SMs' cycles (sm__cycles_active over elapsed)
  double warps_active = 0; ///< part of an active SM's warp slots (sm__warps_active)
  double ipc = 0; ///< instructions issued a cycle of an active SM, 0 to 4 (sm__inst_issued)
  pipe_use pipes{};
  /// data pipe of shared memory, elapsed (l1tex__data_pipe_lsu_wavefronts_mem_shared)
  double shared_memory = 0;
  double l1 = 0;                ///< throughput of L1, elapsed (l1tex__throughput)
  double l2 = 0;                ///< throughput of L2, elapsed (lts__throughput)
  double l2_hit_rate = 0;       ///< hits over accesses of L2 (lts__t_sector_hit_rate)
  double dram = 0;              ///< throughput of DRAM, elapsed (gpu__dram_throughput)
  double l2_bytes = 0;          ///< that pass through L2, in total
  double dram_bytes = 0;        ///< that DRAM reads and writes, in total
  double working_set_bytes = 0; ///< distinct bytes that it touches again and again; 0: not known
  double common_work = 0;       ///< of a persistent kernel: see common_work_of; 0 of others
  warp_waits waits{};
  bool operator==(const kernel_counters&) const noexcept = default;
};

} // namespace gsched
