// SPDX-License-Identifier: Apache-2.0
#include "sim_accuracy/replays.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/job/program.hpp>
#include <gsched/sim/device.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sim_accuracy {

using namespace gsched;

namespace {

constexpr duration at_least = from_us(15000); ///< as long as the pairs were measured
constexpr std::size_t replays = 5;            ///< and so many of each graph, after the first
constexpr std::size_t in_flight = 8;          ///< graphs a lane: the host never lets one run dry

/// When the replays of each lane began and ended, as the device reports.
struct journal {
  struct lane {
    std::size_t operations = 0;
    std::vector<time_point> starts; ///< of the first operation
    std::vector<time_point> ends;   ///< of the last
  };
  std::vector<lane> lanes;

  static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
    if (m.operation == 0) static_cast<journal*>(self)->of(m).starts.push_back(at);
  }
  static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
    lane& l = static_cast<journal*>(self)->of(m);
    if (m.operation + 1 == l.operations) l.ends.push_back(at);
  }
  lane& of(const sim::operation_mark& m) noexcept { return lanes[index(m.lane)]; }
};

/// A device with one lane a graph, each kept full of its graph.
class bench {
public:
  explicit bench(const sim::preset& p)
      : device_(p, {64, 1}, {&journal_, &journal::started, &journal::ended, nullptr}) {}

  void add(const profile& p, sm_count sms) {
    lane_options how;
    how.sms = sms;
    sources_.push_back({to_program(p), device_.open_lane(how), 0});
    device_.load(sources_.back().graph);
    journal_.lanes.push_back({sources_.back().graph.size(), {}, {}});
  }

  void submit(std::size_t i) {
    source& s = sources_[i];
    segment one;
    one.id = segment_id{sources_.size() * submitted_++ + i};
    one.lane = s.lane;
    one.program = s.graph.id();
    one.operations = s.graph.range(0, s.graph.size());
    if (const std::error_code e = device_.submit(one))
      throw error(errc::device_failed, e.message());
    ++s.in_flight;
  }

  void poll() {
    device_.wait(no_deadline);
    std::array<device_event, 16> events;
    const std::size_t n = device_.poll(events);
    for (std::size_t i = 0; i < n; ++i)
      --sources_[index(events[i].segment) % sources_.size()].in_flight;
  }

  void fill() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < sources_.size(); ++i) // in turn, so that all begin early
        if (sources_[i].in_flight < in_flight) {
          submit(i);
          more = true;
        }
    }
  }

  const journal::lane& replays_of(std::size_t i) const { return journal_.lanes[i]; }
  time_point now() const { return device_.now(); }
  sm_count sms(std::size_t i) const { return device_.sms_of(sources_[i].lane); }

private:
  struct source {
    program graph;
    lane_id lane;
    std::size_t in_flight;
  };
  journal journal_;
  sim::device device_;
  std::vector<source> sources_;
  std::uint64_t submitted_ = 0;
};

/// A replay takes from one end to the next, less the gap that stands between graphs. The first is
/// left out: the other lane may not have begun.
double median_us(const journal::lane& l, duration gap) {
  std::vector<double> us;
  for (std::size_t i = 1; i < l.ends.size(); ++i)
    us.push_back(to_us(l.ends[i] - l.ends[i - 1] - gap));
  const auto middle = us.begin() + static_cast<std::ptrdiff_t>(us.size() / 2);
  std::nth_element(us.begin(), middle, us.end());
  return *middle;
}

} // namespace

solo_time replay_alone(const sim::preset& device, const profile& p, sm_count sms) {
  bench b(device);
  b.add(p, sms);
  b.submit(0);
  while (b.replays_of(0).ends.empty()) b.poll();
  return {to_us(b.replays_of(0).ends[0] - b.replays_of(0).starts[0]), b.sms(0)};
}

std::pair<double, double> replay_beside(const sim::preset& device, const profile& a, sm_count a_sms,
                                        const profile& b, sm_count b_sms) {
  bench both(device);
  both.add(a, a_sms);
  both.add(b, b_sms);
  const auto enough = [&](std::size_t i) { return both.replays_of(i).ends.size() > replays; };
  while (both.now() < time_point{at_least} || !enough(0) || !enough(1)) {
    both.fill();
    both.poll();
  }
  const duration gap = device.gaps.segments;
  return {median_us(both.replays_of(0), gap), median_us(both.replays_of(1), gap)};
}

} // namespace sim_accuracy
