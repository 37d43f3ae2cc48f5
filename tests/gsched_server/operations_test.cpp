// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/activity.hpp"
#include "gsched_server/operations/load_report.hpp"
#include "gsched_server/operations/metrics.hpp"
#include "gsched_server/operations/recent_times.hpp"
#include "gsched_server/operations/request_id.hpp"
#include "gsched_server/operations/request_log.hpp"
#include "gsched_server/operations/request_metrics.hpp"

#include <gsched/core/time.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gsched_server;
using namespace std::chrono_literals;

TEST_CASE("recent times: percentiles of the last ten seconds") {
  recent_times t;
  CHECK(t.at(100).count == 0);
  CHECK(t.at(100).p99 == 0ns);
  for (int i = 1; i <= 1000; ++i) t.record(std::chrono::microseconds(i), 100);
  CHECK(t.at(100).count == 1000);
  CHECK(gsched::to_us(t.at(100).p50) == doctest::Approx(500).epsilon(0.07));
  CHECK(gsched::to_us(t.at(109).p99) == doctest::Approx(990).epsilon(0.07));
  t.record(7s, 105);
  t.record(10min, 105); // counts as a minute
  CHECK(t.at(109).count == 1002);
  CHECK(t.at(110).count == 2); // the first ones are over
  CHECK(gsched::to_s(t.at(110).p50) == doctest::Approx(7).epsilon(0.07));
  CHECK(gsched::to_s(t.at(110).p99) == doctest::Approx(65).epsilon(0.07));
  t.record(3us, 110); // in the place of those of 100
  CHECK(t.at(110).count == 3);
  CHECK(t.at(200).count == 0);
  t.record(-5us, 200);
  CHECK(t.at(200).count == 1);
}

TEST_CASE("request ids: what can stand in a header") {
  CHECK(is_request_id("a-7/B"));
  CHECK(!is_request_id(""));
  CHECK(!is_request_id("a b"));
  CHECK(!is_request_id("a\r\nx: y"));
  CHECK(!is_request_id("\xc3\xa4"));
  CHECK(is_request_id(std::string(128, 'x')));
  CHECK(!is_request_id(std::string(129, 'x')));
  std::set<std::string> all;
  for (int i = 0; i < 1000; ++i) all.insert(make_request_id());
  CHECK(all.size() == 1000);
  CHECK(all.begin()->size() == 16);
}

TEST_CASE("request metrics: pairs of model and tenant are bounded") {
  request_metrics m;
  const answer ok{.what = outcome::ok, .latency = 3ms};
  for (int i = 0; i < 1000; ++i) {
    m.ended("model" + std::to_string(i), "a", ok);
    m.ended("model" + std::to_string(i), "b",
            {.what = outcome::exhausted, .reason = refused_for::tenant_rate});
  }
  CHECK(m.rows().size() == request_metrics::most_series);
  CHECK(m.count().all == 2000);
  CHECK(m.count().failed == 1000);
  std::uint64_t counted = 0, others = 0;
  for (const request_metrics::row& r : m.rows()) {
    for (const std::uint64_t n : r.by_end) counted += n;
    if (r.model == "other" && r.tenant == "other") others = r.by_end[0];
  }
  CHECK(counted == 2000);
  CHECK(others == 1000 - 128); // of 255 pairs of their own, every second one is of tenant a
  m.ended("model0", "a", ok);  // one that is known has its own
  CHECK(m.rows().front().by_end[0] == 2);
  for (const auto& [reason, n] : m.refused()) CHECK(n == (reason == "tenant_rate" ? 1000 : 0));
}

TEST_CASE("load report: rates of the last second") {
  load_meter::sample now{.now = {.active = 3, .most = 10, .queued = 500ms}, .ended = {10, 2}};
  int asked = 0;
  load_meter meter([&] { return ++asked, now; });
  CHECK(meter.latest()->report.rps == doctest::Approx(10));
  CHECK(meter.latest()->report.eps == doctest::Approx(2));
  CHECK(meter.latest()->report.queued_s == doctest::Approx(0.5));
  CHECK(asked == 1); // within a tenth of a second
  std::this_thread::sleep_for(110ms);
  now.ended = {1'000'000, 2};
  now.busy_s = 1e6;
  const load_report r = meter.latest()->report;
  CHECK(asked == 2);
  CHECK(r.rps > 1e4);
  CHECK(r.gpu == 1);
  CHECK(r.application == doctest::Approx(1.5));
  CHECK(r.active == 3);
  CHECK(r.in_format("Json").starts_with("JSON {"));
  CHECK(nlohmann::json::parse(r.json().substr(5))["utilization"]["gpu"] == 1);
  CHECK(r.in_format("TEXT").starts_with("TEXT cpu_utilization="));
  CHECK(r.in_format("bin").empty());
}

