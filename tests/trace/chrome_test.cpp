// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <gsched/trace/chrome.hpp>
#include <gsched/trace/json_text.hpp>
#include <gsched/trace/recorder.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace gsched;
using namespace gsched::trace;
using nlohmann::json;

namespace {

time_point at(duration::rep ns) { return time_point{duration{ns}}; }

/// The rules of the format for what the writer uses: returns the events.
json check_rules(const std::string& text) {
  const json document = json::parse(text);
  std::map<std::tuple<json, json, json>, int> open; // category, id, name
  std::set<std::pair<int, int>> named;
  for (const json& e : document.at("traceEvents")) {
    CAPTURE(e.dump());
    CHECK(e.at("name").is_string());
    CHECK(e.at("pid").is_number_unsigned());
    const auto phase = e.at("ph").get<std::string>();
    if (phase == "M") {
      CHECK(e.at("args").size() == 1);
      if (e["name"] == "thread_name") named.emplace(e.at("pid"), e.at("tid"));
      continue;
    }
    CHECK(e.at("ts").is_number());
    CHECK(named.contains({e.at("pid"), e.at("tid")}));
    if (phase == "X") CHECK(e.at("dur") >= 0);
    if (phase == "C") CHECK(e.at("args").at("value").is_number());
    if (phase == "i") CHECK(e.at("s") == "t");
    if (phase == "b") CHECK(open[{e.at("cat"), e.at("id"), e["name"]}]++ == 0);
    if (phase == "e") CHECK(open[{e.at("cat"), e.at("id"), e["name"]}]-- == 1);
    CHECK(std::string("XCibe").find(phase) != std::string::npos);
  }
  for (const auto& [span, depth] : open) CHECK(depth == 0);
  return document.at("traceEvents");
}

std::string written(const recorder& r) {
  std::ostringstream out;
  r.write(out);
  return out.str();
}

} // namespace

TEST_CASE("the bytes of a small trace") {
  std::ostringstream out;
  {
    chrome_writer w(out);
    w.name_process(1, "gpu");
    w.name_thread({1, 2}, "lane \"0\"");
    w.complete({1, 2}, "segment", at(1'234'567), duration{89}, {{"job", 7}, {"", 9}, {"n", 3}});
    w.begin({1, 2}, "requests", "job", at(5), 42, {{"client", 3}});
    w.end({1, 2}, "requests", "job", at(1'000), 42, {{"end", 0, "missed"}});
    w.counter({1, 2}, "busy SMs", at(0), 0.5);
    w.instant({1, 2}, "pick", at(-1), {});
  }
  CHECK(out.str() ==
        R"({"displayTimeUnit":"ns","traceEvents":[
{"name":"process_name","ph":"M","pid":1,"args":{"name":"gpu"}},
{"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"lane \"0\""}},
{"name":"thread_sort_index","ph":"M","pid":1,"tid":2,"args":{"sort_index":2}},
{"name":"segment","ph":"X","pid":1,"tid":2,"ts":1234.567,"dur":0.089,"args":{"job":7,"n":3}},
{"name":"job","ph":"b","cat":"requests","id":"1.42","pid":1,"tid":2,"ts":0.005,"args":{"client":3}},
{"name":"job","ph":"e","cat":"requests","id":"1.42","pid":1,"tid":2,"ts":1.000,"args":{"end":"missed"}},
{"name":"busy SMs","ph":"C","pid":1,"tid":2,"ts":0.000,"args":{"value":0.5}},
{"name":"pick","ph":"i","pid":1,"tid":2,"ts":-0.001,"s":"t"}
],"otherData":{"dropped":"0"}}
)");
  check_rules(out.str());
}

TEST_CASE("an empty trace is a document") {
  std::ostringstream out;
  { chrome_writer w(out); }
  CHECK(check_rules(out.str()).empty());
  CHECK(check_rules(written(recorder(0))).empty());
}

TEST_CASE("any bytes in a name give JSON that parses") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string name;
    for (auto n = random() % 12; n > 0; --n) name += static_cast<char>(random() % 256);
    std::ostringstream out;
    put_text(out, name);
    CAPTURE(out.str());
    CHECK(json::accept(out.str()));
  }
}

