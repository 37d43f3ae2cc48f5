// SPDX-License-Identifier: Apache-2.0
#include <gsched/notify/grouping.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gsched;

TEST_CASE("what the blocks report adds up to the kernel, in as many words as are expected") {
  for (std::uint64_t blocks = 1; blocks <= 100; ++blocks) {
    std::uint64_t reported = 0;
    std::uint64_t words = 0;
    for (std::uint64_t count = 1; count <= blocks; ++count) {
      const std::uint32_t n = reports(count, blocks);
      REQUIRE(n <= max_group_blocks);
      if (n == 0) continue;
      REQUIRE(group_of(count) == words);
      REQUIRE(group_size(words, blocks) == n);
      reported += n;
      ++words;
    }
    REQUIRE(reported == blocks);
    REQUIRE(words == groups_of(blocks));
    REQUIRE(words_of(blocks) == 2 * words);
    REQUIRE(group_size(words, blocks) == 0);
  }
}

TEST_CASE("a kernel without blocks has no groups, and large ones do not overflow") {
  CHECK(groups_of(0) == 0);
  CHECK(words_of(0) == 0);
  CHECK(group_size(0, 0) == 0);
  CHECK(groups_of(~std::uint64_t{0}) == std::uint64_t{1} << 60);
  CHECK(reports(~std::uint64_t{0}, ~std::uint64_t{0}) == 15);
}
