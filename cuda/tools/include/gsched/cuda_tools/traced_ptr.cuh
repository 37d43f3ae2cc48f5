// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/tracing.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gsched::cuda {

namespace detail {

/// Writes one record, or several for an object that is larger than a record can describe.
__host__ __device__ inline void put_record(trace_sink& to, std::uint64_t kind, std::uint64_t first,
                                           std::uint64_t bytes) {
  for (; bytes > 0;) {
    const std::uint64_t some = bytes < trace_sink::most_bytes ? bytes : trace_sink::most_bytes;
    if ((first + some) >> trace_sink::address_bits != 0) {
#ifdef __CUDA_ARCH__
      atomicAdd(&to.refused, 1ull);
#else
      ++to.refused;
#endif
      return;
    }
#ifdef __CUDA_ARCH__
    const unsigned long long at = atomicAdd(&to.made, 1ull);
#else
    const unsigned long long at = to.made++;
#endif
    if (at < to.capacity) to.records[at] = kind | first << trace_sink::size_bits | (some - 1);
    first += some;
    bytes -= some;
  }
}

/// Records an access of one thread. The threads of its warp that execute the same instruction share
/// one record if their bytes are consecutive, in thread order, or the same.
template <std::uint64_t Kind, unsigned Bytes>
__host__ __device__ void record_access(trace_sink* to, const volatile void* at) {
  if (to == nullptr) return;
  const auto first = reinterpret_cast<std::uint64_t>(at);
#ifdef __CUDA_ARCH__
  if constexpr (Bytes * 32 <= trace_sink::most_bytes) {
    const unsigned together = __activemask();
    const int leader = __ffs(static_cast<int>(together)) - 1;
    const std::uint64_t base =
        __shfl_sync(together, static_cast<unsigned long long>(first), leader);
    unsigned before;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
    const auto rank = static_cast<unsigned>(__popc(together & before));
    const bool in_a_row = __all_sync(together, first == base + std::uint64_t{rank} * Bytes) != 0;
    const bool the_same = __all_sync(together, first == base) != 0;
    if (in_a_row || the_same) {
      const auto threads = static_cast<unsigned>(in_a_row ? __popc(together) : 1);
      if (rank == 0) put_record(*to, Kind, base, std::uint64_t{threads} * Bytes);
      return;
    }
  }
#endif
  put_record(*to, Kind, first, Bytes);
}

template <class T>
__host__ __device__ void record_read(trace_sink* to, const volatile T* at) {
  record_access<0, sizeof(T)>(to, at);
}
template <class T>
__host__ __device__ void record_write(trace_sink* to, const volatile T* at) {
  record_access<trace_sink::write_bit, sizeof(T)>(to, at);
}

} // namespace detail

template <class T>
class traced_ptr;

/// The target of a traced pointer: reads and assignments are recorded. `auto x = p[i]` is such a
/// reference and not a value; name the type instead.
template <class T>
class traced_reference {
public:
  __host__ __device__ traced_reference(T* at, trace_sink* to) : at_(at), to_(to) {}
  traced_reference(const traced_reference&) = default;

  __host__ __device__ operator std::remove_volatile_t<T>() const {
    detail::record_read(to_, at_);
    return *at_;
  }
  __host__ __device__ const traced_reference& operator=(std::remove_volatile_t<T> value) const {
    detail::record_write(to_, at_);
    *at_ = value;
    return *this;
  }
  __host__ __device__ const traced_reference& operator=(const traced_reference& other) const {
    return *this = static_cast<std::remove_volatile_t<T>>(other);
  }
  __host__ __device__ traced_reference& operator=(const traced_reference& other) {
    static_cast<const traced_reference&>(*this) = other;
    return *this;
  }
  __host__ __device__ traced_ptr<T> operator&() const { return traced_ptr<T>(at_, to_); }

#define GSCHED_TRACED_ASSIGN(op)                                                                   \
  template <class U>                                                                               \
  __host__ __device__ const traced_reference& operator op##=(const U& value) const {               \
    detail::record_read(to_, at_);                                                                 \
    detail::record_write(to_, at_);                                                                \
    *at_ op## = value;                                                                             \
    return *this;                                                                                  \
  }
  GSCHED_TRACED_ASSIGN(+)
  GSCHED_TRACED_ASSIGN(-)
  GSCHED_TRACED_ASSIGN(*)
  GSCHED_TRACED_ASSIGN(/)
  GSCHED_TRACED_ASSIGN(%)
  GSCHED_TRACED_ASSIGN(&)
  GSCHED_TRACED_ASSIGN(|)
  GSCHED_TRACED_ASSIGN(^)
#undef GSCHED_TRACED_ASSIGN

  __host__ __device__ const traced_reference& operator++() const { return *this += 1; }
  __host__ __device__ const traced_reference& operator--() const { return *this -= 1; }

private:
  T* at_;
  trace_sink* to_;
};

