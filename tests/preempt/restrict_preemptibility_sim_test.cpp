// SPDX-License-Identifier: Apache-2.0
//
// Kernels that clobber, preempted at any instant: memory equals that of an undisturbed run if they
// are preempted only where restrict_preemptibility permits, and differs if they are preempted where
// they declare.
#include "preempt/block_programs.hpp"
#include "sim/preemption_driver.hpp"

#include <gsched/preempt/restrict_preemptibility.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {
namespace {

struct counts {
  std::uint64_t runs = 0;
  std::uint64_t wrong = 0; ///< runs with another memory
  std::uint64_t half_done = 0;
  std::uint64_t restricted = 0; ///< programs
};

/// A program on a small device, which yields twice.
class clobbering {
public:
  clobbering(std::uint64_t seed, bool some_save) : random_(seed) {
    preset_ = sim::h200();
    preset_.sms = sm_count{4};
    if (random_() % 2 == 0) preset_.yields.flagged = duration::zero();
    blocks_ = random_blocks(random_, 2 + random_() % 5, some_save);
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      operation op;
      op.kernel = kernel_id{static_cast<std::uint32_t>(k)};
      op.launch.grid = {static_cast<std::uint32_t>(blocks_[k].blocks.size()), 1, 1};
      op.launch.block = {1024, 1, 1};
      op.launch.registers_per_thread = 64; // one block an SM
      op.expected = duration{static_cast<duration::rep>(500 + random_() % 20000)};
      op.checkpoint = duration{static_cast<duration::rep>(random_() % 1000)};
      op.preemptible = preemptibility::at_checkpoints;
      operations_.push_back(op);
    }
    seed_ = random_();
  }

  /// Whether any was restricted.
  bool restrict_them() {
    return !restrict_preemptibility(operations_, accesses_of(blocks_), "clobbering").empty();
  }

  /// At each time at which something happens, around it, and in the middle.
  counts run_at_all_instants() {
    counts c;
    std::vector<time_point> t = run({}, c);
    std::sort(t.begin(), t.end());
    t.erase(std::unique(t.begin(), t.end()), t.end());
    for (std::size_t i = 0; i < t.size(); ++i) {
      std::vector<time_point> instants;
      for (const int more : {-1, 0, 1})
        instants.push_back(t[i] - preset_.yields.flagged + duration{more});
      if (i > 0) instants.push_back(t[i - 1] + (t[i] - t[i - 1]) / 2 - preset_.yields.flagged);
      for (const time_point at : instants)
        run({at, at + duration{static_cast<duration::rep>(random_() % 20000)}}, c);
    }
    return c;
  }

private:
  /// Records when something started or ended; the lane yields at these times, in order.
  std::vector<time_point> run(const std::vector<time_point>& yields, counts& c) {
    block_memory image(blocks_, random_());
    sim::device d(preset_, {16, 16}, image.hook());
    image.on = &d;
    program p("p", operations_);
    d.load(p);
    preemption_driver drive(d, seed_);
    drive.add(p, {0, {}, true});
    for (const time_point t : yields) drive.yield_at(0, t);
    REQUIRE(drive.finish(0));
    REQUIRE(drive.wrong == 0);
    REQUIRE(d.rerun_blocks() == 0);
    block_memory alone(blocks_, 0);
    alone.run_alone();
    ++c.runs;
    c.wrong += image.words() == alone.words() ? 0u : 1u;
    c.half_done += image.half_done();
    return image.times();
  }

  std::mt19937_64 random_;
  sim::preset preset_;
  block_program blocks_;
  std::vector<operation> operations_;
  std::uint64_t seed_ = 0;
};

enum class way { restricted, as_they_say };

counts run_programs(way how, bool some_save) {
  counts all;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    clobbering on(seed, some_save);
    clobbering as_asked = on;
    const bool some = on.restrict_them();
    const counts c = (how == way::restricted ? on : as_asked).run_at_all_instants();
    if (how == way::restricted || !some) CHECK(c.wrong == 0);
    all.runs += c.runs;
    all.wrong += c.wrong;
    all.half_done += c.half_done;
    all.restricted += some ? 1u : 0u;
  }
  MESSAGE(all.runs << " runs, " << all.half_done << " blocks started anew half done, "
                   << all.restricted << " programs of 150 restricted, " << all.wrong
                   << " runs wrong");
  return all;
}

} // namespace

TEST_CASE("kernels that leave where their accesses let them can be preempted at any instant") {
  for (const bool some_save : {false, true}) {
    const counts c = run_programs(way::restricted, some_save);
    CHECK(c.runs > 5000);
    CHECK(c.half_done > 5000);
    CHECK(c.restricted > 50);
    CHECK(c.restricted < 150);
  }
}

TEST_CASE("kernels that clobber and leave at checkpoints all the same spoil what they work on") {
  const counts c = run_programs(way::as_they_say, false);
  CHECK(c.wrong > 300);
}

} // namespace gsched::testing
