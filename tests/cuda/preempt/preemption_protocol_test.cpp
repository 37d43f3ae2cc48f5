// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/preempt/preemption_slots.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::cuda {
namespace {

using kind = preemption_end::kind;

TEST_CASE("an end word decodes to what was encoded") {
  CHECK(preemption_end::of(0).what == kind::running);
  CHECK(preemption_end::of(1).what == kind::ended);
  for (const std::uint32_t n : {0u, 1u, 77u, 1u << 30}) {
    const preemption_end left = preemption_end::of(preemption_end::word_of_preempted(n));
    CHECK(left.what == kind::preempted);
    CHECK(left.operations == n);
    for (const std::uint32_t line : {1u, 300u, 0xffff'ffffu}) {
      const preemption_end d = preemption_end::of(preemption_end::word_of_divergent(n, line));
      CHECK(d.what == kind::divergent);
      CHECK(d.operations == n);
      CHECK(d.line == line);
    }
  }
}

/// A kernel's blocks on the host: P2 to P4 of preemption_slots.hpp.
struct model {
  explicit model(std::uint32_t n) : blocks(n), ended(n), saved(n), lists{} {
    for (auto& l : lists) l.resize(n);
  }
  std::uint32_t blocks;
  std::vector<unsigned> ended; ///< by block: how often it has ended
  std::vector<bool> saved;
  std::array<std::vector<std::uint32_t>, 2> lists;
  std::uint32_t left = 0, begun = 0, state = 0;

  void leave(std::uint32_t block, bool saves) {
    lists[(state & resumption::second) != 0 ? 0 : 1][left++] =
        block | (saves ? resumption::begun : 0);
    if (saves) begun = 1;
  }
  /// `fate` decides for each block: 0 ends, 1 exits before it begins, 2 exits with saved progress.
  template <class Fate>
  void launch(Fate&& fate) {
    for (std::uint32_t i = 0; i < blocks; ++i) {
      std::uint32_t block = i;
      bool resumed = false;
      if ((state & resumption::some) != 0) {
        if (i >= (state & resumption::count)) continue;
        const std::uint32_t entry = lists[(state & resumption::second) != 0 ? 1 : 0][i];
        block = entry & ~resumption::begun;
        resumed = (entry & resumption::begun) != 0;
      }
      CHECK(resumed == saved[block]);
      switch (fate()) {
      case 0: ++ended[block]; break;
      case 1: leave(block, resumed); break;
      default: saved[block] = true; leave(block, true);
      }
    }
  }
  void mark(bool behind) {
    state = state_after(state, left, begun != 0, blocks, behind);
    left = begun = 0;
  }
};

TEST_CASE("preempted any number of times, each block of each kernel ends once, in every order") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    // Two branches: kernels behind the unfinished one may have ended, or not have begun.
    std::vector<model> kernels;
    for (int k = 0; k < 3; ++k) kernels.emplace_back(static_cast<std::uint32_t>(1 + random() % 40));
    std::size_t first = 0;
    for (int launches = 0; first < kernels.size(); ++launches) {
      REQUIRE(launches < 1000);
      const unsigned mood = static_cast<unsigned>(random() % 4); // all end, none begins, mixed
      for (std::size_t k = first; k < kernels.size(); ++k)
        kernels[k].launch([&] { return mood < 2 ? mood : static_cast<unsigned>(random() % 3); });
      const auto unfinished =
          std::find_if(kernels.begin() + static_cast<std::ptrdiff_t>(first), kernels.end(),
                       [](const model& m) { return m.left > 0; });
      const auto at = static_cast<std::size_t>(unfinished - kernels.begin());
      for (std::size_t k = first; k < kernels.size(); ++k) kernels[k].mark(k > at);
      first = at;
    }
    for (const model& m : kernels) {
      CHECK(std::all_of(m.ended.begin(), m.ended.end(), [](unsigned n) { return n == 1; }));
      CHECK(m.state == 0);
    }
  }
}

TEST_CASE("discarding the remaining blocks counts those that had ended") {
  std::mt19937_64 random(5);
  std::uint64_t most = 0;
  for (int round = 0; round < 2000; ++round) {
    model m(static_cast<std::uint32_t>(1 + random() % 40));
    CHECK(ended_of(m.state, m.blocks) == 0);
    for (auto launches = random() % 5; launches > 0; --launches) {
      m.launch([&] { return static_cast<unsigned>(random() % 3); });
      if (m.left == 0) { // all have ended: no blocks remain to discard
        m.mark(false);
        CHECK(ended_of(m.state, m.blocks) == 0);
        break;
      }
      const bool behind = random() % 2 == 0;
      m.mark(behind);
      const auto ended = static_cast<std::uint32_t>(std::count(m.ended.begin(), m.ended.end(), 1u));
      CHECK(ended_of(m.state, m.blocks) == ended);
      most = std::max<std::uint64_t>(most, ended);
    }
  }
  CHECK(most > 20);
  // The kernel had ended, and an earlier kernel of its segment had not.
  CHECK(ended_of(state_after(0, 0, false, 7, true), 7) == 7);
}

} // namespace
} // namespace gsched::cuda
