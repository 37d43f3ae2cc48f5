// SPDX-License-Identifier: Apache-2.0
#include "preempt/access_model.hpp"

#include <gsched/preempt/idempotence.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

// Programs on simulated memory, killed in the middle of operations and restored.

namespace gsched::testing {
namespace {

using memory = std::array<std::uint64_t, memory_bytes>;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 29;
  return x * 0x94d049bb133111ebu + 1;
}

/// Each byte that an operation writes depends on all bytes that it reads, on the operation and on
/// itself.
void run(const operation_access& o, std::size_t index, memory& m) {
  std::uint64_t seen = index;
  for (std::size_t b = 0; b < memory_bytes; ++b)
    if ((read_mask(o) >> b & 1u) != 0) seen = mixed(seen, m[b]);
  for (std::size_t b = 0; b < memory_bytes; ++b)
    if ((write_mask(o) >> b & 1u) != 0) m[b] = mixed(seen, b);
}

/// Killed half-way: any part of the written bytes has the right value, the old one, or neither.
void run_in_part(const operation_access& o, std::size_t index, memory& m, std::mt19937_64& random) {
  memory whole = m;
  run(o, index, whole);
  for (std::size_t b = 0; b < memory_bytes; ++b)
    if ((write_mask(o) >> b & 1u) != 0) {
      const auto how = random() % 3;
      if (how == 0) m[b] = whole[b];
      if (how == 1) m[b] = random();
    }
}

memory first_image() {
  memory m{};
  for (std::size_t b = 0; b < memory_bytes; ++b) m[b] = 1000 + b;
  return m;
}

memory undisturbed(const access_trace& t) {
  memory m = first_image();
  for (std::size_t i = 0; i < t.operations.size(); ++i) run(t.operations[i], i, m);
  return m;
}

TEST_CASE("killed in each operation and restored, a program leaves what it would have left") {
  std::mt19937_64 random(7);
  int kills = 0;
  for (int n = 0; n < 8000; ++n) {
    CAPTURE(n);
    const access_trace t = random_trace(random, {.barriers = 1}, 12);
    const auto verdicts = find_verdicts(t);
    const memory expected = undisturbed(t);
    for (std::size_t k = 0; k < t.operations.size(); ++k) {
      const std::optional<std::size_t> from = restore_point(verdicts, k, true);
      if (!from) continue; // it is waited for
      memory m = first_image();
      for (std::size_t i = 0; i < k; ++i) run(t.operations[i], i, m);
      run_in_part(t.operations[k], k, m, random);
      for (std::size_t i = *from; i < t.operations.size(); ++i) run(t.operations[i], i, m);
      REQUIRE(m == expected);
      ++kills;
    }
  }
  CHECK(kills > 10000);
}

TEST_CASE("killed again and again, also while a group runs again") {
  std::mt19937_64 random(8);
  int again = 0;
  for (int n = 0; n < 20000; ++n) {
    CAPTURE(n);
    const access_trace t = random_trace(random, {.barriers = 1}, 12);
    const auto verdicts = find_verdicts(t);
    memory m = first_image();
    std::size_t furthest = 0;
    for (std::size_t i = 0; i < t.operations.size();) {
      again += i < furthest ? 1 : 0;
      furthest = std::max(furthest, i);
      const bool killed = random() % 3 == 0;
      const auto from = restore_point(verdicts, i, killed);
      if (killed && from) {
        run_in_part(t.operations[i], i, m, random);
        i = *from;
      } else {
        run(t.operations[i], i, m);
        ++i;
      }
    }
    REQUIRE(m == undisturbed(t));
  }
  CHECK(again > 1000);
}

} // namespace
} // namespace gsched::testing
