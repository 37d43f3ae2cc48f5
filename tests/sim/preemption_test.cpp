// SPDX-License-Identifier: Apache-2.0
//
// Whenever a lane yields, and whatever runs on it, the final memory is that of an undisturbed run.
#include <sim/memory_image.hpp>
#include <sim/preemption_driver.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

constexpr std::size_t image_words = 64;

struct counts {
  std::uint64_t runs = 0;
  std::uint64_t preempted = 0;
  std::uint64_t stayed = 0;
  std::uint64_t restarted = 0;
};

/// A program on one lane of a device of its own, which yields twice.
class disturbed {
public:
  explicit disturbed(std::uint64_t seed) : random_(seed) {
    preset_ = sim::h200();
    preset_.sms = sm_count{4};
    preset_.hardware_queues = 1 + static_cast<std::uint32_t>(random_() % 4);
    preset_.resident_grids = 4;
    preset_.laws.contended = random_() % 2 == 0;
    preset_.yields.gate_every = 1 + static_cast<std::uint32_t>(random_() % 2);
    if (random_() % 2 == 0) preset_.yields.flagged = preset_.yields.held = duration::zero();
    const bool all_leave = random_() % 2 == 0; // one by one: the order of arguments is unspecified
    const std::size_t size = 3 + random_() % 6;
    work_ = random_program(random_, size, all_leave);
    seed_ = random_();
  }

  /// All times at which something happens in an undisturbed run.
  std::vector<time_point> times() {
    const auto [w, c] = run({});
    std::vector<time_point> t = w.times;
    std::sort(t.begin(), t.end());
    t.erase(std::unique(t.begin(), t.end()), t.end());
    return t;
  }
  /// How much earlier a call must be to have its effect at a given time.
  [[nodiscard]] duration ahead(bool flag) const {
    return flag ? preset_.yields.flagged : preset_.yields.held;
  }

  /// The lane yields at these times, in order.
  std::pair<image_writer, counts> run(const std::vector<time_point>& yields) {
    image_writer w{{memory_image(image_words)}, {}};
    sim::device d(preset_, {16, 16}, w.hook());
    program p("p", work_);
    d.load(p);
    preemption_driver drive(d, seed_);
    drive.add(p, {0, {}, true});
    for (const time_point t : yields)
      drive.yield_at(0, t, duration{static_cast<duration::rep>(random_() % 3000)});
    REQUIRE(drive.finish(0));
    CHECK(drive.wrong == 0);
    CHECK(drive.yielded == yields.size());
    CHECK(d.rerun_blocks() == 0);
    CHECK(w.images[0] == run_alone(p.operations(), memory_image(image_words)));
    return {w, {1, drive.jobs[0].preempted, drive.jobs[0].stayed, d.restarted_blocks()}};
  }

private:
  std::mt19937_64 random_;
  sim::preset preset_;
  std::vector<operation> work_;
  std::uint64_t seed_ = 0;
};

} // namespace

TEST_CASE("a yield at any instant of a random program changes nothing in the end") {
  counts all;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    disturbed on(seed);
    const std::vector<time_point> times = on.times();
    std::vector<time_point> instants{time_point{}};
    for (std::size_t i = 0; i < times.size(); ++i) {
      for (const bool flag : {false, true})
        for (const int more : {-1, 0, 1})
          instants.push_back(times[i] - on.ahead(flag) + duration{more});
      if (i > 0) instants.push_back(times[i - 1] + (times[i] - times[i - 1]) / 2);
    }
    for (const time_point t : instants) {
      CAPTURE(t.time_since_epoch().count());
      const counts c = on.run({t, t + duration{static_cast<duration::rep>(seed * 997)}}).second;
      all.runs += c.runs;
      all.preempted += c.preempted;
      all.stayed += c.stayed;
      all.restarted += c.restarted;
    }
  }
  CHECK(all.runs > 25000);
  CHECK(all.preempted > 50000);
  CHECK(all.stayed > 2000);
  CHECK(all.restarted > 100000);
  MESSAGE(all.runs << " runs, " << all.preempted << " segments preempted, " << all.stayed
                   << " held, " << all.restarted << " blocks restarted");
}

} // namespace gsched::testing
