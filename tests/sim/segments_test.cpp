// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/profile_json.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

using namespace gsched;

namespace {

const std::string shipped_data = std::string(GSCHED_SOURCE_DIR) + "/tools/data/";

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string f; std::getline(in, f, ',');) fields.push_back(f);
  return fields;
}

std::size_t cuts(const program& p, duration quantum) {
  std::size_t n = 0;
  for (std::size_t at = 0; at < p.size(); at = p.cut(at, quantum)) ++n;
  return n;
}

/// The longest quantum that gives that many segments.
duration quantum_for(const program& p, std::size_t segments) {
  std::int64_t low = 1;
  std::int64_t high = p.expected().count() + 1;
  while (low + 1 < high) {
    const std::int64_t middle = (low + high) / 2;
    (cuts(p, duration{middle}) >= segments ? low : high) = middle;
  }
  return duration{low};
}

struct replay {
  duration all{};        ///< from the first submission to the last observed end
  duration submitting{}; ///< host time of all segments together
};

/// A program alone on the device, in segments, with that many of them in flight.
replay run(program& p, duration quantum, std::size_t window) {
  sim::device d(sim::h200());
  const lane_id lane = d.open_lane({});
  d.load(p);
  std::array<device_event, 1> out;
  std::size_t at = 0;
  std::size_t in_flight = 0;
  replay r;
  while (at < p.size() || in_flight > 0) {
    if (at < p.size() && in_flight < window) {
      const std::size_t end = p.cut(at, quantum);
      segment s;
      s.lane = lane;
      s.program = p.id();
      s.first = static_cast<std::uint32_t>(at);
      s.operations = p.range(at, end);
      const time_point before = d.now();
      REQUIRE(!d.submit(s));
      r.submitting += d.now() - before;
      at = end;
      ++in_flight;
      continue;
    }
    d.wait(no_deadline);
    in_flight -= d.poll(out);
  }
  r.all = d.now().time_since_epoch();
  return r;
}

} // namespace

TEST_CASE("models in segments take what they take on the hardware, by window and size") {
  std::ifstream in(shipped_data + "segments.csv");
  std::string line;
  REQUIRE(std::getline(in, line));
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  const std::array<std::size_t, 4> windows{all, 1, 2, 3};
  double squares = 0;
  double submit_squares = 0;
  int rows = 0;
  while (std::getline(in, line)) {
    CAPTURE(line);
    const std::vector<std::string> f = fields_of(line);
    REQUIRE(f.size() == 10);
    program p = to_program(
        load_profile(std::filesystem::path(shipped_data + "profiles/" + f[0] + "_b1.json")));
    const auto segments = static_cast<std::size_t>(std::stoul(f[2]));
    const duration quantum = quantum_for(p, segments);
    REQUIRE(cuts(p, quantum) == segments);
    for (std::size_t w = 0; w < windows.size(); ++w) {
      CAPTURE(w);
      const replay r = run(p, quantum, windows[w]);
      const double off = to_us(r.all) / std::stod(f[4 + w]) - 1;
      CHECK(std::abs(off) <= 0.06);
      squares += off * off;
      const double each = to_us(r.submitting) / static_cast<double>(segments);
      const double submit_off = each / std::stod(f[8]) - 1;
      CHECK(std::abs(submit_off) <= 0.2);
      submit_squares += submit_off * submit_off;
      ++rows;
    }
  }
  CHECK(rows == 80);
  CHECK(std::sqrt(squares / rows) <= 0.03);
  CHECK(std::sqrt(submit_squares / rows) <= 0.10);
  MESSAGE("rms of times " << std::sqrt(squares / rows) << ", of submitting "
                          << std::sqrt(submit_squares / rows));
}

TEST_CASE("kernels launched one by one are bound by the host, and synchronising by the way back") {
  program p =
      to_program(load_profile(std::filesystem::path(shipped_data + "profiles/resnet50_b1.json")));
  const auto n = static_cast<double>(p.size());
  sim::device d(sim::h200());
  const lane_id lane = d.open_lane({});
  d.load(p);
  segment s;
  s.lane = lane;
  s.program = p.id();
  s.operations = p.range(0, p.size());
  s.how = submission::launches;
  REQUIRE(!d.submit(s));
  d.wait(no_deadline);
  const double launched = to_us(d.now().time_since_epoch());
  CHECK(launched > 4.3 * n); // one graph takes about 900 us
  CHECK(launched < 4.3 * n * 1.1 + 30);

  std::array<device_event, 1> out;
  CHECK(d.poll(out) == 1);
  const time_point begin = d.now();
  for (std::size_t i = 0; i < p.size(); ++i) {
    s.first = static_cast<std::uint32_t>(i);
    s.operations = p.range(i, i + 1);
    REQUIRE(!d.submit(s));
    d.wait(no_deadline);
    CHECK(d.poll(out) == 1);
  }
  const double a_kernel = to_us(d.now() - begin) / n;
  // ResNet-152, one synchronisation a kernel
  CHECK(a_kernel == doctest::Approx(7841.0 / 695).epsilon(0.25));
}
