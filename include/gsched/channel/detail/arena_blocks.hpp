// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace gsched::channel::detail {

/// Divides an arena: the first free block that is large enough, joined with its neighbours when it
/// is given back.
///
/// Cost     O(free blocks), with allocation; for set-up, not for each request.
/// Threads  one at a time.
class arena_blocks {
public:
  explicit arena_blocks(std::uint64_t bytes) { free_.emplace(0, bytes); }

  [[nodiscard]] std::optional<std::uint64_t> try_take(std::uint64_t bytes) {
    const std::uint64_t size = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
    if (size < bytes) return std::nullopt;
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < size) continue;
      const std::uint64_t offset = at->first;
      const std::uint64_t rest = at->second - size;
      free_.erase(at);
      if (rest > 0) free_.emplace(offset + size, rest);
      taken_.emplace(offset, size);
      return offset;
    }
    return std::nullopt;
  }
  /// An offset that was not taken is ignored.
  void give_back(std::uint64_t offset) noexcept {
    const auto was = taken_.find(offset);
    if (was == taken_.end()) return;
    auto node = taken_.extract(was); // its memory is used again: nothing is allocated
    auto at = free_.insert(std::move(node)).position;
    if (const auto next = std::next(at);
        next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }

private:
  std::map<std::uint64_t, std::uint64_t> free_, taken_; ///< bytes by offset
};

} // namespace gsched::channel::detail
