// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/job/operation.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// The time of a kernel as a function of its SMs, for kernels without measurements. The time is a
/// floor that no SM shortens (launch, first fetches, drain), plus work. The work of an SM's blocks
/// is 1 + warps / warps_to_fill up to its resident limit, then proportional: a block alone on an SM
/// is fast, but does not reach the SM's throughput. The resources that all SMs share (L2, DRAM)
/// contribute as a root of squares: they matter on many SMs and not on few.
///
/// Source   fitted on 3,951 kernels of 10 convolutional networks, each on 8, 16, 32, 64 and 132
///          SMs.
/// Units    floor_us in microseconds, warps_to_fill in warps, the others are pure numbers.
struct scaling_law {
  double floor_us = 1.82; ///< of the time on all SMs; at most the fraction floor_part
  double floor_part = 0.8;
  double warps_to_fill = 7.0;     ///< warps that double the time of an SM's first block
  double step = 0.5;              ///< 1: whole blocks an SM; 0: fractions of blocks
  double shared = 0.754;          ///< weight of L2 and DRAM on all SMs at 32 warps an SM
  double shared_exponent = 0.236; ///< exponent of the warps an SM in that weight
};

/// The time of one operation alone on a partition of 1 to N SMs, as a table.
///
/// Order    measured points are exact. Between two of them the time follows the number of blocks an
///          SM; it follows log-log lines if that does not change or if blocks form clusters, whose
///          grids are often sized for the device, so that steps are elsewhere. Below the smallest
///          point the curve of the law is shifted to it. Without measurements the curve of the law
///          ends in `expected` and never rises. Copies and memsets take the same time on any
///          partition unless measured.
///          Blocks of one warp for which all SMs take as long as the dispatcher needs take as long
///          on fewer SMs, until these start them more slowly.
/// Errors   none; a time of zero or below counts as zero, points beyond N are ignored.
/// Cost     building O(N); at() one load.
/// Threads  immutable after construction.
class scaling_table {
public:
  /// `device` is the number of SMs for which `expected` was measured; `blocks_per_sm` is the
  /// occupancy.
  scaling_table(const operation& op, sm_count device, std::uint32_t blocks_per_sm,
                const scaling_law& law = {})
      : times_(std::max<std::size_t>(device.count(), 1)) {
    const auto n = static_cast<std::uint32_t>(times_.size());
    const double whole_ns = std::max<double>(0, static_cast<double>(op.expected.count()));
    const double floor_ns = std::min(law.floor_us * 1e3, law.floor_part * whole_ns);
    floor_ = duration{static_cast<duration::rep>(floor_ns)};
    std::vector<double> curve(n, whole_ns);
    if (op.kind == operation_kind::kernel) {
      const shape s = shape_of(op, n, blocks_per_sm, law);
      double least = 0;
      for (std::uint32_t i = 1; i <= n; ++i) {
        const double w = work(s, i, n, law);
        curve[i - 1] = least = i == 1 ? w : std::min(least, w);
      }
      for (double& c : curve) c = floor_ns + (whole_ns - floor_ns) * (c / least);
      by_dispatcher_ = op.by_sms.empty() && s.warps <= 1 &&
                       replay_law::keeps_dispatcher(
                           replay_law::dispatch_use(s.blocks, std::max(1e-3, whole_ns / 1e3)));
      if (by_dispatcher_)
        for (std::uint32_t i = 1; i <= n; ++i)
          curve[i - 1] = whole_ns * replay_law::starts_slower(i) / replay_law::starts_slower(n);
      bend(curve, op, s);
    } else {
      bend(curve, op, shape{});
    }
    for (std::uint32_t i = 0; i < n; ++i)
      times_[i] = duration{static_cast<duration::rep>(std::llround(curve[i]))};
  }

