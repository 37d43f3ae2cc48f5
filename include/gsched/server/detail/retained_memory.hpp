// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Keeps memory until the process ends: to free the memory of a failed device can mean to wait for
/// a kernel that never ends.
///
/// Threads  any.
inline void retain_until_exit(std::vector<std::shared_ptr<void>> memory) {
  static std::mutex one_at_a_time;
  static auto& all = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(one_at_a_time);
  for (std::shared_ptr<void>& each : memory) all.push_back(std::move(each));
}

} // namespace gsched::detail
