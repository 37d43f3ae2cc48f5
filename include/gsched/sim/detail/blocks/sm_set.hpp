// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gsched::sim {

/// A set of 256 SMs, one bit each, or a block of a larger set. GPUs known today have fewer SMs, so
/// their sets are one block, and an operation on two sets is a few vector instructions.
struct sm_block {
  static constexpr std::uint32_t size = 256;

  std::array<std::uint64_t, 4> words{};

  sm_block& operator|=(const sm_block& o) noexcept {
    for (std::size_t w = 0; w < words.size(); ++w) words[w] |= o.words[w];
    return *this;
  }
  sm_block& operator^=(const sm_block& o) noexcept {
    for (std::size_t w = 0; w < words.size(); ++w) words[w] ^= o.words[w];
    return *this;
  }
  bool operator==(const sm_block& o) const noexcept {
    return ((words[0] ^ o.words[0]) | (words[1] ^ o.words[1]) | (words[2] ^ o.words[2]) |
            (words[3] ^ o.words[3])) == 0;
  }
};
/// [n]: the SMs with numbers below n.
inline constexpr auto sms_below = [] {
  std::array<sm_block, sm_block::size + 1> all{};
  for (std::uint32_t n = 0; n < sm_block::size; ++n) {
    all[n + 1] = all[n];
    all[n + 1].words[n / 64] |= std::uint64_t{1} << n % 64;
  }
  return all;
}();

/// The number of SMs in both sets. Written out, two words at once: without the instruction,
/// std::popcount is a call for each word.
[[nodiscard]] inline std::uint32_t common_sms(const sm_block& x, const sm_block& y) noexcept {
  typedef std::uint64_t pair [[gnu::vector_size(16)]];
  static_assert(sizeof(pair) == 16);
  std::uint64_t sums[2];
  pair both{};
  for (std::size_t half = 0; half < 2; ++half) {
    pair n;
    pair with;
    std::memcpy(&n, &x.words[2 * half], sizeof n);
    std::memcpy(&with, &y.words[2 * half], sizeof with);
    n &= with;
    n -= n >> 1 & 0x5555555555555555u;
    n = (n & 0x3333333333333333u) + (n >> 2 & 0x3333333333333333u);
    both += (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fu; // number of set bits in each byte
  }
  std::memcpy(sums, &both, sizeof sums);
  std::uint64_t sum = sums[0] + sums[1];
  sum = (sum & 0x00ff00ff00ff00ffu) + (sum >> 8 & 0x00ff00ff00ff00ffu);
  return static_cast<std::uint32_t>(sum * 0x0001000100010001u >> 48);
}

/// The SMs [first, last), counted from the first SM of the block.
[[nodiscard]] inline sm_block sms_between(std::uint32_t first, std::uint32_t last) noexcept {
  sm_block b = sms_below[std::min(last, sm_block::size)];
  return b ^= sms_below[std::min(first, sm_block::size)];
}

} // namespace gsched::sim
