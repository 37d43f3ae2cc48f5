// SPDX-License-Identifier: Apache-2.0
#pragma once

// In place of the library's core/sync.hpp: accesses to shared memory are steps of an explorer,
// others are what they are.

#include "interleavings/explorer.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gsched::sync {

inline constexpr std::memory_order relaxed = std::memory_order_relaxed;
inline constexpr std::memory_order acquire = std::memory_order_acquire;
inline constexpr std::memory_order release = std::memory_order_release;
inline constexpr std::memory_order acq_rel = std::memory_order_acq_rel;
inline constexpr std::memory_order seq_cst = std::memory_order_seq_cst;

inline constexpr std::size_t cache_line = 64;

template <class T>
class atomic_ref {
public:
  explicit atomic_ref(T& of) noexcept : at_(&of) {}

  [[nodiscard]] T load(std::memory_order = seq_cst) const noexcept {
    if (auto* const e = watched()) return from(e->load(at_, sizeof(T)));
    return *at_;
  }
  void store(T value, std::memory_order order = seq_cst) const noexcept {
    if (auto* const e = watched()) return e->store(at_, sizeof(T), word(value), order == seq_cst);
    *at_ = value;
  }
  T exchange(T value, std::memory_order = seq_cst) const noexcept {
    return change([&](T) { return value; });
  }
  T fetch_add(T n, std::memory_order = seq_cst) const noexcept {
    return change([&](T old) { return static_cast<T>(old + n); });
  }
  T fetch_sub(T n, std::memory_order = seq_cst) const noexcept {
    return change([&](T old) { return static_cast<T>(old - n); });
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order = seq_cst,
                               std::memory_order = seq_cst) const noexcept {
    const T old = change([&](T o) { return o == expected ? value : o; });
    const bool did = old == expected;
    expected = old;
    return did;
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order a = seq_cst,
                             std::memory_order b = seq_cst) const noexcept {
    return compare_exchange_strong(expected, value, a, b);
  }

private:
  [[nodiscard]] interleavings::explorer* watched() const noexcept {
    interleavings::explorer* const e = interleavings::explorer::current();
    return e != nullptr && e->watches(at_) ? e : nullptr;
  }
  static std::uint64_t word(T value) noexcept {
    std::uint64_t w = 0;
    std::memcpy(&w, &value, sizeof value);
    return w;
  }
  static T from(std::uint64_t w) noexcept {
    T value;
    std::memcpy(&value, &w, sizeof value);
    return value;
  }
  template <class F>
  T change(F f) const noexcept {
    if (auto* const e = watched())
      return from(
          e->exchange(at_, sizeof(T), [&](std::uint64_t old) { return word(f(from(old))); }));
    const T old = *at_;
    *at_ = f(old);
    return old;
  }

  T* at_;
};

template <class T>
class atomic {
public:
  static constexpr bool is_always_lock_free = true;

  constexpr atomic() noexcept = default;
  constexpr atomic(T value) noexcept : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  [[nodiscard]] T load(std::memory_order o = seq_cst) const noexcept { return ref().load(o); }
  void store(T value, std::memory_order o = seq_cst) noexcept { ref().store(value, o); }
  T exchange(T value, std::memory_order o = seq_cst) noexcept { return ref().exchange(value, o); }
  T fetch_add(T n, std::memory_order o = seq_cst) noexcept { return ref().fetch_add(n, o); }
  T fetch_sub(T n, std::memory_order o = seq_cst) noexcept { return ref().fetch_sub(n, o); }
  bool compare_exchange_strong(T& expected, T value, std::memory_order a = seq_cst,
                               std::memory_order b = seq_cst) noexcept {
    return ref().compare_exchange_strong(expected, value, a, b);
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order a = seq_cst,
                             std::memory_order b = seq_cst) noexcept {
    return ref().compare_exchange_weak(expected, value, a, b);
  }

private:
  [[nodiscard]] atomic_ref<T> ref() const noexcept { return atomic_ref<T>(value_); }
  mutable T value_{};
};

} // namespace gsched::sync
