// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>

namespace gsched::cuda {

/// A function of a family with its arguments, and the blocks of its grid that a launch runs.
template <class Family>
class pad_work {
public:
  /// No blocks: in the real-time role, a launch of co-runners only.
  pad_work() = default;

  /// All blocks of a grid. `threads` is for functions with threads = 0.
  template <class F>
  pad_work(const F& f, extent grid, std::uint32_t shared_bytes = 0,
           std::uint32_t threads = F::threads)
      : shared_bytes_(shared_bytes) {
    assert(F::threads == 0 || F::threads == threads);
    entry_.threads = threads;
    static_assert(Family::real::template has<F> || Family::corunners::template has<F>,
                  "a function of the family");
    std::memcpy(entry_.arguments, &f, sizeof(F));
    entry_.grid = grid;
    // Saturates: a grid that is too large stays too large, and the table refuses it.
    entry_.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(grid.volume(), 0xffffffff));
    real_ = Family::real::template place<F>();
    corunner_ = Family::corunners::template place<F>();
  }

  /// Blocks [first, first + count) of this work; the others can run in another launch.
  [[nodiscard]] pad_work range(std::uint32_t first, std::uint32_t count) const noexcept {
    assert(first <= blocks() && count <= blocks() - first);
    pad_work p = *this;
    p.entry_.first += first;
    p.entry_.blocks = count;
    return p;
  }

  [[nodiscard]] std::uint32_t blocks() const noexcept { return entry_.blocks; }
  /// The same work with at least that many registers for each thread: for a stand-in of another
  /// kernel.
  [[nodiscard]] pad_work with_registers(std::uint32_t at_least) const noexcept {
    pad_work p = *this;
    p.registers_ = at_least;
    return p;
  }

  [[nodiscard]] std::uint32_t threads() const noexcept { return entry_.threads; }
  [[nodiscard]] std::uint32_t registers() const noexcept { return registers_; }
  [[nodiscard]] std::uint32_t shared_bytes() const noexcept { return shared_bytes_; }
  /// The function's index in the list of the role; the list's size if it is not there.
  [[nodiscard]] std::uint32_t real_place() const noexcept { return real_; }
  [[nodiscard]] std::uint32_t corunner_place() const noexcept { return corunner_; }
  [[nodiscard]] const typename Family::entry& entry() const noexcept { return entry_; }

private:
  typename Family::entry entry_{};
  std::uint32_t registers_ = 0;
  std::uint32_t shared_bytes_ = 0;
  std::uint32_t real_ = static_cast<std::uint32_t>(Family::real::size);
  std::uint32_t corunner_ = static_cast<std::uint32_t>(Family::corunners::size);
};

} // namespace gsched::cuda
