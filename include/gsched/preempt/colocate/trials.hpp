// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// Which pairs of a real-time kernel and a guest have shown that they do not go together: each is
/// tried a few times when it is first chosen, and not chosen again if the real-time kernel was
/// slower by more than a tolerance in the middle one of the tries.
///
/// Units    slow-downs are parts of the time alone: 0 is none.
/// Cost     all O(1); no allocation after construction.
/// Threads  one owner; no locking. Depends on the calls alone.
class pad_trials {
public:
  static constexpr std::size_t tries = 5;

  pad_trials(std::size_t real_time, std::size_t guests, double tolerance = 0.03)
      : guests_(guests), tolerance_(tolerance), pairs_(real_time * guests) {}

  /// Whether the pair may be chosen: it is not known to be slow.
  [[nodiscard]] bool may(std::size_t real_time, std::size_t guest) const noexcept {
    const pair& p = at(real_time, guest);
    return p.seen < tries || middle(p) <= tolerance_;
  }
  /// Whether it has yet to be tried.
  [[nodiscard]] bool open(std::size_t real_time, std::size_t guest) const noexcept {
    return at(real_time, guest).seen < tries;
  }
  /// One try of it; those after the last are ignored.
  void learn(std::size_t real_time, std::size_t guest, double slow_down) noexcept {
    pair& p = pairs_[index(real_time, guest)];
    if (p.seen < tries) p.slow_down[p.seen++] = slow_down;
  }
  /// Of a pair that has been tried.
  [[nodiscard]] double slow_down(std::size_t real_time, std::size_t guest) const noexcept {
    return middle(at(real_time, guest));
  }

private:
  struct pair {
    std::array<double, tries> slow_down{};
    std::size_t seen = 0;
  };

  [[nodiscard]] std::size_t index(std::size_t real_time, std::size_t guest) const noexcept {
    assert(guest < guests_ && real_time * guests_ + guest < pairs_.size());
    return real_time * guests_ + guest;
  }
  [[nodiscard]] const pair& at(std::size_t real_time, std::size_t guest) const noexcept {
    return pairs_[index(real_time, guest)];
  }
  [[nodiscard]] static double middle(const pair& p) noexcept {
    std::array<double, tries> sorted = p.slow_down;
    std::sort(sorted.begin(), sorted.end());
    return sorted[tries / 2];
  }

  std::size_t guests_;
  double tolerance_;
  std::vector<pair> pairs_;
};

} // namespace gsched
