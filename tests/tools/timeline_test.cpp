// SPDX-License-Identifier: Apache-2.0
#include "common/timeline.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include <unistd.h>

using namespace gsched;

namespace {

/// So many requests that end at once.
void serve(common::timeline& t, int requests) {
  job j;
  for (int i = 0; i < requests; ++i) {
    j.id = job_id{static_cast<std::uint64_t>(i)};
    j.arrival = time_point{duration{i}};
    t.arrived(j, 0);
    t.ended(j, 0, time_point{duration{i}});
  }
}

} // namespace

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

  const auto file = std::filesystem::temp_directory_path() /
                    ("gsched_timeline_" + std::to_string(::getpid()) + ".json");
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