TEST_CASE("text that is UTF-8 survives, and only that") {
  const auto round_trip = [](const std::string& s) {
    std::ostringstream out;
    put_text(out, s);
    return json::parse(out.str()).get<std::string>();
  };
  for (const char* same : {"", "a\"b\\c\n\t\x01", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    CHECK(round_trip(same) == same);
  CHECK(round_trip("a\xff") == "a?");
  CHECK(round_trip("\xc0\xaf") == "??");      // overlong
  CHECK(round_trip("\xed\xa0\x80") == "???"); // a surrogate
  CHECK(round_trip("\xe2\x82") == "??");      // cut short
  CHECK(round_trip("\xf4\x90\x80\x80") == "????");
}

TEST_CASE("times keep every nanosecond and numbers their value") {
  const auto us = [](duration::rep ns) {
    std::ostringstream out;
    put_us(out, duration{ns});
    return out.str();
  };
  CHECK(us(0) == "0.000");
  CHECK(us(999) == "0.999");
  CHECK(us(-1500) == "-1.500");
  CHECK(us(std::numeric_limits<duration::rep>::max()) == "9223372036854775.807");
  CHECK(us(std::numeric_limits<duration::rep>::min()) == "-9223372036854775.808");
  for (const double v : {0.0, 0.1, 1e300, -2.5, 1.0 / 3}) {
    std::ostringstream out;
    put_number(out, v);
    CHECK(json::parse(out.str()).get<double>() == v);
  }
  std::ostringstream out;
  put_number(out, std::numeric_limits<double>::infinity());
  CHECK(out.str() == "0");
}

TEST_CASE("every recorded event is written") {
  recorder r(100);
  const track_id gpu = r.add_track("device", "lane 0");
  const track_id host = r.add_track("scheduler", "policy");
  const track_id second = r.add_track("device", "lane 1");
  const label_id segment = r.add_label("segment", "job", "operations");
  const label_id pick = r.add_label("pick", "job");
  const label_id job = r.add_label("job", "client", "deadline_us");
  const label_id missed = r.add_label("missed");
  const label_id busy = r.add_label("busy SMs");
  r.begin(host, job, at(0), 1, 6, 5000);
  r.instant(host, pick, at(500), 1, 99);
  r.complete(gpu, segment, at(1'000), duration{2'500}, 1, 8);
  r.complete(second, segment, at(2'000), duration{0}, 2, 1);
  r.counter(gpu, busy, at(1'000), 130.0);
  r.end(host, job, at(4'000), 1, missed);
  const std::string text = written(r);
  CHECK(text == written(r));
  const json events = check_rules(text);
  const auto n = events.size();
  CHECK(n == 2 + 2 * 3 + 6);
  CHECK(events[n - 6]["ph"] == "b");
  CHECK(events[n - 6]["args"] == json{{"client", 6}, {"deadline_us", 5000}});
  CHECK(events[n - 5]["args"] == json{{"job", 1}});
  CHECK(events[n - 4]["args"] == json{{"job", 1}, {"operations", 8}});
  CHECK(events[n - 4]["dur"] == 2.5);
  CHECK(events[n - 4]["pid"] == events[n - 3]["pid"]);
  CHECK(events[n - 4]["tid"] != events[n - 3]["tid"]);
  CHECK(events[n - 4]["pid"] != events[n - 5]["pid"]);
  CHECK(events[n - 2]["args"]["value"] == 130.0);
  CHECK(events[n - 1]["ts"] == 4.0);
  CHECK(events[n - 1]["args"] == json{{"end", "missed"}});
}

TEST_CASE("a full recorder keeps the first, counts the rest and stays balanced") {
  recorder r(4);
  const track_id t = r.add_track("p", "t");
  const label_id job = r.add_label("job");
  r.begin(t, job, at(0), 1);
  r.begin(t, job, at(10), 2);
  r.end(t, job, at(20), 1);
  r.complete(t, r.add_label("work"), at(20), duration{30});
  CHECK(r.dropped() == 0);
  r.end(t, job, at(100), 2); // dropped: the writer ends the span
  r.instant(t, job, at(110));
  CHECK(r.size() == 4);
  CHECK(r.dropped() == 2);
  const std::string text = written(r);
  const json events = check_rules(text);
  CHECK(events.back()["ph"] == "e");
  CHECK(events.back()["id"] == "1.2");
  CHECK(events.back()["ts"] == 0.05);
  CHECK(json::parse(text)["otherData"]["dropped"] == "2");
}

TEST_CASE("an end without a beginning and a second beginning are left out") {
  recorder r(8);
  const track_id t = r.add_track("p", "t");
  const label_id job = r.add_label("job");
  r.end(t, job, at(5), 1);
  r.begin(t, job, at(6), 1);
  r.begin(t, job, at(7), 1);
  r.end(t, job, at(8), 1);
  r.end(t, job, at(9), 1);
  CHECK(check_rules(written(r)).size() == 1 + 2 + 2);
}

TEST_CASE("recording does not allocate, full or not") {
  recorder r(1000);
  const track_id t = r.add_track("p", "t");
  const label_id l = r.add_label("l", "a", "b");
  const std::size_t before = gsched::testing::allocations();
  for (int i = 0; i < 500; ++i) {
    r.begin(t, l, at(i), 1);
    r.complete(t, l, at(i), duration{1}, 1, 2);
    r.counter(t, l, at(i), 0.5);
    r.instant(t, l, at(i), 3);
    r.end(t, l, at(i), 1);
  }
  CHECK(gsched::testing::allocations() == before);
  CHECK(r.size() == 1000);
  CHECK(r.dropped() == 1500);
}

namespace {

/// Two runs: one of few slices, one of many.
void fill(recorder& r, int few, int many, int spans) {
  const label_id job = r.add_label("job", "client");
  const label_id work = r.add_label("work", "job");
  const label_id done = r.add_label("finished");
  for (const auto& [name, slices] : {std::pair("few", few), std::pair("many", many)}) {
    const track_id requests = r.add_track(name, "requests");
    const track_id lane = r.add_track(name, "lane 0");
    r.counter(requests, work, at(0), 1);
    for (int i = 0; i < spans; ++i) {
      r.begin(requests, job, at(1'000 * i), static_cast<std::uint64_t>(i), 3);
      r.end(requests, job, at(1'000 * i + 700), static_cast<std::uint64_t>(i), done);
    }
    for (int i = 0; i < slices; ++i) r.complete(lane, work, at(100 * i), duration{50}, 7);
  }
}

std::size_t events_of(const json& events, int process, const char* phase) {
  return static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [&](const json& e) {
    return e["pid"] == process && e["ph"] == phase;
  }));
}

} // namespace

TEST_CASE("a limit on the size cuts slices first, and those of the longest run") {
  recorder r(5'000);
  fill(r, 20, 900, 100);
  std::ostringstream whole;
  CHECK(r.write(whole).empty());
  CHECK(r.write(whole, whole.str().size() + 1'000).empty()); // room for the marks of two cuts
  for (const std::size_t bytes : {60'000u, 70'000u, 100'000u}) {
    CAPTURE(bytes);
    std::ostringstream out;
    const auto cut = r.write(out, bytes);
    CHECK(out.str().size() <= bytes);
    CHECK(out.str().size() > bytes - 500);
    const json events = check_rules(out.str());
    CHECK(events_of(events, 1, "b") == 100);
    CHECK(events_of(events, 2, "b") == 100);
    CHECK(events_of(events, 1, "X") == 20);
    REQUIRE(cut.size() == 1);
    CHECK(cut[0].name == "many");
    CHECK(cut[0].slices == 900);
    CHECK(cut[0].spans == 0);
    CHECK(cut[0].written == events_of(events, 2, "X"));
    CHECK(events_of(events, 2, "i") == 1); // says where slices end
    json last;                             // the earliest slices are kept
    for (const json& e : events)
      if (e["ph"] == "X" && e["pid"] == 2) last = e;
    CHECK(last["ts"] == 0.1 * static_cast<double>(cut[0].written - 1));
  }
}

TEST_CASE("a smaller limit leaves out spans, and the document stays balanced") {
  recorder r(5'000);
  fill(r, 20, 900, 100);
  std::ostringstream out;
  const auto cut = r.write(out, 20'000);
  CHECK(out.str().size() <= 20'000);
  const json events = check_rules(out.str());
  CHECK(events_of(events, 1, "X") + events_of(events, 2, "X") == 0);
  REQUIRE(cut.size() == 2);
  for (int p : {1, 2}) {
    CHECK(events_of(events, p, "b") > 20);
    CHECK(events_of(events, p, "b") == 100 - cut[static_cast<std::size_t>(p - 1)].spans);
    CHECK(events_of(events, p, "C") == 1);
  }
}
