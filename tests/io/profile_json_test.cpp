// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/profile_json.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace gsched;
using nlohmann::json;

namespace {

const fs::path profiles = fs::path(GSCHED_SOURCE_DIR) / "tools/data/profiles";

json valid_profile() {
  return json::parse(R"({
    "model": "m", "batch": 2, "dtype": "float32", "device": "d", "sm_count": 132,
    "input_bytes": 10, "output_bytes": 20, "graph_replay_us": 5.5,
    "graph_replay_us_by_sms": {"16": 12.25, "8": 20, "132": 5.5}, "operations": [
      {"after": [], "kind": "kernel", "symbol": "_Z1av", "name": "a", "grid": [4, 2, 1],
       "block": [128, 1, 1], "registers_per_thread": 32, "static_shared_bytes": 16,
       "dynamic_shared_bytes": 1024, "local_bytes": 8, "cluster_blocks": 1,
       "max_blocks_per_sm": 16, "duration_us": 2.367,
       "duration_us_by_sms": {"8": 9.344, "16": 5.472, "64": 2.08}},
      {"after": [0], "kind": "memset", "bytes": 4, "duration_us": 0.8, "name": "s"},
      {"after": [0, 1], "kind": "memcpy", "direction": "d2h", "bytes": 20, "duration_us": 1}
    ]})");
}

std::string written_profile(const profile& p) {
  std::ostringstream out;
  write_profile(out, p);
  return out.str();
}

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The refusal's line, and its code in `code`; empty when the text was accepted.
std::string profile_refusal(const std::string& text, errc expected = errc::bad_profile) {
  try {
    static_cast<void>(parse_profile(text, "f.json"));
  } catch (const error& e) {
    CHECK(e.code() == expected);
    return e.what();
  }
  return {};
}

/// With one field replaced, by JSON pointer.
json with(const std::string& pointer, json value) {
  json d = valid_profile();
  d[json::json_pointer(pointer)] = std::move(value);
  return d;
}

json without(const std::string& pointer) {
  json d = valid_profile();
  const json::json_pointer at(pointer);
  d[at.parent_pointer()].erase(at.back());
  return d;
}

void check_named(const std::string& line, const std::string& where, const std::string& what) {
  CAPTURE(line);
  CHECK(line.starts_with("f.json: " + where + " "));
  CHECK(line.find(what) != std::string::npos);
  CHECK(line.find(", expected ") != std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
}

} // namespace

TEST_CASE("every profile that ships is read, written back byte for byte, and becomes a program") {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(profiles)) {
    CAPTURE(entry.path().string());
    const profile p = load_profile(entry.path());
    const std::string text = written_profile(p);
    CHECK(text == file_text(entry.path()));
    CHECK(parse_profile(text, "again") == p);
    CHECK(p.full_name() == entry.path().stem());
    const program g = to_program(p);
    CHECK(g.name() == p.full_name());
    CHECK(g.size() == p.operations.size());
    CHECK(g.expected() == p.total());
    ++files;
  }
  CHECK(files >= 20);
}

