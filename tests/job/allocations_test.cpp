// SPDX-License-Identifier: Apache-2.0
#include <job/allocations.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace {
thread_local std::size_t allocated = 0;
}

std::size_t gsched::testing::allocations() noexcept { return allocated; }

void* operator new(std::size_t bytes) {
  ++allocated;
  if (void* const p = std::malloc(bytes != 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("allocations are counted") {
  const std::size_t before = gsched::testing::allocations();
  const auto p = std::make_unique<int[]>(1000);
  CHECK(p != nullptr);
  CHECK(gsched::testing::allocations() == before + 1);
}
