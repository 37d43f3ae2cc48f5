// SPDX-License-Identifier: Apache-2.0
//
// Equal inputs give equal bytes on machines with and without fused multiply-add: no compiler may
// contract a product and a sum, for any target machine.
#include <doctest/doctest.h>

#if defined(__x86_64__) && defined(__GNUC__)
namespace {

__attribute__((target("fma"), noinline)) double product_and_sum(double a, double b, double c) {
  return a * b + c;
}

} // namespace

TEST_CASE("contraction: a product is rounded before it is added to" *
          doctest::skip(__builtin_cpu_supports("fma") == 0)) {
  const volatile double a = 1 + 0x1p-30;             // not known to the compiler
  CHECK(product_and_sum(a, a, -(1 + 0x1p-29)) == 0); // fused: 2^-60
}
#endif