  /// The time alone on n SMs; n is clamped to 1 to N.
  [[nodiscard]] duration at(sm_count n) const noexcept {
    const std::size_t i = std::clamp<std::size_t>(n.count(), 1, times_.size());
    return times_[i - 1];
  }
  [[nodiscard]] duration whole() const noexcept { return times_.back(); }
  /// The part of whole() that more SMs do not shorten.
  [[nodiscard]] duration floor() const noexcept { return floor_; }
  [[nodiscard]] sm_count sms() const noexcept {
    return sm_count{static_cast<std::uint32_t>(times_.size())};
  }
  /// Whether its time is that of starting its blocks.
  [[nodiscard]] bool by_dispatcher() const noexcept { return by_dispatcher_; }

private:
  struct shape {
    double blocks = 0; ///< 0: not a kernel
    double warps = 0;  ///< warps of a block
    double resident = 1;
    double weight = 0; ///< weight of L2 and DRAM on all SMs
    bool clustered = false;
  };

  static shape shape_of(const operation& op, std::uint32_t n, std::uint32_t blocks_per_sm,
                        const scaling_law& law) {
    shape s;
    s.blocks = std::max(1.0, static_cast<double>(op.launch.blocks()));
    s.warps = std::max(1.0, static_cast<double>(op.launch.threads_per_block()) / 32);
    s.resident = std::max<std::uint32_t>(blocks_per_sm, 1);
    s.clustered = op.launch.cluster_blocks > 1;
    const double warps = std::min(std::ceil(s.blocks / n), s.resident) * s.warps;
    s.weight = law.shared * std::pow(std::min(warps / 32, 2.0), law.shared_exponent);
    return s;
  }

  static double work(const shape& s, std::uint32_t i, std::uint32_t n, const scaling_law& law) {
    const double sms = i;
    const double k =
        law.step * std::ceil(s.blocks / sms) + (1 - law.step) * std::max(s.blocks / sms, 1.0);
    const double per_block = s.warps / law.warps_to_fill;
    const double sm =
        k <= s.resident ? 1 + k * per_block : (1 + s.resident * per_block) * k / s.resident;
    const double shared = s.weight * sms / n;
    return sm * std::sqrt(1 + shared * shared);
  }

  /// Fits the curve to the measured points.
  static void bend(std::vector<double>& curve, const operation& op, const shape& s) {
    if (op.by_sms.empty()) return;
    const auto n = static_cast<std::uint32_t>(curve.size());
    std::uint32_t last = 0;
    double last_ns = 0;
    const auto pass = [&](std::uint32_t sms, duration time) {
      if (sms <= last || sms > n || time <= duration::zero()) return;
      const auto ns = static_cast<double>(time.count());
      const double factor = curve[sms - 1] > 0 ? ns / curve[sms - 1] : 1;
      for (std::uint32_t i = last + 1; i < sms; ++i)
        curve[i - 1] = last == 0 ? curve[i - 1] * factor : between(s, i, last, last_ns, sms, ns);
      curve[sms - 1] = last_ns = ns;
      last = sms;
    };
    for (const scaling_point& p : op.by_sms) pass(p.sms.count(), p.time);
    pass(n, op.expected);
    for (std::uint32_t i = last + 1; last != 0 && i <= n; ++i) curve[i - 1] = last_ns;
  }

  static double between(const shape& s, std::uint32_t i, std::uint32_t a, double a_ns,
                        std::uint32_t b, double b_ns) {
    const double ka = std::ceil(s.blocks / a);
    const double kb = std::ceil(s.blocks / b);
    if (s.clustered || !(ka > kb))
      return a_ns * std::pow(b_ns / a_ns, std::log(double(i) / a) / std::log(double(b) / a));
    return a_ns + (b_ns - a_ns) * (ka - std::ceil(s.blocks / i)) / (ka - kb);
  }

  std::vector<duration> times_; ///< [i] on i + 1 SMs
  duration floor_{};
  bool by_dispatcher_ = false;
};

} // namespace gsched::sim
