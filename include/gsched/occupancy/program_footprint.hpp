// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/footprint.hpp>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// The footprints of all segments of one program on one GPU, computed once.
///
/// Errors   does_not_fit, with the position of a kernel whose block fits on no SM, unless the
///          driver has counted its blocks (operation::max_blocks_per_sm).
/// Cost     set-up O(n log n) time and memory; range and kernel O(1), without allocation.
/// Threads  immutable after construction.
class program_footprint {
public:
  program_footprint(const architecture_limits& l, sm_count sms, const program& p) {
    if (sms.count() == 0) throw error(errc::bad_option, "0 SMs, expected at least 1");
    const std::size_t n = p.size();
    kernels_.reserve(n);
    fills_.reserve(n);
    until_.reserve(n + 1);
    until_.push_back({});
    for (const operation& op : p.operations()) {
      // If the driver has counted its blocks, the kernel can run.
      if (op.kind == operation_kind::kernel && op.max_blocks_per_sm == 0 && !fits(l, op.launch))
        throw error(errc::does_not_fit, p.name() + ": operation " +
                                            std::to_string(kernels_.size()) + ": " +
                                            why_not_fit(l, op.launch));
      const footprint f = footprint_of(l, sms, op);
      kernels_.push_back(f.widest);
      fills_.push_back(f.fill);
      const sums& before = until_.back();
      until_.push_back({before.time + f.time,
                        before.busy + f.fill * static_cast<double>(f.time.count()),
                        before.fill + f.fill, before.blocks + f.blocks, before.words + f.words});
    }
    index_widest();
  }

  /// The footprint of operations [first, last) as one segment. If no time is known, fill is the
  /// plain mean.
  [[nodiscard]] footprint range(std::size_t first, std::size_t last) const noexcept {
    assert(first <= last && last <= kernels_.size());
    footprint f;
    if (first == last) return f;
    const sums& a = until_[first];
    const sums& b = until_[last];
    const std::size_t widest = widest_of(first, last);
    f.time = b.time - a.time;
    f.peak = fills_[widest];
    const double mean = f.time > duration::zero()
                            ? (b.busy - a.busy) / static_cast<double>(f.time.count())
                            : (b.fill - a.fill) / static_cast<double>(last - first);
    f.fill = std::clamp(mean, 0.0, f.peak); // differences of sums have rounding errors
    f.blocks = b.blocks - a.blocks;
    f.words = b.words - a.words;
    f.widest = kernels_[widest];
    return f;
  }

  /// The demand of one operation of the program; no blocks if it is no kernel.
  [[nodiscard]] const kernel_demand& kernel(std::size_t operation) const noexcept {
    assert(operation < kernels_.size());
    return kernels_[operation];
  }
  [[nodiscard]] std::size_t size() const noexcept { return kernels_.size(); }

private:
  struct sums {
    duration time{};
    double busy = 0; ///< fill x ns
    double fill = 0;
    std::uint64_t blocks = 0;
    std::uint64_t words = 0;
  };

  /// Level k of the table holds, for each i, the widest operation of [i, i + 2^k).
  void index_widest() {
    const std::size_t n = fills_.size();
    levels_.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) levels_[0][i] = static_cast<std::uint32_t>(i);
    for (std::size_t half = 1; 2 * half <= n; half *= 2) {
      std::vector<std::uint32_t> next(n - 2 * half + 1);
      for (std::size_t i = 0; i < next.size(); ++i)
        next[i] = wider(levels_.back()[i], levels_.back()[i + half]);
      levels_.push_back(std::move(next));
    }
  }

  [[nodiscard]] std::uint32_t wider(std::uint32_t a, std::uint32_t b) const noexcept {
    return fills_[b] > fills_[a] ? b : a;
  }

  [[nodiscard]] std::size_t widest_of(std::size_t first, std::size_t last) const noexcept {
    const auto level = static_cast<std::size_t>(std::bit_width(last - first) - 1);
    const std::vector<std::uint32_t>& row = levels_[level];
    return wider(row[first], row[last - (std::size_t{1} << level)]);
  }

  std::vector<kernel_demand> kernels_;
  std::vector<double> fills_;
  std::vector<sums> until_; ///< until_[i] sums all operations before i
  std::vector<std::vector<std::uint32_t>> levels_;
};

} // namespace gsched