/// A kernel's pointer that records reads and writes through it. Make the kernel a template over its
/// pointer types: with T* it is the plain kernel, and with traced_ptr<T> an access_recorder can
/// trace it.
///
///   template <class P> __global__ void scale(P data, int n, float by) {
///     int i = blockIdx.x * blockDim.x + threadIdx.x;
///     if (i < n) data[i] *= by;
///   }
///
/// Without a sink it records nothing. `->` counts as an access of the whole object. get() returns
/// the plain pointer; accesses through that are not recorded.
///
/// Threads  any number of the device; one of the host.
template <class T>
class traced_ptr {
public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using difference_type = std::ptrdiff_t;
  /// A value if T is const.
  using reference = std::conditional_t<std::is_const_v<T>, value_type, traced_reference<T>>;

  traced_ptr() = default;
  __host__ __device__ traced_ptr(std::nullptr_t) {}
  __host__ __device__ explicit traced_ptr(T* at, trace_sink* to = nullptr) : at_(at), to_(to) {}
  /// Converts as plain pointers do, for example to a pointer to const.
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  __host__ __device__ traced_ptr(const traced_ptr<U>& other)
      : at_(other.get()), to_(other.sink()) {}

  [[nodiscard]] __host__ __device__ T* get() const { return at_; }
  [[nodiscard]] __host__ __device__ trace_sink* sink() const { return to_; }

  [[nodiscard]] __host__ __device__ reference operator*() const {
    if constexpr (std::is_const_v<T>) {
      detail::record_read(to_, at_);
      return *at_;
    } else {
      return reference(at_, to_);
    }
  }
  template <class I>
  [[nodiscard]] __host__ __device__ reference operator[](I i) const {
    return *(*this + i);
  }
  [[nodiscard]] __host__ __device__ T* operator->() const {
    detail::record_read(to_, at_);
    if constexpr (!std::is_const_v<T>) detail::record_write(to_, at_);
    return at_;
  }
  [[nodiscard]] __host__ __device__ explicit operator bool() const { return at_ != nullptr; }

  template <class I>
  __host__ __device__ traced_ptr& operator+=(I n) {
    at_ += n;
    return *this;
  }
  template <class I>
  __host__ __device__ traced_ptr& operator-=(I n) {
    at_ -= n;
    return *this;
  }
  __host__ __device__ traced_ptr& operator++() { return *this += 1; }
  __host__ __device__ traced_ptr& operator--() { return *this -= 1; }
  __host__ __device__ traced_ptr operator++(int) {
    const traced_ptr old = *this;
    ++*this;
    return old;
  }
  __host__ __device__ traced_ptr operator--(int) {
    const traced_ptr old = *this;
    --*this;
    return old;
  }
  template <class I>
  [[nodiscard]] __host__ __device__ friend traced_ptr operator+(traced_ptr p, I n) {
    return p += n;
  }
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
  [[nodiscard]] __host__ __device__ friend traced_ptr operator-(traced_ptr p, I n) {
    return p -= n;
  }
  [[nodiscard]] __host__ __device__ friend difference_type operator-(traced_ptr a, traced_ptr b) {
    return a.at_ - b.at_;
  }
  [[nodiscard]] __host__ __device__ friend bool operator==(traced_ptr a, traced_ptr b) {
    return a.at_ == b.at_;
  }
  [[nodiscard]] __host__ __device__ friend bool operator<(traced_ptr a, traced_ptr b) {
    return a.at_ < b.at_;
  }

private:
  T* at_ = nullptr;
  trace_sink* to_ = nullptr;
};

static_assert(std::is_trivially_copyable_v<traced_ptr<float>> &&
              traced_parameter<traced_ptr<float>>);

/// For a program that is compiled once plain and once traced.
template <class T, bool Traced>
using maybe_traced = std::conditional_t<Traced, traced_ptr<T>, T*>;

/// Reinterprets memory as objects of another type, such as float4, for both kinds of pointers.
template <class U, class T>
[[nodiscard]] __host__ __device__ U* pointer_as(T* p) {
  return reinterpret_cast<U*>(p);
}
template <class U, class T>
[[nodiscard]] __host__ __device__ traced_ptr<U> pointer_as(const traced_ptr<T>& p) {
  return traced_ptr<U>(reinterpret_cast<U*>(p.get()), p.sink());
}

/// Atomics count as a read and a write. Kernels that call them by their plain names work with both
/// kinds of pointers.
#define GSCHED_TRACED_ATOMIC(name)                                                                 \
  template <class T, class U>                                                                      \
  __device__ T name(const traced_ptr<T>& p, U value) {                                             \
    detail::record_read(p.sink(), p.get());                                                        \
    detail::record_write(p.sink(), p.get());                                                       \
    return ::name(p.get(), static_cast<T>(value));                                                 \
  }
GSCHED_TRACED_ATOMIC(atomicAdd)
GSCHED_TRACED_ATOMIC(atomicMax)
GSCHED_TRACED_ATOMIC(atomicMin)
GSCHED_TRACED_ATOMIC(atomicAnd)
GSCHED_TRACED_ATOMIC(atomicOr)
GSCHED_TRACED_ATOMIC(atomicXor)
GSCHED_TRACED_ATOMIC(atomicExch)
#undef GSCHED_TRACED_ATOMIC

template <class T, class U, class V>
__device__ T atomicCAS(const traced_ptr<T>& p, U expected, V value) {
  detail::record_read(p.sink(), p.get());
  detail::record_write(p.sink(), p.get());
  return ::atomicCAS(p.get(), static_cast<T>(expected), static_cast<T>(value));
}

} // namespace gsched::cuda
