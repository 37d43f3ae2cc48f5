// SPDX-License-Identifier: Apache-2.0
#include <gsched/workload/trace_arrivals.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

trace_arrivals from(const std::string& text, std::uint32_t clients = 2) {
  return {std::make_unique<std::istringstream>(text), "t.csv", {"a", "b"}, clients};
}

std::vector<arrival> all_of(trace_arrivals t) {
  std::vector<arrival> all;
  while (const std::optional<arrival> r = t.next()) all.push_back(*r);
  return all;
}

arrival at(double us, std::uint32_t model, std::uint32_t client) {
  return {time_point{from_us(us)}, model, client_id{client}};
}

void refused(const std::string& text, errc code, const std::string& line) {
  CAPTURE(text);
  try {
    all_of(from(text));
    FAIL("not refused");
  } catch (const error& e) {
    CHECK(e.code() == make_error_code(code));
    CHECK(std::string(e.what()).find(line) == 0);
    CHECK(std::string(e.what()).find(", expected ") != std::string::npos);
    CHECK(std::string(e.what()).find_first_of("\r\n") == std::string::npos);
  }
}

} // namespace

TEST_CASE("a trace is read line by line; clients are round robin where a line has none") {
  const std::vector<arrival> expected{at(0, 0, 0), at(10.5, 1, 1), at(10.5, 0, 1), at(2e6, 1, 1)};
  CHECK(all_of(from("time_us,model,client\n0,a\n10.5,b\n10.5,a,1\n2e6,b,1\n")) == expected);
  CHECK(all_of(from("time_us,model\r\n0,a\r\n\r\n10.5,b\r\n10.5,a,1\r\n2e6,b,1")) == expected);
  CHECK(all_of(from("0,a,0\n10.5,b,1\n\n10.5,a,1\n2000000,b,1")) == expected);
  CHECK(all_of(from("")).empty());
  CHECK(all_of(from("time_us,model\n")).empty());
}

TEST_CASE("after its end a trace ignores appended lines") {
  auto text = std::make_unique<std::stringstream>();
  std::stringstream& growing = *text;
  growing << "0,a\n";
  trace_arrivals t(std::move(text), "t.csv", {"a", "b"}, 1);
  CHECK(t.next() == at(0, 0, 0));
  CHECK_FALSE(t.next());
  growing << "5,b\n";
  CHECK_FALSE(t.next());
}

TEST_CASE("errors in a trace are one line: file, line, what, what was expected") {
  refused("0,a\n1\n", errc::bad_trace, "t.csv:2: 1 fields, expected");
  refused("0,a,1,2\n", errc::bad_trace, "t.csv:1: 4 fields");
  for (const char* time : {"", "x", "-1", "1 ", " 1", "nan", "inf", "1e300", "0x10", "1us"})
    refused(std::string(time) + ",a\n", errc::bad_trace, "t.csv:1: time \"");
  refused("5,a\n4.999,b\n", errc::bad_trace, "t.csv:2: time \"4.999\" is before");
  refused("5,c\n", errc::unknown_name, "t.csv:1: model \"c\", expected one of a, b");
  refused("5,A\n", errc::unknown_name, "t.csv:1: model \"A\"");
  for (const char* client : {"", "2", "-1", "1.0", "x", "4294967296"})
    refused("5,a," + std::string(client) + "\n", errc::bad_trace, "t.csv:1: client \"");
  refused("0,a\ntime_us,model\n", errc::bad_trace, "t.csv:2: time \"time_us\"");
  refused("0,a\n" + std::string(2000, 'x'), errc::bad_trace, "t.csv:2: a longer line");
  refused(std::string("0,a\0b\n", 6), errc::unknown_name, "t.csv:1: model \"a?b\"");
  refused("\x7f\x1b[31m,a\n", errc::bad_trace, "t.csv:1: time \"??[31m\"");
}

TEST_CASE("requests before a bad line are returned") {
  trace_arrivals t = from("1,a\nbad\n");
  CHECK(t.next() == at(1, 0, 0));
  CHECK_THROWS_AS(static_cast<void>(t.next()), error);
}

TEST_CASE("a missing file and a directory are refused") {
  CHECK_THROWS_WITH_AS(trace_arrivals("/no/such/file", {"a"}, 1),
                       doctest::Contains("/no/such/file: cannot be opened, expected"), error);
  const std::string directory = std::filesystem::temp_directory_path();
  CHECK_THROWS_WITH_AS(trace_arrivals(directory, {"a"}, 1), doctest::Contains("is a directory"),
                       error);
  CHECK_THROWS_AS(from("", 0), error);
}

TEST_CASE("a trace far longer than a buffer is read") {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
  const std::vector<arrival> all = all_of(from(text));
  REQUIRE(all.size() == 100000);
  CHECK(all.back() == at(99999, 1, 1));
}
