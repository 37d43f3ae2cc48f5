// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// Excludes pairs of a real-time kernel and a co-runner that slow the real-time kernel down. Each
/// pair is tried a few times when it is first chosen; it is excluded if the median slow-down of the
/// tries exceeds a tolerance.
///
/// Units    slow-downs are fractions of the time alone: 0 is none.
/// Cost     O(1) each; no allocation after construction.
/// Threads  one owner; no locking. The state depends on the calls alone.
class pad_trials {
public:
  static constexpr std::size_t tries = 5;

  pad_trials(std::size_t real_time, std::size_t corunners, double tolerance = 0.03)
      : corunners_(corunners), tolerance_(tolerance), pairs_(real_time * corunners) {}

  /// Whether the pair may be chosen: it is not known to be slow.
  [[nodiscard]] bool may(std::size_t real_time, std::size_t corunner) const noexcept {
    const pair& p = at(real_time, corunner);
    return p.seen < tries || middle(p) <= tolerance_;
  }
  /// Whether the pair needs more tries.
  [[nodiscard]] bool open(std::size_t real_time, std::size_t corunner) const noexcept {
    return at(real_time, corunner).seen < tries;
  }
  /// Adds a try; further tries after the last are ignored.
  void learn(std::size_t real_time, std::size_t corunner, double slow_down) noexcept {
    pair& p = pairs_[index(real_time, corunner)];
    if (p.seen < tries) p.slow_down[p.seen++] = slow_down;
  }
  /// The median slow-down of a pair that was tried.
  [[nodiscard]] double slow_down(std::size_t real_time, std::size_t corunner) const noexcept {
    return middle(at(real_time, corunner));
  }

private:
  struct pair {
    std::array<double, tries> slow_down{};
    std::size_t seen = 0;
  };

  [[nodiscard]] std::size_t index(std::size_t real_time, std::size_t corunner) const noexcept {
    assert(corunner < corunners_ && real_time * corunners_ + corunner < pairs_.size());
    return real_time * corunners_ + corunner;
  }
  [[nodiscard]] const pair& at(std::size_t real_time, std::size_t corunner) const noexcept {
    return pairs_[index(real_time, corunner)];
  }
  [[nodiscard]] static double middle(const pair& p) noexcept {
    std::array<double, tries> sorted = p.slow_down;
    std::sort(sorted.begin(), sorted.end());
    return sorted[tries / 2];
  }

  std::size_t corunners_;
  double tolerance_;
  std::vector<pair> pairs_;
};

} // namespace gsched
