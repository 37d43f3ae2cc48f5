// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace gsched::sim {

/// An array of uninitialised values. Memory is touched only when it is used; a value is to be
/// assigned before it is read.
template <class T>
  requires std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T> &&
           (alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__)
class uninitialised {
public:
  explicit uninitialised(std::size_t capacity)
      : values_(static_cast<T*>(::operator new(capacity * sizeof(T)))) {}

  [[nodiscard]] T& operator[](std::size_t i) noexcept { return values_.get()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return values_.get()[i]; }

private:
  struct release {
    void operator()(T* p) const noexcept { ::operator delete(p); }
  };
  std::unique_ptr<T, release> values_;
};

} // namespace gsched::sim
