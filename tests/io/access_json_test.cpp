// SPDX-License-Identifier: Apache-2.0
#include "preempt/access_model.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/access_json.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>

namespace gsched::testing {
namespace {

std::string written(const access_trace& t) {
  std::ostringstream out;
  write_access_trace(out, t);
  return out.str();
}

std::string trace_refusal(const std::string& text) {
  try {
    static_cast<void>(parse_access_trace(text, "f.json"));
  } catch (const error& e) {
    CHECK(e.code() == errc::bad_profile);
    return e.what();
  }
  return {};
}

std::string with_operation(const std::string& o) {
  return R"({"model": "m", "operations": [)" + o + "]}";
}

TEST_CASE("a hand-written trace is read") {
  const access_trace t = parse_access_trace(
      R"({"model": "m", "unknown": {"a": [1]}, "operations": [
        {"kind": "memset", "writes": [[16, 8]], "declared": "idempotent"},
        {"kind": "kernel", "name": "k", "reads": [[24, 8], [16, 8]], "writes_first": [[0, 4]],
         "assumed": true, "unknown": 3}]})",
      "f.json");
  REQUIRE(t.operations.size() == 2);
  CHECK(t.model == "m");
  CHECK(t.operations[0].kind == operation_kind::memset);
  CHECK(t.operations[0].says == declared::idempotent);
  CHECK(t.operations[0].writes.ranges() == std::vector<byte_range>{{16, 24}});
  CHECK(t.operations[1].name == "k");
  CHECK(t.operations[1].assumed);
  CHECK(t.operations[1].reads.ranges() == std::vector<byte_range>{{16, 32}});
  CHECK(t.operations[1].writes_first.bytes() == 4);
}

TEST_CASE("a written trace is read back unchanged") {
  std::mt19937_64 random(3);
  const random_mix mix{
      .assumed = 4, .declared_idempotent = 3, .declared_clobbers = 3, .declared_saves = 3};
  for (int i = 0; i < 500; ++i) {
    access_trace t = random_trace(random, mix, 9);
    t.operations.front().name = "quotes \" and \\, ümlauts";
    const auto high = std::numeric_limits<std::uint64_t>::max();
    t.operations.front().reads = access_set({{high - 9, high}});
    REQUIRE(parse_access_trace(written(t), "f.json") == t);
  }
}

TEST_CASE("errors are one line") {
  const struct {
    std::string text, where, what;
  } wrong[] = {
      {"", "f.json: empty", ""},
      {"[]", "f.json: the document is an array", "an object"},
      {"{", "f.json: ends too early", ""},
      {R"({"operations": []})", "f.json: /model is missing", ""},
      {R"({"model": "m"})", "f.json: /operations is missing", ""},
      {R"({"model": "m", "operations": []})", "f.json: /operations is empty", ""},
      {with_operation(R"({"kind": "kernel", "reads": [], "reads": [[1, 2]], "writes": []})"),
       "f.json: the document has the key \"reads\" twice", "it once"},
      {R"({"model": "m", "model": "n", "operations": []})",
       "f.json: the document has the key \"model\" twice", "it once"},
      {with_operation("1"), "f.json: /operations/0 is a number", "an object"},
      {with_operation("{}"), "f.json: /operations/0/kind is missing", ""},
      {with_operation(R"({"kind": "sort"})"), "f.json: /operations/0/kind is \"sort\"", "memset"},
      {with_operation(R"({"kind": "kernel", "name": "k"})"),
       "f.json: /operations/0/reads is missing", "[[address, bytes], ...], or [] for none"},
      {with_operation(R"({"kind": "kernel", "reads": [[1, 2]]})"),
       "f.json: /operations/0/writes is missing", "[[address, bytes], ...], or [] for none"},
      {with_operation(R"({"kind": "kernel", "writes": [[1, 2]], "declared": "idempotent"})"),
       "f.json: /operations/0/reads is missing", ""},
      {with_operation(R"({"kind": "memcpy", "writes": [[1, 2]]})"),
       "f.json: /operations/0/reads is missing", ""},
      {with_operation(R"({"kind": "memset"})"), "f.json: /operations/0/writes is missing", ""},
      {with_operation(R"({"kind": "event_wait"}, {"kind": "kernel"})"),
       "f.json: /operations/1/reads is missing", ""},
      {with_operation(R"({"kind": "kernel", "writes": [], "reads": 1})"),
       "f.json: /operations/0/reads is 1", ""},
      {with_operation(R"({"kind": "kernel", "writes": [], "reads": [1]})"),
       "f.json: /operations/0/reads/0 is 1", "two: an address"},
      {with_operation(R"({"kind": "kernel", "reads": [], "writes": [[1, 2], [3]]})"),
       "f.json: /operations/0/writes/1 has 1 elements", "two: an address"},
      {with_operation(R"({"kind": "kernel", "reads": [], "writes": [[1, 0]]})"),
       "f.json: /operations/0/writes/0 is 0", "1 to 18446744073709551614"},
      {with_operation(R"({"kind": "kernel", "reads": [], "writes": [[-1, 2]]})"),
       "f.json: /operations/0/writes/0 is -1", ""},
      {with_operation(R"({"kind": "kernel", "reads": [], "writes": [[18446744073709551614, 2]]})"),
       "f.json: /operations/0/writes/0 is 2", "1 to 1"},
      {with_operation(R"({"kind": "kernel", "reads": [], "writes": [], "assumed": 1})"),
       "f.json: /operations/0/assumed is 1", "true or false"},
      {with_operation(R"({"kind": "kernel", "reads": [], "writes": [], "declared": "no"})"),
       "f.json: /operations/0/declared is \"no\"", "idempotent, clobbers or saves"},
  };
  for (const auto& w : wrong) {
    const std::string line = trace_refusal(w.text);
    CAPTURE(w.text);
    CAPTURE(line);
    CHECK(line.starts_with(w.where));
    CHECK(line.find(w.what) != std::string::npos);
    CHECK(line.find(", expected ") != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
  }
  CHECK(trace_refusal(std::string(max_access_trace_bytes + 1, ' ')).find("too large") !=
        std::string::npos);
}

TEST_CASE("missing files, directories and unwritable paths are refused") {
  const auto there = std::filesystem::temp_directory_path();
  CHECK_THROWS_WITH_AS(static_cast<void>(load_access_trace("none/x.json")),
                       "none/x.json: cannot be opened, expected an access trace's file", error);
  CHECK_THROWS_AS(static_cast<void>(load_access_trace(there)), error);
  CHECK_THROWS_AS(write_access_trace(std::filesystem::path("none/x.json"), {}), error);
}

} // namespace
} // namespace gsched::testing
