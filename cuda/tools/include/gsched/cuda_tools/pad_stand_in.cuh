// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/colocate/pad.cuh>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/preempt/colocate/candidate.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace gsched::cuda {

/// A function that keeps its block busy for a number of clock cycles.
struct pad_hold {
  static constexpr std::uint32_t threads = 0;
  std::uint64_t cycles;

  __device__ __forceinline__ void operator()(const pad_block& b) const {
    const long long start = clock64();
    if (b.thread < 32)
      while (static_cast<std::uint64_t>(clock64() - start) < cycles) {
      }
    b.sync();
  }
};

/// Never run. Its code makes the compiler give each proxy kernel all registers of its level.
struct pad_registers {
  static constexpr std::uint32_t threads = 0;
  std::uint32_t* never;

  __device__ __forceinline__ void operator()(const pad_block&) const {
    constexpr int n = 250;
    std::uint32_t value[n];
#pragma unroll
    for (int i = 0; i < n; ++i)
      asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value[i]) : "l"(never + i) : "memory");
#pragma unroll
    for (int i = 0; i < n; ++i)
      asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(never + n + i), "r"(value[i])
                   : "memory");
  }
};

using pad_stand_in_family =
    basic_pad_family<pad_functions<pad_hold>, pad_functions<pad_hold, pad_registers>, 4>;

/// Stand-ins of a profile's kernels that can be padded or be co-runners. They have the same blocks,
/// threads, registers, shared memory and time, and access no memory, so that they do not slow each
/// other by bandwidth.
struct pad_stand_ins {
  using work = pad_work<pad_stand_in_family>;

  std::string name;
  std::vector<std::optional<work>> kernels;         ///< by operation; empty for copies and sets
  std::vector<std::vector<kernel_variant>> facts{}; ///< by operation: one for a kernel, else none
  /// Kernels with fewer registers than the profile's, because no proxy supports them at that size.
  std::size_t fewer_registers = 0;
};

/// Makes padded stand-ins on the current GPU, which should be idle meanwhile.
///
/// Cost     set-up: some milliseconds for each new shape.
/// Threads  one owner. The padder must outlive this object.
class pad_stand_in_maker {
public:
  using work = pad_stand_ins::work;

  explicit pad_stand_in_maker(const padder<pad_stand_in_family>& pads) : pads_(pads) {
    constexpr std::uint64_t many = 200000;
    const work short_one(pad_hold{0}, {1, 1, 1}, 0, 128),
        long_one(pad_hold{many}, {1, 1, 1}, 0, 128);
    const auto ns = [&](const work& w) {
      return static_cast<double>(pads.measure(w).kernel_time.count());
    };
    static_cast<void>(ns(long_one)); // warms the GPU's clocks up
    ns_per_cycle_ = (ns(long_one) - ns(short_one)) / static_cast<double>(many);
  }

  /// Each stand-in takes its operation's time plus `gap` from the start of the previous one to the
  /// start of the next.
  /// Errors   bad_profile for a profile without kernels; as padder.
  [[nodiscard]] pad_stand_ins make(const profile& p, duration gap = {}) {
    pad_stand_ins all;
    all.name = p.full_name();
    bool any = false;
    for (const profile_operation& op : p.operations) {
      all.facts.emplace_back();
      all.kernels.emplace_back();
      if (op.work.kind != operation_kind::kernel) continue;
      const work w = shape_of(op.work.launch, all);
      kernel_variant v = pads_.facts(w);
      const double floor = floor_of(w);
      const auto waves =
          waves_of(v.blocks, std::uint64_t{pads_.table().on().sms.count()} * v.level);
      const auto time = static_cast<double>((op.work.expected + gap).count());
      const double block = std::max(0.0, time - floor) / waves;
      const auto cycles = static_cast<std::uint64_t>(block / ns_per_cycle_);
      v.kernel_time = duration{std::llround(std::max(time, floor))};
      v.block_time = duration{std::max<long long>(std::llround(block), 1)};
      all.kernels.back() = work(pad_hold{cycles}, {v.blocks, 1, 1}, w.shared_bytes(), w.threads())
                               .with_registers(w.registers());
      all.facts.back().push_back(v);
      any = true;
    }
    if (!any) throw error(errc::bad_profile, all.name + ": no kernels");
    return all;
  }

private:
  [[nodiscard]] work shape_of(const launch_shape& l, pad_stand_ins& all) const {
    const auto threads = static_cast<std::uint32_t>((l.threads_per_block() + 31) / 32 * 32);
    const extent grid{static_cast<std::uint32_t>(l.blocks()), 1, 1};
    const work w(pad_hold{0}, grid, l.static_shared_bytes + l.dynamic_shared_bytes, threads);
    for (std::uint32_t r = l.registers_per_thread; r >= 32; r -= 8) {
      if (!pads_.choose(w.with_registers(r), {})) continue;
      if (r != l.registers_per_thread) ++all.fewer_registers;
      return w.with_registers(r);
    }
    return w;
  }

  /// The time of the work when its blocks do nothing.
  [[nodiscard]] double floor_of(const work& w) {
    const auto key = std::tuple(w.blocks(), w.threads(), w.shared_bytes(), w.registers());
    const auto at = floors_.find(key);
    if (at != floors_.end()) return at->second;
    return floors_[key] = static_cast<double>(pads_.measure(w).kernel_time.count());
  }

  const padder<pad_stand_in_family>& pads_;
  double ns_per_cycle_ = 1;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, double> floors_;
};

} // namespace gsched::cuda
