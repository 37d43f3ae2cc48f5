// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "channel/times.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace channel_bench {

/// A child process that is a client of the channel. It is forked before its parent uses CUDA.
class requester {
public:
  static constexpr const char* ways[] = {"polling", "hybrid", "waiting"};

  /// Throws gsched::error if it cannot be started, as the calls below do where it fails.
  requester();
  ~requester();
  requester(const requester&) = delete;
  requester& operator=(const requester&) = delete;

  void connect(const std::string& socket);
  /// So many requests, one after another, by a client that waits that way.
  [[nodiscard]] std::vector<times> request(std::size_t way, std::uint32_t count);

private:
  pid_t child_ = -1;
  int to_ = -1;
  int from_ = -1;
};

} // namespace channel_bench
