// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>

namespace gsched::cuda {

/// A function of a family with its arguments, and the blocks of its grid that one launch runs.
template <class Family>
class pad_work {
public:
  /// Of no blocks: in the real-time role, a launch of guests alone.
  pad_work() = default;

  /// All blocks of a grid. `threads` is for functions that leave it open.
  template <class F>
  pad_work(const F& f, extent grid, std::uint32_t shared_bytes = 0,
           std::uint32_t threads = F::threads)
      : shared_bytes_(shared_bytes) {
    assert(F::threads == 0 || F::threads == threads);
    entry_.threads = threads;
    static_assert(Family::real::template has<F> || Family::guests::template has<F>,
                  "a function of the family");
    std::memcpy(entry_.arguments, &f, sizeof(F));
    entry_.grid = grid;
    // Too many for a grid stay too many, for the table to refuse.
    entry_.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(grid.volume(), 0xffffffff));
    real_ = Family::real::template place<F>();
    guest_ = Family::guests::template place<F>();
  }

  /// Blocks [first, first + count) of this part's, so that the rest can run in another launch.
  [[nodiscard]] pad_work range(std::uint32_t first, std::uint32_t count) const noexcept {
    assert(first <= blocks() && count <= blocks() - first);
    pad_work p = *this;
    p.entry_.first += first;
    p.entry_.blocks = count;
    return p;
  }

  [[nodiscard]] std::uint32_t blocks() const noexcept { return entry_.blocks; }
  /// With at least so many registers a thread, whatever the function needs: for what stands in for
  /// another kernel.
  [[nodiscard]] pad_work with_registers(std::uint32_t at_least) const noexcept {
    pad_work p = *this;
    p.registers_ = at_least;
    return p;
  }

  [[nodiscard]] std::uint32_t threads() const noexcept { return entry_.threads; }
  [[nodiscard]] std::uint32_t registers() const noexcept { return registers_; }
  [[nodiscard]] std::uint32_t shared_bytes() const noexcept { return shared_bytes_; }
  /// In the list of the role; the size of that list where the function is not in it.
  [[nodiscard]] std::uint32_t real_place() const noexcept { return real_; }
  [[nodiscard]] std::uint32_t guest_place() const noexcept { return guest_; }
  [[nodiscard]] const typename Family::entry& entry() const noexcept { return entry_; }

private:
  typename Family::entry entry_{};
  std::uint32_t registers_ = 0;
  std::uint32_t shared_bytes_ = 0;
  std::uint32_t real_ = static_cast<std::uint32_t>(Family::real::size);
  std::uint32_t guest_ = static_cast<std::uint32_t>(Family::guests::size);
};

} // namespace gsched::cuda
