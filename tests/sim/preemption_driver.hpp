// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/program.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace gsched::testing {

/// Runs programs on a simulated device, one a lane, a few operations a segment and up to three
/// segments in flight, and makes lanes yield and resume: a minimal dispatcher.
class preemption_driver {
public:
  struct job {
    program* of = nullptr;
    lane_id lane{};
    bool yields = true;
    std::size_t next = 0; ///< next operation to submit
    struct piece {
      segment_id id{};
      std::size_t first = 0;
    };
    std::deque<piece> flying{};
    bool told = false;    ///< asked to yield
    bool yielded = false; ///< and has yielded
    std::uint64_t preempted = 0;
    std::uint64_t stayed = 0; ///< yields with a segment that stayed
  };

  preemption_driver(sim::device& on, std::uint64_t seed) : device(on), random_(seed) {}

  std::size_t add(program& p, const lane_options& how) {
    jobs.push_back({&p, device.open_lane(how), how.yields});
    return jobs.size() - 1;
  }

  /// Submits what it can, and takes one event if there is one by `until`; false if there was none.
  bool step(time_point until) {
    submit();
    device.wait(until);
    std::array<device_event, 1> one;
    if (device.poll(one) == 0) return false;
    take(one[0]);
    return true;
  }
  void submit() {
    for (std::size_t i = 0; i < jobs.size(); ++i)
      while (submit_one(jobs[i], i)) {
      }
  }
  /// Also lets the device run to the event; false if no event comes any more.
  bool finish(std::size_t i) {
    while (!done(jobs[i]))
      if (!step(device.now() + from_us(1e5))) return false;
    return true;
  }
  void yield(std::size_t i) {
    jobs[i].told = true;
    device.yield(jobs[i].lane);
  }
  /// Runs until the lane has yielded; false if that does not happen.
  bool wait_yielded(std::size_t i) {
    while (!jobs[i].yielded)
      if (!step(device.now() + from_us(1e5))) return false;
    return true;
  }
  /// Runs until then, makes the lane yield, and resumes it `pause` after it has yielded.
  void yield_at(std::size_t i, time_point t, duration pause = {}) {
    while (device.now() < t && step(t)) {
    }
    if (device.now() < t) device.spend(t - device.now());
    submit(); // which takes time
    yield(i);
    REQUIRE(wait_yielded(i));
    if (pause > duration::zero()) device.spend(pause);
    resume(i);
  }
  void resume(std::size_t i) {
    job& j = jobs[i];
    j.stayed += j.flying.empty() ? 0u : 1u;
    CHECK(j.flying.size() <= 1);
    j.told = j.yielded = false;
    device.resume(j.lane);
  }
  [[nodiscard]] static bool done(const job& j) {
    return j.next == j.of->size() && j.flying.empty() && !j.told;
  }

  sim::device& device;
  std::vector<job> jobs;
  std::uint64_t yielded = 0;
  std::uint64_t resumed = 0;
  std::uint64_t wrong = 0; ///< events that contradict the record

private:
  bool submit_one(job& j, std::size_t owner) {
    if (j.told || j.next == j.of->size() || j.flying.size() == 3) return false;
    const std::size_t last = std::min<std::size_t>(j.of->size(), j.next + 1 + random_() % 4);
    segment s;
    s.id = segment_id{ids_++};
    s.owner = job_id{owner};
    s.lane = j.lane;
    s.program = j.of->id();
    s.first = static_cast<std::uint32_t>(j.next);
    s.operations = j.of->range(j.next, last);
    REQUIRE(!device.submit(s));
    j.flying.push_back({s.id, j.next});
    j.next = last;
    return true;
  }

  void take(const device_event& e) {
    if (e.what == device_event::kind::lane_yielded || e.what == device_event::kind::lane_resumed) {
      const bool yields = e.what == device_event::kind::lane_yielded;
      ++(yields ? yielded : resumed);
      for (job& j : jobs)
        if (j.lane == e.lane && yields) {
          wrong += j.yielded || !j.told ? 1u : 0u;
          j.yielded = true;
        }
      return;
    }
    for (job& j : jobs) {
      const auto at = std::find_if(j.flying.begin(), j.flying.end(),
                                   [&](const job::piece& p) { return p.id == e.segment; });
      if (at == j.flying.end()) continue;
      const bool preempted = e.what == device_event::kind::segment_preempted;
      const auto place = at - j.flying.begin(); // in lane order, except a segment that stays
      const bool fits = preempted ? j.told && !j.yielded && place <= 1 : place == 0;
      wrong += fits ? 0u : 1u;
      if (preempted) j.next = std::min(j.next, at->first + e.operation);
      j.preempted += preempted;
      j.flying.erase(at);
      return;
    }
    ++wrong;
  }

  std::mt19937_64 random_;
  std::uint64_t ids_ = 0;
};

} // namespace gsched::testing
