// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Programs over few bytes, so that each byte can be checked separately.

namespace gsched::testing {

inline constexpr std::uint64_t memory_bytes = 10;

/// Bytes as a mask: bit i is the byte at address i.
using byte_mask = std::uint32_t;

[[nodiscard]] inline access_set set_of(byte_mask mask) {
  std::vector<byte_range> bytes;
  for (std::uint64_t b = 0; b < memory_bytes; ++b)
    if ((mask >> b & 1u) != 0) bytes.push_back({b, b + 1});
  return access_set(std::move(bytes));
}

[[nodiscard]] inline byte_mask mask_of(const access_set& s) {
  byte_mask mask = 0;
  for (std::uint64_t b = 0; b < memory_bytes; ++b)
    if (s.contains(b)) mask |= 1u << b;
  return mask;
}

/// Bytes whose previous value the operation may depend on.
[[nodiscard]] inline byte_mask read_mask(const operation_access& o) {
  return mask_of(o.reads) & ~mask_of(o.writes_first);
}
[[nodiscard]] inline byte_mask write_mask(const operation_access& o) {
  return mask_of(o.writes) | mask_of(o.writes_first);
}

/// The composition of random programs, in sixteenths.
struct random_mix {
  unsigned barriers = 2;
  unsigned writes_first = 3;
  unsigned assumed = 0;
  unsigned declared_idempotent = 0;
  unsigned declared_clobbers = 0;
  unsigned declared_saves = 0;
};

[[nodiscard]] inline access_trace random_trace(std::mt19937_64& random, const random_mix& mix,
                                               std::size_t most) {
  const auto chance = [&](unsigned of_16) { return random() % 16 < of_16; };
  // Few bytes an operation; otherwise only the first few operations could ever be run again.
  const auto some = [&] {
    byte_mask m = 0;
    for (auto n = random() % 4; n > 0; --n) m |= 1u << random() % memory_bytes;
    return m;
  };
  static constexpr operation_kind others[] = {operation_kind::memcpy, operation_kind::memset,
                                              operation_kind::event_wait};
  access_trace t;
  t.model = "random";
  for (auto n = 1 + random() % most; n > 0; --n) {
    operation_access o;
    o.name = std::to_string(t.operations.size());
    if (chance(mix.barriers)) o.kind = others[random() % 3];
    o.reads = set_of(some());
    o.writes = set_of(some());
    if (chance(mix.writes_first)) o.writes_first = set_of(some());
    o.assumed = chance(mix.assumed);
    if (chance(mix.declared_idempotent)) o.says = declared::idempotent;
    if (chance(mix.declared_clobbers)) o.says = declared::clobbers;
    if (mix.declared_saves > 0 && chance(mix.declared_saves)) o.says = declared::saves;
    t.operations.push_back(std::move(o));
  }
  return t;
}

} // namespace gsched::testing
