// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/app_json.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

namespace {

const latency_table& table() {
  static const latency_table t(std::vector<latency_row>{
      {"a", 1, sm_count{8}, 1ms}, {"b", 1, sm_count{8}, 1ms}, {"c", 1, sm_count{8}, 1ms}});
  return t;
}

std::string app_refusal(const std::string& stages) {
  try {
    static_cast<void>(
        parse_app(R"({"gsched_app": 1, "name": "x", "stages": )" + stages + "}", "f", table()));
    return "";
  } catch (const error& e) {
    return e.what();
  }
}

} // namespace

TEST_CASE("an app is read stage by stage") {
  const app a = parse_app(R"({"gsched_app": 1, "name": "x", "about": "y", "stages": [
      {"name": "first", "model": "b", "requests": 6},
      {"name": "then", "model": "a", "after": ["first"]},
      {"name": "and", "model": "a", "after": ["first", "then"]}]})",
                          "f", table());
  CHECK(a.name == "x");
  CHECK(a.slo == 0ms);
  REQUIRE(a.stages.size() == 3);
  CHECK(a.stages[0].model == 1);
  CHECK(a.stages[0].requests == 6);
  CHECK(a.stages[1].requests == 1);
  CHECK(a.stages[1].after == std::vector<std::size_t>{0});
  CHECK(a.stages[2].after == std::vector<std::size_t>{0, 1});
}

TEST_CASE("errors in an app are one line with the JSON pointer") {
  const auto has = [](const std::string& stages, const std::string& text) {
    const std::string said = app_refusal(stages);
    CHECK_MESSAGE(said.find(text) != std::string::npos, said);
    CHECK(said.starts_with("f: "));
    CHECK(said.find(", expected ") != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  };
  has("3", "/stages is 3");
  has("[]", "/stages has 0 elements");
  has("[3]", "/stages/0 is 3");
  has(R"([{"model": "a"}])", "/stages/0/name is missing");
  has(R"([{"name": "", "model": "a"}])", "/stages/0/name is \"\"");
  has(R"([{"name": "s\u0001", "model": "a"}])", "/stages/0/name is \"s\\u0001\"");
  has(R"([{"name": "s", "model": "d"}])",
      "/stages/0/model is \"d\", expected a model of the table");
  has(R"([{"name": "s", "model": "a", "request": 2}])",
      "/stages/0 has the unknown key \"request\"");
  has(R"([{"name": "s", "model": "a", "requests": 0}])", "/stages/0/requests is 0");
  has(R"([{"name": "s", "model": "a", "requests": 1001}])", "/stages/0/requests is 1001");
  has(R"([{"name": "s", "model": "a", "after": "s"}])", "/stages/0/after is \"s\"");
  has(R"([{"name": "s", "model": "a", "after": ["s"]}])", "/stages/0/after has \"s\"");
  has(R"([{"name": "s", "model": "a"}, {"name": "s", "model": "b"}])", "/stages/1/name is \"s\"");
  has(R"([{"name": "s", "model": "a", "name": "t"}])", "twice");
  CHECK_THROWS_AS(static_cast<void>(parse_app("{", "f", table())), error);
  CHECK_THROWS_AS(static_cast<void>(parse_app(std::string(max_app_bytes + 1, ' '), "f", table())),
                  error);
  CHECK_THROWS_AS(static_cast<void>(load_app("nowhere.json", table())), error);
}
