// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/replay.hpp"
#include "stand_in_launch.hpp"

#include <gsched/core/time.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace gsched::cuda {

/// How long a block has to stay so that its kernel, in a chain of kernels in a graph, takes a time
/// from the start of the one before: measured on the GPU, once for each shape and each doubling of
/// the time, as what a launch costs beyond its blocks depends on those.
///
/// Units    nanoseconds, and cycles of the SM's clock.
/// Threads  one owner. The GPU should have nothing else to do meanwhile.
class stand_in_timing {
public:
  explicit stand_in_timing(const gpu& on);

  struct answer {
    std::uint64_t cycles = 0;
    duration takes{}; ///< the time asked for, or the least that such a kernel takes
  };
  /// Cost     some milliseconds for what was not asked for before.
  [[nodiscard]] answer cycles_for(const stand_in_launch& launch, duration time);

private:
  /// A point on the line by which the time grows with the cycles, and where the line ends below.
  struct point {
    double floor_ns = 0;
    double ns = 0;
    double cycles = 0;
    double ns_per_cycle = 0;
  };
  using key = std::pair<decltype(stand_in_launch{}.key()), int>;

  /// Time of a graph of that many of them.
  [[nodiscard]] double replay(const stand_in_launch& l, double cycles, std::size_t nodes) const;
  [[nodiscard]] double pitch(const stand_in_launch& l, double cycles, std::size_t nodes) const;
  [[nodiscard]] point measure(const stand_in_launch& l, double target_ns) const;

  std::uint32_t sms_ = 0;
  double ns_per_cycle_ = 1; ///< as the GPU claims; measurements correct it
  double graph_ns_ = 0;     ///< what a graph takes beyond its nodes
  owned_stream stream_;
  std::map<key, point> known_;
};

} // namespace gsched::cuda
