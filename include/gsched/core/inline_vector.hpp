// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

namespace gsched {

/// A vector of at most Capacity values, stored in place. Trivially copyable.
///
/// Errors   push_back beyond the capacity is a bug (asserted); test full() first.
/// Cost     O(1) each; never allocates.
/// Threads  one owner; no locking.
template <class T, std::size_t Capacity>
  requires std::is_trivially_copyable_v<T>
class inline_vector {
public:
  using value_type = T;
  using const_iterator = const T*;

  constexpr inline_vector() noexcept = default;
  constexpr inline_vector(std::initializer_list<T> values) noexcept {
    for (const T& v : values) push_back(v);
  }

  constexpr void push_back(const T& v) noexcept {
    assert(!full());
    values_[size_++] = v;
  }
  constexpr void clear() noexcept { size_ = 0; }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr bool full() const noexcept { return size_ == Capacity; }
  [[nodiscard]] static constexpr std::size_t capacity() noexcept { return Capacity; }
  [[nodiscard]] constexpr const T& operator[](std::size_t i) const noexcept {
    assert(i < size_);
    return values_[i];
  }
  [[nodiscard]] constexpr T& operator[](std::size_t i) noexcept {
    assert(i < size_);
    return values_[i];
  }
  [[nodiscard]] constexpr const T* data() const noexcept { return values_.data(); }
  [[nodiscard]] constexpr const T* begin() const noexcept { return values_.data(); }
  [[nodiscard]] constexpr const T* end() const noexcept { return values_.data() + size_; }
  [[nodiscard]] constexpr T* begin() noexcept { return values_.data(); }
  [[nodiscard]] constexpr T* end() noexcept { return values_.data() + size_; }

private:
  std::array<T, Capacity> values_{};
  std::size_t size_ = 0;
};

} // namespace gsched
