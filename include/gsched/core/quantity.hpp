// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace gsched {

/// A count whose type carries the unit, so that SMs do not add to bytes. count() is the raw number.
template <class Tag, class Rep>
class quantity {
public:
  using rep = Rep;

  constexpr quantity() noexcept = default;
  explicit constexpr quantity(Rep n) noexcept : n_(n) {}

  [[nodiscard]] constexpr Rep count() const noexcept { return n_; }

  constexpr auto operator<=>(const quantity&) const noexcept = default;

  constexpr quantity& operator+=(quantity o) noexcept {
    n_ = static_cast<Rep>(n_ + o.n_);
    return *this;
  }
  constexpr quantity& operator-=(quantity o) noexcept {
    n_ = static_cast<Rep>(n_ - o.n_);
    return *this;
  }
  friend constexpr quantity operator+(quantity a, quantity b) noexcept { return a += b; }
  friend constexpr quantity operator-(quantity a, quantity b) noexcept { return a -= b; }

private:
  Rep n_{};
};

using sm_count = quantity<struct sm_tag, std::uint32_t>;
using byte_count = quantity<struct byte_tag, std::uint64_t>;
using block_count = quantity<struct block_tag, std::uint64_t>;

} // namespace gsched