TEST_CASE("log: a line is JSON for any text of a client") {
  log_entry e;
  e.model = "a\"b";
  e.tenant = "\xff\n";
  e.end = {.what = outcome::late,
           .reason = refused_for::deadline,
           .line = "too\nlate",
           .waited = 1500ns,
           .latency = 2ms,
           .missed_deadline = true,
           .id = "x"};
  const std::string line = to_line(e);
  CHECK(line.find('\n') == line.size() - 1);
  const nlohmann::json j = nlohmann::json::parse(line);
  CHECK(j["model"] == "a\"b");
  CHECK(j["tenant"] == "?\n");
  CHECK(j["error"] == "too\nlate");
  CHECK(j["wait_us"] == 1.5);
  CHECK(j["latency_us"] == 2000);
  CHECK(j["level"] == "warning");
  CHECK(j["reason"] == "deadline");
}

TEST_CASE("log: what nothing reads is dropped and counted, and stops no thread") {
  const std::string fifo = "/tmp/gsched_log_test." + std::to_string(::getpid());
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto began = std::chrono::steady_clock::now();
  double written = 0, dropped = 0;
  {
    request_log log(fifo);
    // The writer may hold as many lines as wait; the rest is dropped.
    for (std::size_t i = 0; i < 4 * request_log::most_waiting; ++i) {
      log_entry e;
      e.model = std::string(100, 'm');
      log.add(std::move(e));
    }
    metrics_text text;
    log.write(text);
    const auto value = [&](const char* name) {
      return std::stod(text.text().substr(text.text().find(std::string("\n") + name + " ") +
                                          std::strlen(name) + 2));
    };
    written = value("gsched_log_lines_total");
    dropped = value("gsched_log_lines_dropped_total");
  }
  CHECK(std::chrono::steady_clock::now() - began < 15s); // it gives up after a second
  CHECK(written < 1000);
  CHECK(dropped >= 1000);
  ::close(reader);
  ::unlink(fifo.c_str());
}

TEST_CASE("activity: the last events, oldest first") {
  activity none(0);
  none.preempting(1);
  CHECK(none.last(10).empty());
  activity a(5);
  CHECK(a.capacity() == 8);
  for (std::int64_t i = 0; i < 6; ++i) a.preempting(i);
  REQUIRE(a.last(100).size() == 6);
  CHECK(a.last(2)[0].at_ns == 4);
  for (std::int64_t i = 6; i < 100; ++i) a.preempting(i);
  const std::vector<activity_event> all = a.last(100);
  REQUIRE(all.size() == 7); // the place that is written next is never read
  CHECK(all.front().at_ns == 93);
  CHECK(all.back().at_ns == 99);
}

TEST_CASE("activity: what is read while it is written is whole") {
  struct request final : gsched::request_record {
    request() : request_record(nullptr) {}
  } r;
  activity a(256);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop; ++i) {
      r.id = gsched::job_id{i};
      r.model = static_cast<std::uint32_t>(i & 0x1fff);
      r.client = static_cast<std::uint32_t>(i & 0xfffff);
      a.segment_ended(r, gsched::segment_id{i}, static_cast<std::int64_t>(i));
    }
  });
  std::uint64_t seen = 0;
  bool whole = true, ordered = true;
  for (int tries = 0; tries < 20'000 || seen == 0; ++tries) {
    std::uint64_t before = 0;
    for (const activity_event& e : a.last(256)) {
      ++seen;
      ordered &= e.request == before + 1 || before == 0;
      before = e.request;
      whole &= e.at_ns == static_cast<std::int64_t>(e.request) && e.segment == e.request &&
               e.model == (e.request & 0x1fff) && e.client == (e.request & 0xfffff) &&
               e.what == activity_event::kind::segment_ended;
    }
  }
  stop = true;
  writer.join();
  CHECK(whole);
  CHECK(ordered);
}
