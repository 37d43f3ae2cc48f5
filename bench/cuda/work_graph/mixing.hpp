// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define WORK_GRAPH_BOTH __host__ __device__
#else
#define WORK_GRAPH_BOTH
#endif

/// The arithmetic of kernels and host nodes, identical on the GPU and on the host.
namespace work_graph {

/// A kernel processes at most that many words of a buffer: its first and its last ones.
inline constexpr std::uint32_t most_words = 1024;

WORK_GRAPH_BOTH inline std::uint32_t mixed(std::uint32_t a, std::uint32_t b, std::uint32_t salt) {
  std::uint32_t x = a * 2654435761u + b * 40503u + salt;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return x + 1;
}

/// The number of words of a buffer that count, and the position of word j of those.
WORK_GRAPH_BOTH inline std::uint32_t counted(std::uint32_t words) {
  return words < most_words ? words : most_words;
}
WORK_GRAPH_BOTH inline std::uint32_t place(std::uint32_t words, std::uint32_t j) {
  const std::uint32_t n = counted(words);
  return j < (n + 1) / 2 ? j : words - n + j;
}
/// The word of n others with which word j is mixed.
WORK_GRAPH_BOTH inline std::uint32_t partner(std::uint32_t j, std::uint32_t n) {
  return (j * 7 + 3) % n;
}

struct source {
  const std::uint32_t* from = nullptr;
  std::uint32_t words = 0;
};

/// Word j of a buffer with everything that its node reads: the value that a kernel stores when it
/// starts.
template <class Load>
WORK_GRAPH_BOTH inline std::uint32_t gathered(std::uint32_t own, std::uint32_t j,
                                              const source* reads, std::uint32_t count,
                                              const Load& load) {
  std::uint32_t x = own;
  for (std::uint32_t r = 0; r < count; ++r) {
    const source& s = reads[r];
    x = mixed(x, load(s.from + place(s.words, partner(j, counted(s.words)))), r + 1);
  }
  return x;
}

/// The value when it ends. For a cooperative kernel `partner` is another word of the same step,
/// otherwise the number of the word.
WORK_GRAPH_BOTH inline std::uint32_t finished(std::uint32_t gathered, std::uint32_t partner,
                                              std::uint32_t salt, std::uint32_t cluster) {
  return mixed(gathered, partner, salt + 1000 * cluster);
}

} // namespace work_graph