TEST_CASE("a profile's values reach its fields") {
  const profile p = parse_profile(valid_profile().dump(), "f.json");
  CHECK(p.full_name() == "m_b2");
  CHECK(p.sms == sm_count{132});
  CHECK(p.input == byte_count{10});
  CHECK(p.output == byte_count{20});
  CHECK(p.graph_replay == from_us(5.5));
  const std::vector<scaling_point> replays{
      {sm_count{8}, from_us(20)}, {sm_count{16}, from_us(12.25)}, {sm_count{132}, from_us(5.5)}};
  CHECK(p.graph_replay_by_sms == replays);
  CHECK(parse_profile(written_profile(p), "f.json") == p);
  const program made = to_program(p); // all SMs are there once
  CHECK(std::vector(made.replays().begin(), made.replays().end()) == replays);
  REQUIRE(p.operations.size() == 3);
  const operation& k = p.operations[0].work;
  CHECK(k.kind == operation_kind::kernel);
  CHECK(k.launch == launch_shape{{4, 2, 1}, {128, 1, 1}, 32, 16, 1024, 1});
  CHECK(k.max_blocks_per_sm == 16);
  CHECK(k.expected == duration{2367});
  REQUIRE(k.by_sms.size() == 3);
  CHECK(k.by_sms[0] == scaling_point{sm_count{8}, duration{9344}});
  CHECK(k.by_sms[1] == scaling_point{sm_count{16}, duration{5472}});
  CHECK(k.by_sms[2] == scaling_point{sm_count{64}, duration{2080}});
  CHECK(p.operations[0].symbol == "_Z1av");
  CHECK(p.operations[0].local_bytes == 8);
  CHECK(p.operations[1].work.kind == operation_kind::memset);
  CHECK(p.operations[1].work.bytes == byte_count{4});
  CHECK(p.operations[2].work.direction == copy_direction::device_to_host);
  CHECK(p.operations[2].after == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("counters of a kernel are read, written back and refused beyond their peak") {
  const char* const at = "/operations/0/counters";
  const profile none = parse_profile(valid_profile().dump(), "f.json");
  CHECK(!none.operations[0].counters);

  const json needed{{"us", 0.1}, {"ipc", 0}, {"l2_hit_rate", 0}};
  const profile least = parse_profile(with(at, needed).dump(), "f.json");
  CHECK(least.operations[0].counters == kernel_counters{.us = 0.1});
  CHECK(!(least == none));
  CHECK(parse_profile(written_profile(least), "again") == least);
  for (const char* const name : {"us", "ipc", "l2_hit_rate"}) {
    json counters = needed;
    counters.erase(name);
    check_named(profile_refusal(with(at, counters).dump()), std::string(at) + "/" + name,
                "is missing");
  }

  const json full{{"us", 12.345},
                  {"sm_active", 0.9},
                  {"warps_active", 0.5},
                  {"ipc", 3.99},
                  {"pipes",
                   {{"alu", 0.1},
                    {"fma", 0.2},
                    {"fp16", 0.3},
                    {"fp64", 0.4},
                    {"tensor", 0.5},
                    {"xu", 0.6},
                    {"lsu", 1}}},
                  {"shared_memory", 0.7},
                  {"l1", 0.8},
                  {"l2", 0.25},
                  {"l2_hit_rate", 1},
                  {"dram", 0.75},
                  {"l2_bytes", 1e9},
                  {"dram_bytes", 3e12},
                  {"working_set_bytes", 6e7},
                  {"common_work", 0.375},
                  {"waits",
                   {{"memory", 0.3},
                    {"load_cycles", 612.5},
                    {"shared_memory", 0.2},
                    {"shared_cycles", 33},
                    {"instructions", 0.05},
                    {"executing", 0.25},
                    {"blocked", 0.125}}}};
  const profile p = parse_profile(with(at, full).dump(), "f.json");
  const kernel_counters expected{
      12.345, 0.9,  0.5, 3.99,  {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1},       0.7, 0.8, 0.25, 1, 0.75,
      1e9,    3e12, 6e7, 0.375, {0.3, 612.5, 0.2, 33, 0.05, 0.25, 0.125}};
  CHECK(p.operations[0].counters == expected);
  CHECK(parse_profile(written_profile(p), "again") == p);
  CHECK(json::parse(written_profile(p))["operations"][0]["counters"] == full);

  json spread = json::parse(with(at, full).dump());
  spread["operations"][0]["counters_spread"] = full;
  const profile both = parse_profile(spread.dump(), "f.json");
  CHECK(both.operations[0].counters_spread == expected);
  CHECK(both != p);
  CHECK(parse_profile(written_profile(both), "again") == both);
  spread["operations"][0]["counters_spread"]["ipc"] = 5;
  check_named(profile_refusal(spread.dump()), "/operations/0/counters_spread/ipc",
              "is 5, expected a number from 0 to 4");
  spread["operations"][0].erase("counters");
  check_named(profile_refusal(spread.dump()), at, "is missing, expected counters of a kernel");

  for (const auto& [name, value] : full.items()) {
    if (value.is_object()) continue;
    const std::string place = std::string(at) + "/" + name;
    for (const json& wrong : {json(-0.01), json(1e19), json("1"), json(nullptr)}) {
      json counters = full;
      counters[name] = wrong;
      check_named(profile_refusal(with(at, counters).dump()), place, "a number from 0 to ");
    }
  }
  const auto refusal_with = [&](const char* name, const json& value) {
    json counters = needed;
    counters[name] = value;
    return profile_refusal(with(at, counters).dump());
  };
  check_named(refusal_with("dram", 1.001), std::string(at) + "/dram", "is 1.001");
  check_named(refusal_with("pipes", {{"fp64", 1.5}}), std::string(at) + "/pipes/fp64", "is 1.5");
  check_named(refusal_with("waits", {{"blocked", 1.5}}), std::string(at) + "/waits/blocked",
              "is 1.5");
  check_named(refusal_with("pipes", 3), std::string(at) + "/pipes", "is 3");
  check_named(profile_refusal(with(at, json::array({1})).dump()), at, "is an array");
}

TEST_CASE("counters are of each kernel or of none") {
  json d = valid_profile(); // a kernel, a memset and a copy
  d["operations"].push_back(d["operations"][0]);
  d["operations"][3]["counters"] = {{"us", 1}, {"ipc", 1}, {"l2_hit_rate", 0.5}};
  CHECK(profile_refusal(d.dump()) == "f.json: /operations/0/counters is missing, expected counters "
                                     "of each kernel, or of none");
  d["operations"][0]["counters"] = d["operations"][3]["counters"];
  CHECK(parse_profile(d.dump(), "f.json").operations[3].counters);
}

TEST_CASE("kernels are distinguished by symbol and launch") {
  json d = valid_profile();
  json same = d["operations"][0];
  json other_grid = same;
  other_grid["grid"][0] = 8;
  json other_symbol = same;
  other_symbol["symbol"] = "_Z1bv";
  for (const json& op : {same, other_grid, other_symbol}) d["operations"].push_back(op);
  const program g = to_program(parse_profile(d.dump(), "f.json"));
  const auto ops = g.operations();
  CHECK(ops[0].kernel == kernel_id{0});
  CHECK(ops[1].kernel == no_kernel);
  CHECK(ops[3].kernel == kernel_id{0});
  CHECK(ops[4].kernel == kernel_id{1});
  CHECK(ops[5].kernel == kernel_id{2});
  CHECK(g.kernel_count() == 3);
}

TEST_CASE("extra fields of any type are skipped") {
  json d = valid_profile();
  const profile p = parse_profile(d.dump(), "f.json");
  d["extra"] = {{"deep", {{"a", {1, 2, {{"b", nullptr}}}}}}, {"operations", 3}};
  d["operations"][0]["extra"] = json::array({1, json::object({{"kind", "no"}})});
  d["operations"][1]["zzz"] = -1;
  CHECK(parse_profile(d.dump(), "f.json") == p);
}

TEST_CASE("a missing field is named") {
  for (const char* at : {"/model",
                         "/batch",
                         "/dtype",
                         "/device",
                         "/sm_count",
                         "/input_bytes",
                         "/output_bytes",
                         "/operations",
                         "/operations/0/after",
                         "/operations/0/kind",
                         "/operations/0/symbol",
                         "/operations/0/grid",
                         "/operations/0/block",
                         "/operations/0/registers_per_thread",
                         "/operations/0/static_shared_bytes",
                         "/operations/0/dynamic_shared_bytes",
                         "/operations/0/local_bytes",
                         "/operations/0/cluster_blocks",
                         "/operations/0/max_blocks_per_sm",
                         "/operations/0/duration_us",
                         "/operations/1/bytes",
                         "/operations/2/direction",
                         "/operations/2/bytes"})
    check_named(profile_refusal(without(at).dump()), at, "is missing");
}

TEST_CASE("a negative, too large or mistyped value is named with its place") {
  struct bad {
    const char* where;
    json value;
  };
  const std::vector<bad> all{
      {"/batch", 0},
      {"/batch", -1},
      {"/batch", 2.5},
      {"/batch", "2"},
      {"/batch", nullptr},
      {"/sm_count", 0},
      {"/sm_count", 1e9},
      {"/model", ""},
      {"/model", 7},
      {"/model", "a\nb"},
      {"/input_bytes", -5},
      {"/output_bytes", 1ull << 60},
      {"/graph_replay_us", 0},
      {"/graph_replay_us", -1.5},
      {"/graph_replay_us", "fast"},
      {"/durations_measured", 1},
      {"/operations", json::array()},
      {"/operations", json::object()},
      {"/operations/1", 3},
      {"/operations/0/after", 0},
      {"/operations/0/kind", "kernal"},
      {"/operations/0/kind", 1},
      {"/operations/0/grid", {1, 1}},
      {"/operations/0/grid/0", 0},
      {"/operations/0/grid/1", 65536},
      {"/operations/0/grid/2", -1},
      {"/operations/0/grid", "1x1x1"},
      {"/operations/0/block/0", 0},
      {"/operations/0/block/0", 1025},
      {"/operations/0/block/2", 65},
      {"/operations/0/registers_per_thread", 256},
      {"/operations/0/registers_per_thread", -1},
      {"/operations/0/static_shared_bytes", 1ull << 40},
      {"/operations/0/dynamic_shared_bytes", -1},
      {"/operations/0/local_bytes", 1ull << 40},
      {"/operations/0/cluster_blocks", 0},
      {"/operations/0/max_blocks_per_sm", -2},
      {"/operations/0/duration_us", -0.001},
      {"/operations/0/duration_us", 1e300},
      {"/operations/0/duration_us", nullptr},
      {"/operations/1/bytes", -4},
      {"/operations/1/bytes", 18446744073709551615ull},
      {"/operations/2/direction", "up"},
      {"/graph_replay_us_by_sms", {1, 2}},
      {"/graph_replay_us_by_sms", {{"133", 1.0}}},
      {"/graph_replay_us_by_sms", {{"8", 0.0}}},
      {"/operations/0/duration_us_by_sms", {1, 2}},
      {"/operations/0/duration_us_by_sms", {{"0", 1.0}}},
      {"/operations/0/duration_us_by_sms", {{"133", 1.0}}},
      {"/operations/0/duration_us_by_sms", {{"eight", 1.0}}},
      {"/operations/0/duration_us_by_sms", {{"08", 1.0}}},
      {"/operations/0/duration_us_by_sms", {{"", 1.0}}},
      {"/operations/0/duration_us_by_sms", {{"8", 0.0}}},
      {"/operations/0/duration_us_by_sms", {{"8", "1"}}},
      {"/operations/0/duration_us_by_sms",
       {{"1", 1}, {"2", 1}, {"3", 1}, {"4", 1}, {"5", 1}, {"6", 1}, {"7", 1}, {"8", 1}, {"9", 1}}},
  };
  for (const bad& b : all) {
    CAPTURE(b.value.dump());
    check_named(profile_refusal(with(b.where, b.value).dump()), b.where, "");
  }
}

TEST_CASE("times of a graph on fewer SMs need that on all") {
  json p = valid_profile();
  p.erase("graph_replay_us");
  CHECK(profile_refusal(p.dump()) == "f.json: /graph_replay_us is missing, expected it beside "
                                     "graph_replay_us_by_sms");
  p.erase("graph_replay_us_by_sms");
  CHECK(to_program(parse_profile(p.dump(), "f.json")).replays().empty());
}

TEST_CASE("numbers that are not JSON are refused") {
  std::string text = valid_profile().dump();
  const auto replaced = [&](const std::string& by) {
    std::string t = text;
    return t.replace(t.find("2.367"), 5, by);
  };
  for (const char* by : {"NaN", "Infinity", "-Infinity", "1e999", "0x10", "1."}) {
    CAPTURE(by);
    const std::string line = profile_refusal(replaced(by));
    CAPTURE(line);
    CHECK(line.starts_with("f.json: "));
    CHECK(line.find(", expected ") != std::string::npos);
  }
  CHECK(profile_refusal(replaced("1e-320")).empty()); // less than half a nanosecond: not known
}

TEST_CASE("operations wait only for earlier ones") {
  const char* at = "/operations/1/after/0";
  check_named(profile_refusal(with(at, 1).dump(), errc::dependency_cycle), at, "itself");
  check_named(profile_refusal(with(at, 2).dump(), errc::dependency_cycle), at, "later");
  check_named(profile_refusal(with(at, 3).dump()), at, "is 3, expected a whole number, 0 to 2");
  check_named(profile_refusal(with(at, -1).dump()), at, "is -1");
  check_named(profile_refusal(with(at, 4294967296).dump()), at, "is 4294967296");
  json cycle = with("/operations/0/after", {2}); // 0 -> 2 -> 1 -> 0
  check_named(profile_refusal(cycle.dump(), errc::dependency_cycle), "/operations/0/after/0",
              "later");

  profile p = parse_profile(valid_profile().dump(), "f.json"); // as built by a program, not read
  p.operations[1].after = {1};
  CHECK_THROWS_WITH_AS(static_cast<void>(to_program(p)),
                       "m_b2: operation 1 waits for itself, expected earlier ones", error);
  p.operations[1].after = {2};
  CHECK_THROWS_AS(static_cast<void>(to_program(p)), error);
  p.operations[1].after = {9};
  CHECK_THROWS_AS(static_cast<void>(to_program(p)), error);
}

TEST_CASE("text that is not JSON is refused with its position") {
  CHECK(profile_refusal("") == "f.json: empty, expected a JSON object");
  CHECK(profile_refusal(" \n\t ") == "f.json: empty, expected a JSON object");
  CHECK(profile_refusal("[1, 2]") == "f.json: the document is an array, expected an object");
  CHECK(profile_refusal("{\n  \"model\": oops}") ==
        "f.json: line 2, column 12 is not JSON, expected a JSON object");
  CHECK(profile_refusal("\x7f"
                        "ELF") == "f.json: line 1, column 1 is not JSON, expected a JSON object");
  CHECK(profile_refusal(valid_profile().dump() + "}").find("is not JSON") != std::string::npos);
  std::string control = valid_profile().dump();
  control.insert(control.find("float32"), "\n");
  CHECK(profile_refusal(control).find("is not JSON") != std::string::npos);
}

TEST_CASE("a truncated file is refused in one line") {
  const std::string text = file_text(profiles / "lenet_b1.json");
  const std::size_t whole = text.find_last_of('}') + 1;
  for (std::size_t cut = 1; cut < whole; cut += 7) {
    const std::string line = profile_refusal(text.substr(0, cut));
    CHECK(line.starts_with("f.json: ends too early"));
    CHECK(line.find('\n') == std::string::npos);
  }
}

TEST_CASE("deep nesting is refused before it can exhaust a stack") {
  const std::string open(1'000'000, '[');
  CHECK(profile_refusal(open).find("nested deeper") != std::string::npos);
  std::string text = valid_profile().dump();
  text.insert(1, "\"extra\":" + open + std::string(open.size(), ']') + ",");
  CHECK(profile_refusal(text).find("nested deeper") != std::string::npos);
}

TEST_CASE("huge and unreadable files are refused") {
  struct endless : std::streambuf { // never says that it ends
    std::size_t given = 0;
    std::string block = std::string(65536, ' ');
    int_type underflow() override {
      given += block.size();
      setg(block.data(), block.data(), block.data() + block.size());
      return ' ';
    }
  } source;
  std::istream in(&source);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_profile(in, "f.json")),
                       "f.json: too large, expected at most 64 MiB", error);
  CHECK(source.given < max_profile_bytes + (1u << 20));
  CHECK_THROWS_WITH_AS(static_cast<void>(load_profile(fs::path("/no/such.json"))),
                       "/no/such.json: cannot be opened, expected a profile's file", error);
  CHECK_THROWS_AS(static_cast<void>(load_profile(profiles)), error);
}

