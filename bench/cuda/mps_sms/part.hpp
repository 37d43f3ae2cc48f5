// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/cuda_tools/replay_times.hpp>
#include <gsched/cuda_tools/replaying.hpp>

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mps_sms {

/// Kernels of one stream: blocks that stay on their SMs until they are released, and a kernel of
/// one wave that is timed. Both multiply fp32 numbers in four chains, which takes an SM's issue
/// slots.
///
/// The SMs of a part are counted, as an MPS client need not know its limit: a first kernel of four
/// small blocks for each SM of the GPU leaves none empty. The held blocks are so few and small that
/// others of several such parts fit beside them on the same SMs.
///
/// Errors   as probe; device_failed if no block starts.
/// Threads  one owner. Nothing else should run on the GPU during construction.
class part {
public:
  /// On the partition's SMs, or on all that the process has if it is null.
  part(const gsched::cuda::gpu& on, std::shared_ptr<const gsched::cuda::partition> where,
       unsigned blocks, double victim_us);
  ~part();
  part(const part&) = delete;
  part& operator=(const part&) = delete;

  /// The SMs on which blocks ran when nothing else did, in rising order.
  [[nodiscard]] const std::vector<std::uint32_t>& sms() const noexcept { return sms_; }

  /// Holds blocks until release(), and for `seconds` at most. Returns when one of them runs.
  void hold(double seconds);
  struct held {
    std::vector<std::uint32_t> sms;
    double seconds = 0;    ///< from the first block's start to the last one's end
    bool released = false; ///< false: the blocks had ended by themselves
  };
  [[nodiscard]] held release();

  struct replayed {
    gsched::cuda::replay_times us;
    std::vector<std::uint32_t> sms; ///< of the last replay
  };
  /// Replays the timed kernel for about that long, back to back.
  [[nodiscard]] replayed replay(double ms);

private:
  struct stream {
    CUstream s = nullptr;
    explicit stream(const gsched::cuda::partition* where);
    ~stream();
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;
  };
  void start(gsched::cuda::probe& p, double seconds) const;

  std::shared_ptr<const gsched::cuda::partition> where_;
  stream stream_;
  std::vector<std::uint32_t> sms_;
  std::optional<gsched::cuda::probe> load_, victim_;
  std::optional<gsched::cuda::program> program_; ///< the victim's
  std::optional<gsched::cuda::placed_graph> graph_;
  bool holds_ = false;
};

} // namespace mps_sms
