// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/measure/replay.hpp"
#include "stand_in/stand_in_launch.hpp"

#include <gsched/core/time.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace gsched::cuda {

/// Finds the cycles for which a block must be busy so that its kernel takes a given time in a
/// chain, from the start of the previous kernel. Measured on the GPU, once for each shape and each
/// doubling of the time, because the overhead of a launch depends on both.
///
/// Units    nanoseconds, and cycles of the SM's clock.
/// Threads  one owner. The GPU should be idle meanwhile.
class stand_in_timing {
public:
  explicit stand_in_timing(const gpu& on);

  struct answer {
    std::uint64_t cycles = 0;
    duration takes{}; ///< the requested time, or the minimum time of such a kernel
  };
  /// Cost     some milliseconds for a new shape or time.
  [[nodiscard]] answer cycles_for(const stand_in_launch& launch, duration time);

private:
  /// A point of the linear relation between cycles and time, and its lower end.
  struct point {
    double floor_ns = 0;
    double ns = 0;
    double cycles = 0;
    double ns_per_cycle = 0;
  };
  using key = std::pair<decltype(stand_in_launch{}.key()), int>;

  /// The time of a graph of `nodes` such kernels.
  [[nodiscard]] double replay(const stand_in_launch& l, double cycles, std::size_t nodes) const;
  [[nodiscard]] double pitch(const stand_in_launch& l, double cycles, std::size_t nodes) const;
  [[nodiscard]] point measure(const stand_in_launch& l, double target_ns) const;

  std::uint32_t sms_ = 0;
  double ns_per_cycle_ = 1; ///< by the GPU's nominal clock; measurements correct it
  double graph_ns_ = 0;     ///< overhead of a graph beyond its nodes
  stream_owner stream_;
  std::map<key, point> known_;
};

} // namespace gsched::cuda
