// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/kernel_chain.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gsched::detail {

/// Which operations of a graph may start next, replay after replay.
///
/// Cost     end: O(operations that wait for it); due_us: O(1); take: O(operations that may start).
class replay_order {
public:
  static constexpr double never = std::numeric_limits<double>::max();

  replay_order() = default;
  /// The first replay starts at `start_us`. Without `branches` the operations follow one another.
  replay_order(const kernel_chain& chain, bool branches, double start_us)
      : size_(chain.kernels.size()) {
    if (branches && chain.has_branches()) {
      waits_.reserve(size_);
      next_.resize(size_);
      std::vector<std::size_t> level(size_, 0), at_level;
      for (std::size_t i = 0; i < size_; ++i) {
        waits_.push_back(static_cast<std::uint32_t>(chain.after[i].size()));
        for (const std::uint32_t before : chain.after[i]) {
          next_[before].push_back(static_cast<std::uint32_t>(i));
          level[i] = std::max(level[i], level[before] + 1);
        }
        at_level.resize(std::max(at_level.size(), level[i] + 1));
        width_ = std::max(width_, ++at_level[level[i]]);
      }
    }
    begin(start_us);
  }

  /// How many operations run at once, if all take equally long.
  [[nodiscard]] std::size_t width() const noexcept { return width_; }
  /// When the next operation may start; never, if all that may start have done so.
  [[nodiscard]] double due_us() const noexcept { return due_.empty() ? never : due_.front().us; }
  /// That operation, which counts as started from now on.
  std::size_t take() {
    const std::size_t first = due_.front().operation;
    due_.erase(due_.begin());
    return first;
  }
  /// An operation has ended; those that waited for it alone may start at `then_us`. Returns whether
  /// it was the last of the replay, after which the next one starts.
  bool end(std::size_t operation, double then_us) {
    if (++ended_ == size_) {
      begin(then_us);
      return true;
    }
    if (next_.empty()) {
      add(operation + 1, then_us);
    } else {
      for (const std::uint32_t n : next_[operation])
        if (--left_[n] == 0) add(n, then_us);
    }
    return false;
  }

private:
  struct due {
    double us = 0;
    std::size_t operation = 0;
  };
  void begin(double us) {
    ended_ = 0;
    left_ = waits_;
    if (next_.empty()) {
      add(0, us);
    } else {
      for (std::size_t i = 0; i < size_; ++i)
        if (left_[i] == 0) add(i, us);
    }
  }
  void add(std::size_t operation, double us) {
    const auto later =
        std::find_if(due_.begin(), due_.end(), [&](const due& d) { return d.us > us; });
    due_.insert(later, {us, operation});
  }

  std::size_t size_ = 0;
  std::size_t width_ = 1;
  std::size_t ended_ = 0; ///< of this replay
  std::vector<std::vector<std::uint32_t>>
      next_{};                         ///< operations that wait for each; empty: a chain
  std::vector<std::uint32_t> waits_{}; ///< for so many does each one wait
  std::vector<std::uint32_t> left_{};  ///< of these, in this replay
  std::vector<due> due_{};             ///< in the order of their times
};

} // namespace gsched::detail
