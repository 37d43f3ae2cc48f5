// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t allocated = 0;

[[gnu::noinline]] void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocated;
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment;
  if (void* p = std::aligned_alloc(alignment, whole * alignment)) return p;
  throw std::bad_alloc();
}

} // namespace

std::size_t gsched::testing::allocations() noexcept { return allocated; }

// All other forms of new and delete come down to these.
void* operator new(std::size_t n) { return counted(n, alignof(std::max_align_t)); }
void* operator new(std::size_t n, std::align_val_t a) {
  return counted(n, std::max(static_cast<std::size_t>(a), alignof(std::max_align_t)));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  ++allocated;
  return std::malloc(n);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

TEST_CASE("allocations are counted") {
  const std::size_t before = gsched::testing::allocations();
  void* const p = ::operator new(1000); // a call, which no compiler may leave out
  CHECK(gsched::testing::allocations() == before + 1);
  ::operator delete(p);
}
