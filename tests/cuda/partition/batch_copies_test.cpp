// SPDX-License-Identifier: Apache-2.0
#include "partition/batch_copies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

using cuda::batch_buffer;
using cuda::copy_list;
using cuda::copy_planner;
using cuda::memory_kind;
using cuda::planned_copy;

/// Memory of which parts are pinned or on the GPU, as told; the rest is pageable.
struct told_memory {
  struct part {
    std::vector<std::byte> bytes;
    memory_kind kind = memory_kind::pageable;
  };
  std::vector<part> parts;

  [[nodiscard]] const part* of(const void* p) const {
    for (const part& each : parts)
      if (p >= each.bytes.data() && p < each.bytes.data() + each.bytes.size()) return &each;
    return nullptr;
  }
  [[nodiscard]] memory_kind kind(const void* p) const { return of(p)->kind; }
  [[nodiscard]] std::uintptr_t allocation(const void* p) const {
    return reinterpret_cast<std::uintptr_t>(of(p)->bytes.data());
  }
};

void run(const std::vector<planned_copy>& all) {
  for (const planned_copy& c : all) std::memcpy(c.to, c.from, c.bytes);
}

/// A model of two buffers, and requests in memory of all kinds, some of them side by side.
struct scene {
  explicit scene(std::uint64_t seed) : random(seed) {
    batch = 1 + static_cast<std::uint32_t>(random() % 8);
    for (std::size_t i = 0; i < 3; ++i)
      memory.parts.push_back({std::vector<std::byte>(batch * 40), static_cast<memory_kind>(i)});
    for (auto& part : memory.parts) fill(part.bytes);
    for (std::size_t b = 0; b < 2; ++b) {
      on_gpu.emplace_back(batch * bytes[b]);
      fill(on_gpu.back());
      buffers.push_back({on_gpu.back().data(), bytes[b]});
    }
    staging.resize(cuda::bytes_of(buffers, batch));
    std::vector<std::size_t> used(3, 0);
    for (std::size_t i = 0; i < batch * 2u; ++i) {
      if (random() % 6 == 0) {
        at.push_back(nullptr);
        continue;
      }
      const std::size_t part = random() % 3;
      at.push_back(memory.parts[part].bytes.data() + used[part]);
      used[part] += bytes[i % 2];
      if (random() % 3 == 0) ++used[part]; // a gap
      used[part] = std::min<std::size_t>(used[part], batch * 40 - 16);
    }
  }
  void fill(std::vector<std::byte>& v) {
    for (std::byte& b : v) b = static_cast<std::byte>(random());
  }

  std::mt19937_64 random;
  std::uint32_t batch = 0;
  std::uint64_t bytes[2] = {8, 12};
  told_memory memory;
  std::vector<std::vector<std::byte>> on_gpu;
  std::vector<batch_buffer> buffers;
  std::vector<std::byte> staging;
  std::vector<std::byte*> at;
};

TEST_CASE("copies of a batch bring each request's inputs to its place, pageable ones by staging") {
  std::size_t merged = 0, staged = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    scene s(seed);
    std::vector<std::vector<std::byte>> expected = s.on_gpu;
    std::size_t pageable = 0, all = 0;
    for (std::size_t r = 0; r < s.batch; ++r)
      for (std::size_t b = 0; b < 2; ++b)
        if (const std::byte* const from = s.at[r * 2 + b]; from != nullptr) {
          std::memcpy(expected[b].data() + r * s.bytes[b], from, s.bytes[b]);
          pageable += s.memory.kind(from) == memory_kind::pageable;
          ++all;
        }
    const std::vector<const void*> data(s.at.begin(), s.at.end());
    std::size_t asked = 0;
    const copy_list c = copy_planner::in(s.buffers, std::span(data), s.batch, s.memory, [&] {
      ++asked;
      return s.staging.data();
    });
    REQUIRE(asked == (pageable > 0 ? 1 : 0));
    REQUIRE(c.by_host.size() == pageable);
    for (const planned_copy& g : c.by_gpu) // never from pageable memory
      REQUIRE((s.memory.of(g.from) == nullptr || s.memory.kind(g.from) != memory_kind::pageable));
    REQUIRE(c.by_gpu.size() <= all);
    merged += all - c.by_gpu.size();
    staged += pageable;
    run(c.by_host);
    run(c.by_gpu);
    REQUIRE(s.on_gpu == expected);
  }
  CHECK(merged > 100);
  CHECK(staged > 100);
}

TEST_CASE("copies of a batch bring outputs to each request, and write nowhere else") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    scene s(seed);
    // Two outputs do not overlap: places are distinct but for those at the end of a part.
    std::vector<std::byte*> seen;
    for (std::byte*& p : s.at)
      if (p != nullptr) {
        bool apart = true;
        for (const std::byte* q : seen) apart = apart && (p >= q + 12 || q >= p + 12);
        if (apart)
          seen.push_back(p);
        else
          p = nullptr;
      }
    told_memory expected = s.memory;
    for (std::size_t r = 0; r < s.batch; ++r)
      for (std::size_t b = 0; b < 2; ++b)
        if (const std::byte* const to = s.at[r * 2 + b]; to != nullptr)
          for (std::size_t i = 0; i < s.memory.parts.size(); ++i)
            if (s.memory.of(to) == &s.memory.parts[i])
              std::memcpy(expected.parts[i].bytes.data() + (to - s.memory.parts[i].bytes.data()),
                          s.on_gpu[b].data() + r * s.bytes[b], s.bytes[b]);
    const std::vector<void*> data(s.at.begin(), s.at.end());
    const copy_list c = copy_planner::out(s.buffers, std::span(data), s.batch, s.memory,
                                          [&] { return s.staging.data(); });
    run(c.by_gpu);
    run(c.by_host);
    for (std::size_t i = 0; i < s.memory.parts.size(); ++i)
      REQUIRE(s.memory.parts[i].bytes == expected.parts[i].bytes);
  }
}

TEST_CASE("copies that follow each other become one, within an allocation only") {
  told_memory m;
  m.parts.push_back({std::vector<std::byte>(64), memory_kind::pinned});
  std::vector<std::byte> gpu(64);
  const std::vector<batch_buffer> one{{gpu.data(), 8}};
  std::byte* const p = m.parts[0].bytes.data();
  const auto copies = [&](std::vector<const void*> data) {
    const auto n = static_cast<std::uint32_t>(data.size());
    return copy_planner::in(one, std::span<const void* const>(data), n, m,
                            [] { return static_cast<std::byte*>(nullptr); })
        .by_gpu;
  };
  CHECK(copies({p, p + 8, p + 16, p + 24}).size() == 1);
  CHECK(copies({p, p + 8, p + 16, p + 24})[0].bytes == 32);
  CHECK(copies({p + 8, p}).size() == 2);
  CHECK(copies({p, nullptr, p + 16}).size() == 2); // the middle place is not overwritten
  struct halves : told_memory {                    // two allocations side by side
    [[nodiscard]] std::uintptr_t allocation(const void* at) const {
      return 1 + static_cast<std::uintptr_t>(static_cast<const std::byte*>(at) -
                                             parts[0].bytes.data()) /
                     16;
    }
  } two;
  two.parts = std::move(m.parts);
  const std::vector<const void*> data{p, p + 8, p + 16, p + 24};
  CHECK(copy_planner::in(one, std::span<const void* const>(data), 4, two, [] {
          return static_cast<std::byte*>(nullptr);
        }).by_gpu.size() == 2);
}

} // namespace
} // namespace gsched::testing
