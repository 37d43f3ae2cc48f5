// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/program.hpp>
#include <gsched/preempt/access.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/observer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

// Programs of kernels whose blocks read and write words in steps, with a checkpoint after each
// step, and the memory that they use.

namespace gsched::testing {

struct block_step {
  bool writes = false;
  std::size_t word = 0;
};
using block_steps = std::vector<block_step>;

struct block_kernel {
  std::vector<block_steps> blocks;
  bool saves = false; ///< a block that starts again continues behind its last step
};
using block_program = std::vector<block_kernel>;

inline constexpr std::size_t block_words = 48;

/// The accesses that a tracer would record.
[[nodiscard]] inline operation_access accesses_of(const block_kernel& kernel) {
  enum : unsigned { unused = 0, read = 1, written = 2 };
  std::vector<unsigned> any(block_words, unused);
  std::vector<bool> input(block_words, false);
  for (const block_steps& steps : kernel.blocks) {
    std::vector<bool> mine(block_words, false);
    for (const block_step& s : steps) {
      if (!s.writes && !mine[s.word]) input[s.word] = true;
      if (s.writes) mine[s.word] = true;
      any[s.word] |= s.writes ? written : read;
    }
  }
  std::vector<byte_range> reads, writes, first;
  for (std::size_t w = 0; w < block_words; ++w) {
    const byte_range bytes{8 * w, 8 * w + 8};
    if ((any[w] & read) != 0) reads.push_back(bytes);
    if ((any[w] & written) != 0) (input[w] ? writes : first).push_back(bytes);
  }
  operation_access o;
  o.reads = access_set(std::move(reads));
  o.writes = access_set(std::move(writes));
  o.writes_first = access_set(std::move(first));
  if (kernel.saves) o.says = declared::saves;
  return o;
}

[[nodiscard]] inline access_trace accesses_of(const block_program& p) {
  access_trace t;
  for (const block_kernel& k : p) t.operations.push_back(accesses_of(k));
  return t;
}

/// Kernels whose blocks are independent, as on a GPU: each block reads words that no block writes,
/// and words of its own. Half of the kernels read their own words only after writing them.
[[nodiscard]] inline block_program random_blocks(std::mt19937_64& random, std::size_t kernels,
                                                 bool some_save) {
  constexpr std::size_t half = block_words / 2;
  constexpr std::size_t most = half / 2;
  block_program p(kernels);
  for (block_kernel& k : p) {
    const bool tidy = random() % 2 == 0;
    const std::size_t own = random() % 2 * half;
    k.saves = some_save && random() % 3 == 0;
    k.blocks.resize(1 + random() % most);
    for (std::size_t b = 0; b < k.blocks.size(); ++b) {
      bool wrote[2] = {};
      for (auto n = 2 + random() % 5; n > 0; --n) {
        const bool second = random() % 2 == 0;
        block_step s{random() % 2 == 0, own + b + (second ? most : 0)};
        if (!s.writes && (random() % 2 == 0 || (tidy && !wrote[second])))
          s.word = half - own + random() % half;
        wrote[second] |= s.writes;
        k.blocks[b].push_back(s);
      }
    }
  }
  return p;
}

/// A device's execution of one program. Preempted blocks have run some of their steps.
class block_memory {
public:
  block_memory(const block_program& p, std::uint64_t seed) : program_(p), random_(seed) {
    for (std::size_t w = 0; w < block_words; ++w) words_.push_back(mixed(w, 77));
    for (const block_kernel& k : p) progress_.emplace_back(k.blocks.size());
    ended_.resize(p.size());
  }

  void run_alone() {
    for (std::size_t k = 0; k < program_.size(); ++k)
      for (std::size_t b = 0; b < program_[k].blocks.size(); ++b) run_to_end(k, b);
  }
  [[nodiscard]] const std::vector<std::uint64_t>& words() const noexcept { return words_; }
  /// Blocks that were preempted after a step.
  [[nodiscard]] std::uint64_t half_done() const noexcept { return half_done_; }
  /// Times at which blocks or kernels began or ended.
  [[nodiscard]] const std::vector<time_point>& times() const noexcept { return times_; }

  /// The device must exist before it runs anything.
  sim::observer hook() { return {this, started, ended, nullptr, blocks}; }
  const sim::device* on = nullptr;

private:
  struct state {
    std::size_t steps = 0;
    std::uint64_t seen = 0;
  };

  static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
    a = (a ^ (b + 1) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return a ^ a >> 29;
  }

  static void started(void* self, time_point at, const sim::operation_mark&) noexcept {
    static_cast<block_memory*>(self)->times_.push_back(at);
  }
  static void blocks(void* self, time_point at, const sim::operation_mark& m, std::uint64_t first,
                     std::uint64_t n) noexcept {
    auto& me = *static_cast<block_memory*>(self);
    const std::size_t k = index(m.work->kernel);
    for (std::uint64_t b = first; b < first + n; ++b) me.run_to_end(k, b);
    me.ended_[k] = first + n;
    me.times_.push_back(at);
  }
  /// Blocks that started and were preempted follow the ended blocks.
  static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
    auto& me = *static_cast<block_memory*>(self);
    const std::size_t k = index(m.work->kernel);
    const std::uint64_t all = me.on->restarted_blocks();
    const std::uint64_t n = all - std::exchange(me.restarted_, all);
    me.times_.push_back(at);
    for (std::uint64_t b = me.ended_[k]; b < me.ended_[k] + n; ++b) me.run_in_part(k, b);
  }

  void run_to_end(std::size_t k, std::size_t b) noexcept {
    run(k, b, program_[k].blocks[b].size());
  }
  void run_in_part(std::size_t k, std::size_t b) noexcept {
    state& s = progress_[k][b];
    const std::size_t all = program_[k].blocks[b].size();
    const std::size_t done = s.steps + random_() % (all - s.steps);
    run(k, b, done);
    half_done_ += done > 0 ? 1u : 0u;
    if (!program_[k].saves) s = {};
  }
  void run(std::size_t k, std::size_t b, std::size_t until) noexcept {
    state& s = progress_[k][b];
    if (s.steps == 0) s.seen = mixed(k, b);
    for (; s.steps < until; ++s.steps) {
      const block_step& step = program_[k].blocks[b][s.steps];
      std::uint64_t& word = words_[step.word];
      if (step.writes)
        word = mixed(s.seen, step.word);
      else
        s.seen = mixed(s.seen, word);
    }
  }

  const block_program& program_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> words_;
  std::vector<std::vector<state>> progress_;
  std::vector<std::uint64_t> ended_;
  std::vector<time_point> times_;
  std::uint64_t restarted_ = 0;
  std::uint64_t half_done_ = 0;
};

} // namespace gsched::testing
