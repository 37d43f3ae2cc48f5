// SPDX-License-Identifier: Apache-2.0
#include "common/timeline.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

using namespace gsched;

namespace {

/// Requests that end on arrival.
void serve(common::timeline& t, int requests) {
  job j;
  for (int i = 0; i < requests; ++i) {
    j.id = job_id{static_cast<std::uint64_t>(i)};
    j.arrival = time_point{duration{i}};
    t.arrived(j, 0);
    t.ended(j, 0, time_point{duration{i}});
  }
}

std::filesystem::path scratch_file() {
  return std::filesystem::temp_directory_path() /
         ("gsched_timeline_" + std::to_string(::getpid()) + ".json");
}

/// What the timeline writes.
nlohmann::json saved(const common::timeline& t) {
  const auto file = scratch_file();
  t.save("program", file);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return nlohmann::json::parse(text).at("traceEvents");
}

time_point us(duration::rep n) { return time_point{std::chrono::microseconds{n}}; }

/// One operation of a segment, as the simulated device reports it.
void run_operation(const sim::observer& to, std::uint64_t owner, std::uint64_t segment,
                   std::uint32_t lane, duration::rep from, duration::rep until) {
  sim::operation_mark m{};
  m.owner = job_id{owner};
  m.segment = segment_id{segment};
  m.lane = lane_id{lane};
  to.started(to.self, us(from), m);
  to.ended(to.self, us(until), m);
}

} // namespace

TEST_CASE("timeline: a request has its client, deadline and end") {
  common::timeline t({"m"}, 1);
  t.begin_run("run");
  client c{client_id{5}};
  const auto serve_one = [&](std::uint64_t id, job_state how, duration::rep took,
                             time_point deadline) {
    job j;
    j.id = job_id{id};
    j.owner = &c;
    j.arrival = us(100);
    j.deadline = deadline;
    t.arrived(j, 0);
    j.state = how;
    t.ended(j, 0, us(100 + took));
  };
  serve_one(0, job_state::finished, 40, us(150));
  serve_one(1, job_state::finished, 60, us(150));
  serve_one(2, job_state::cancelled, 10, us(150));
  serve_one(3, job_state::rejected, 0, us(150));
  serve_one(4, job_state::failed, 10, no_deadline);
  t.end_run();
  std::vector<nlohmann::json> begins, ends;
  for (const nlohmann::json& e : saved(t)) {
    if (e["ph"] == "b") begins.push_back(e["args"]);
    if (e["ph"] == "e") ends.push_back(e["args"]["end"]);
  }
  REQUIRE(begins.size() == 5);
  CHECK(begins[0] == nlohmann::json{{"client", 5}, {"deadline_us", 50}});
  CHECK(begins[4] == nlohmann::json{{"client", 5}});
  CHECK(ends ==
        std::vector<nlohmann::json>{"finished", "missed", "cancelled", "rejected", "failed"});
}

TEST_CASE("timeline: segments of a request that follow each other are one slice") {
  common::timeline t({"m"}, 1);
  t.begin_run("run");
  const sim::observer o = t.device_observer();
  job j;
  for (const std::uint64_t id : {1u, 2u}) {
    j.id = job_id{id};
    t.arrived(j, 0);
  }
  run_operation(o, 1, 10, 0, 0, 10);
  run_operation(o, 1, 10, 0, 11, 20); // the same segment
  run_operation(o, 1, 11, 0, 25, 30); // the next one
  run_operation(o, 2, 12, 0, 31, 40); // another request
  run_operation(o, 1, 13, 0, 41, 50);
  run_operation(o, 1, 14, 0, 150, 160); // after a gap
  t.end_run();
  std::vector<nlohmann::json> slices;
  for (const nlohmann::json& e : saved(t))
    if (e["ph"] == "X")
      slices.push_back({e["ts"], e["dur"], e["args"]["job"], e["args"]["segments"]});
  CHECK(slices ==
        std::vector<nlohmann::json>{
            {0.0, 30.0, 1, 2}, {31.0, 9.0, 2, 1}, {41.0, 9.0, 1, 1}, {150.0, 10.0, 1, 1}});
}

TEST_CASE("timeline: many lanes share one track, few have their own") {
  for (const std::size_t lanes : {8u, 1024u}) {
    CAPTURE(lanes);
    common::timeline t({"m"}, 1);
    t.begin_run("direct");
    t.use_lanes(lanes);
    const sim::observer o = t.device_observer();
    for (std::uint64_t i = 0; i < 8; ++i) {
      job j;
      j.id = job_id{i};
      t.arrived(j, 0);
      run_operation(o, i, i, static_cast<std::uint32_t>(i), 0, 10); // all at the same time
    }
    t.end_run();
    std::size_t tracks = 0, slices = 0, spans = 0;
    for (const nlohmann::json& e : saved(t)) {
      tracks +=
          e["name"] == "thread_name" && e["args"]["name"].get<std::string>().starts_with("lane");
      slices += e["ph"] == "X";
      spans += e["ph"] == "b" && e["cat"] == "lanes";
    }
    CHECK(tracks == (lanes == 8 ? 8 : 1));
    CHECK(slices == (lanes == 8 ? 8 : 0));
    CHECK(spans == (lanes == 8 ? 0 : 8));
  }
}

TEST_CASE("timeline: busy SMs are sampled to a bounded number of means") {
  for (const duration::rep length : {1, 40, 3'000'000}) {
    CAPTURE(length);
    common::timeline t({"m"}, 1);
    t.begin_run("run");
    const sim::observer o = t.device_observer();
    constexpr int changes = 20'000;
    for (int i = 0; i <= changes; ++i) // 60 and 0 SMs in turn
      o.occupied(o.self, us(7) + duration{i * length * 1'000}, sm_count{i % 2 == 0 ? 60u : 0u});
    t.end_run();
    double sum = 0;
    std::size_t n = 0;
    for (const nlohmann::json& e : saved(t)) {
      if (e["ph"] != "C") continue;
      sum += e["args"]["value"].get<double>();
      ++n;
    }
    CHECK(n > 100);
    CHECK(n <= common::timeline::most_samples);
    CHECK(sum / static_cast<double>(n) == doctest::Approx(30).epsilon(0.02));
  }
}

TEST_CASE("timeline: each run has a part of the file, and those with losses are named") {
  common::timeline t({"m"}, 3, 60);
  t.begin_run("first"); // 20 events
  serve(t, 500);
  t.end_run();
  t.begin_run("second"); // 20, of which it needs 4
  serve(t, 2);
  t.end_run();
  t.begin_run("third"); // 20, and what second left
  serve(t, 19);
  t.end_run();

  const auto file = scratch_file();
  std::ostringstream said;
  std::streambuf* const kept = std::cerr.rdbuf(said.rdbuf());
  t.save("program", file);
  std::cerr.rdbuf(kept);
  CHECK(said.str() == "program: " + file.string() +
                          ": left out the last 980 events of first, the last 2 events of third, as "
                          "the file takes 60 in all\n");
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  std::size_t begins = 0;
  for (std::size_t at = text.find("\"ph\":\"b\""); at != text.npos;
       at = text.find("\"ph\":\"b\"", at + 1))
    ++begins;
  CHECK(begins == 10 + 2 + 18); // every run has some
}
