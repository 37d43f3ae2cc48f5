// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace head_of_line {

/// What a job is, as in the paper.
struct job_shape {
  unsigned kernels = 8; ///< one after another, each of one block
  double kernel_us = 300;
  [[nodiscard]] double job_us() const { return kernels * kernel_us; }
};

enum class submitter : std::uint8_t {
  launches,           ///< all kernels of a job at its arrival, on the next stream
  graph,              ///< the same as one graph
  interleaved,        ///< by hand: the next kernel of a job when the last one was seen to end
  interleaved_graphs, ///< the same; each kernel is a graph
  gsched
};

/// How jobs are submitted to the GPU.
struct way {
  std::string name;
  submitter how = submitter::launches;
  unsigned connections = 0; ///< CUDA_DEVICE_MAX_CONNECTIONS; 0: not set
  unsigned streams = 256;   ///< or lanes
  unsigned priorities = 1;  ///< number of priorities that the streams alternate between
  unsigned partitions = 0;  ///< number of green contexts that the streams alternate between
  unsigned segment = 0;     ///< gsched: kernels of a segment; 0: the whole job
  unsigned spares = 0;      ///< gsched: spare lanes beside those of `streams`
};

[[nodiscard]] std::vector<way> all_ways();
[[nodiscard]] std::optional<way> find_way(const std::string& name);

/// Accepts jobs and reports when they have ended.
class server {
public:
  virtual ~server() = default;
  virtual void submit(std::uint32_t job) = 0;
  /// Appends the jobs that have ended since the last call.
  virtual void poll(std::vector<std::uint32_t>& ended) = 0;
  /// The number of submissions, for rates.
  [[nodiscard]] virtual std::uint64_t submissions() const = 0;
};

[[nodiscard]] std::unique_ptr<server> make_driver_server(const way& w, const job_shape& job,
                                                         long long cycles);
[[nodiscard]] std::unique_ptr<server> make_gsched_server(const way& w, const job_shape& job,
                                                         long long cycles, int gpu);

/// The cycles of a block for which a chain of such kernels in a graph takes kernel_us each.
[[nodiscard]] long long calibrate(const job_shape& job);

} // namespace head_of_line