TEST_CASE("a kernel that fits on no SM is named by the check that a device brings") {
  const profile p = parse_profile(valid_profile().dump(), "f.json");
  const auto up_to = [](std::uint32_t shared) {
    return [shared](const launch_shape& l) {
      return l.static_shared_bytes + l.dynamic_shared_bytes <= shared ? 1u : 0u;
    };
  };
  CHECK_NOTHROW(check_fits(p, up_to(1040)));
  try {
    check_fits(p, up_to(1039));
    FAIL("a kernel that fits nowhere was accepted");
  } catch (const error& e) {
    CHECK(e.code() == errc::does_not_fit);
    CHECK(std::string(e.what()).starts_with("m_b2: operation 0: a block of 128 threads"));
  }
}

TEST_CASE("a file whose kernels fit on an SM is read, another one is named") {
  const fs::path file = profiles / "lenet_b1.json";
  architecture_limits sm = limits_for(9, 0);
  CHECK(written_profile(load_profile(file, sm)) == written_profile(load_profile(file)));
  sm.max_threads_per_block = 32;
  std::string line;
  try {
    static_cast<void>(load_profile(file, sm));
  } catch (const error& e) {
    CHECK(e.code() == errc::does_not_fit);
    line = e.what();
  }
  CHECK_MESSAGE(line.find(file.string()) != std::string::npos, line);
}

TEST_CASE("text is escaped when it is written") {
  profile p = parse_profile(valid_profile().dump(), "f.json");
  p.operations[0].name = "a \"quoted\" \\ \xc3\xbc";
  CHECK(parse_profile(written_profile(p), "again") == p);
  p.operations[0].name = "broken \xff utf-8";
  CHECK_NOTHROW(static_cast<void>(parse_profile(written_profile(p), "again")));
}

TEST_CASE("an operation that a profile cannot hold is not written") {
  profile p = parse_profile(valid_profile().dump(), "f.json");
  p.operations[2].work.direction = copy_direction::host_to_host;
  CHECK_THROWS_AS(static_cast<void>(written_profile(p)), error);
  p.operations[2].work.kind = operation_kind::event_wait;
  CHECK_THROWS_AS(static_cast<void>(written_profile(p)), error);
  CHECK_THROWS_AS(write_profile(fs::path("/no/such/dir/f.json"),
                                parse_profile(valid_profile().dump(), "f.json")),
                  error);
}
