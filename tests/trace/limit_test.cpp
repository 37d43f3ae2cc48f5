// SPDX-License-Identifier: Apache-2.0
#include <gsched/trace/recorder.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>

using namespace gsched;

TEST_CASE("recorder: a limit below the capacity drops what comes until there is another") {
  trace::recorder r(10);
  const auto track = r.add_track("p", "t");
  const auto label = r.add_label("e");
  const auto events = [&](int n) {
    for (int i = 0; i < n; ++i) r.instant(track, label, time_point{duration{i}});
  };
  r.limit(4);
  events(6);
  CHECK(r.size() == 4);
  CHECK(r.dropped() == 2);
  r.limit(99); // not beyond the capacity
  events(9);
  CHECK(r.size() == 10);
  CHECK(r.capacity() == 10);
  CHECK(r.dropped() == 5);
  std::ostringstream out;
  r.write(out);
  CHECK(out.str().find("\"e\"") != std::string::npos);
}
