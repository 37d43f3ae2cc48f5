// SPDX-License-Identifier: Apache-2.0
#include <gsched/notify/word.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <random>

using namespace gsched;

TEST_CASE("every field comes back, at its limits and whatever the lap") {
  for (const auto type : {notification_type::blocks_started, notification_type::blocks_ended})
    for (const unsigned blocks : {1u, 2u, 15u, 16u})
      for (const unsigned sm : {0u, 131u, 255u, 256u, 4095u})
        for (const std::uint32_t instance : {0u, 1u, 0x7fffffffu, 0xffffffffu})
          for (const std::uint64_t lap : {0u, 1u, 16383u, 16384u}) {
            const notification n{type, static_cast<std::uint8_t>(blocks),
                                 static_cast<std::uint16_t>(sm), instance};
            const std::uint64_t word = with_lap(pack(n), lap);
            CHECK(word != nothing_here);
            CHECK(unpack(word) == n);
            CHECK(lap_of(word) == (lap & word_layout::lap_mask));
          }
}

TEST_CASE("what pack does not make is no notification") {
  const std::uint64_t good = pack({notification_type::blocks_ended, 3, 7, 9});
  const auto with_type = [&](std::uint64_t t) {
    return (good & ~(std::uint64_t{3} << word_layout::type_at)) | t << word_layout::type_at;
  };
  CHECK_FALSE(unpack(nothing_here).has_value());
  CHECK_FALSE(unpack(with_type(0)));
  CHECK_FALSE(unpack(with_type(3)));
  CHECK(unpack(with_type(1)).has_value());
}

TEST_CASE("any 64 bits decode, and what decodes packs to the same bits") {
  std::mt19937_64 random(7);
  std::uint64_t valid = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t word = random();
    const std::optional<notification> n = unpack(word);
    if (!n) continue;
    ++valid;
    REQUIRE(with_lap(pack(*n), lap_of(word)) == word);
  }
  CHECK(valid > 49'000); // two of four types
  CHECK(valid < 51'000);
}
