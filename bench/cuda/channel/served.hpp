// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "channel/times.hpp"

#include <gsched/gsched_c.h>

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

namespace channel_bench {

/// A server with one model, "sets", and a channel; and the same work without either.
class served {
public:
  /// Throws gsched::error, one line.
  served(int gpu, const shape& what, const std::string& socket);
  ~served();
  served(const served&) = delete;
  served& operator=(const served&) = delete;

  /// Copies, graph launch and synchronisation on one stream, from and to pinned memory.
  [[nodiscard]] std::vector<times> by_cuda(std::uint32_t count);
  /// gsched_submit from pinned memory; polls gsched_status.
  [[nodiscard]] std::vector<times> by_ticket(std::uint32_t count);
  [[nodiscard]] parts alone();

private:
  void launch(bool copies, bool graph);

  shape what_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t events_[2] = {};
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t launched_ = nullptr;
  std::byte* device_ = nullptr; ///< input, output, and what is set
  std::byte* pinned_ = nullptr; ///< input and output
  gsched_server* server_ = nullptr;
  gsched_channel* channel_ = nullptr;
  std::uint32_t model_ = 0, client_ = 0;
};

} // namespace channel_bench
