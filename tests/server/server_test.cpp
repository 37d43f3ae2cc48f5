// SPDX-License-Identifier: Apache-2.0
#include <gsched/server.hpp>

#include <gsched/core/error.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/srpt.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

namespace {

[[nodiscard]] program kernels(const char* name, std::size_t count, duration each) {
  operation k;
  k.launch.grid = {264, 1, 1};
  k.launch.block = {256, 1, 1};
  k.launch.registers_per_thread = 32;
  k.expected = each;
  k.kernel = kernel_id{0};
  return program(name, std::vector<operation>(count, k));
}

template <class Policy = fifo>
struct served {
  explicit served(const server_options& how = {})
      : it([] { return sim::paced_device(sim::h200()); }, [] { return Policy(); }, how) {}
  server it;
  client_id owner = it.add_client();
  model_id brief = it.add_model("brief", kernels("brief", 5, 20us));
  model_id endless = it.add_model("endless", kernels("endless", 20000, 1ms));

  ticket submit(model_id m) { return it.submit({.model = m, .client = owner}); }
};

template <class F>
std::string line_of(errc code, F f) {
  try {
    f();
  } catch (const error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}

/// A coroutine that runs on its own: it starts at once, and its frame goes at its end.
struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

} // namespace

TEST_CASE("server: a ticket is waited for, and says how its request ended") {
  served s;
  ticket t = s.submit(s.brief);
  const request_result r = t.wait();
  CHECK(r.status == request_status::finished);
  CHECK(r.error.empty());
  CHECK_FALSE(r.code);
  CHECK(r.latency >= 100us);
  CHECK(r.waited <= r.latency);
  CHECK(r.segments >= 1);
  CHECK(t.was_ended());
  CHECK_FALSE(t.cancel());
  CHECK(to_string(r.status) == "finished");
}

TEST_CASE("server: requests of many threads all end, and are counted") {
  served<deficit_over<srpt>> s;
  constexpr int threads = 4, each = 50;
  std::atomic<int> finished{0}, called{0};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&] {
      const client_id mine = s.it.add_client(2.0);
      std::vector<ticket> mine_all;
      for (int n = 0; n < each; ++n)
        mine_all.push_back(s.it.submit(
            {.model = s.brief, .client = mine, .done = [&](request_record&) { ++called; }}));
      for (ticket& t : mine_all) finished += t.wait().status == request_status::finished;
    });
  for (std::thread& t : all) t.join();
  CHECK(finished == threads * each);
  s.it.close();
  CHECK(called == threads * each);
  const dispatch_statistics n = s.it.statistics().requests;
  CHECK(n.submitted == threads * each);
  CHECK(n.finished == threads * each);
  CHECK(n.active == 0);
}

TEST_CASE("server: models that a rule keeps apart take turns") {
  const std::vector<corun_limit> models{{"brief", 1.2}, {"endless"}};
  const std::vector<corun_slowdown> pairs{{"brief", "endless", 1.5}};
  server_options how;
  how.dispatch.corun = {std::make_shared<const corun_rule>(models, pairs), duration::zero()};
  served s(how);
  ticket endless = s.submit(s.endless);
  ticket brief = s.submit(s.brief);
  CHECK(brief.wait().status == request_status::finished);
  CHECK_FALSE(endless.was_ended());
  CHECK(endless.cancel());
  static_cast<void>(endless.wait());
  s.it.close();
  const neighbour_statistics n = s.it.statistics().requests.neighbours;
  CHECK(n.refused > 0);
  CHECK(n.claims > 0);
}

TEST_CASE("server: a coroutine awaits requests") {
  served s;
  std::atomic<int> done{0};
  const auto chain = [&]() -> detached {
    for (int i = 0; i < 3; ++i) {
      const request_result r = co_await s.submit(s.brief);
      CHECK(r.status == request_status::finished);
      ++done;
    }
    ticket ended = s.submit(s.brief);
    while (!ended.was_ended()) co_await ended; // at once, if it has ended
    done = 100;
  };
  chain();
  for (int i = 0; i < 20000 && done != 100; ++i) std::this_thread::sleep_for(1ms);
  CHECK(done == 100);
}

TEST_CASE("server: a request is cancelled, and waits in vain no longer than asked") {
  served s;
  ticket t = s.submit(s.endless);
  CHECK_FALSE(t.wait_for(2ms));
  CHECK(t.result().status == request_status::pending);
  CHECK(t.cancel());
  CHECK(t.cancel()); // twice is as once
  const request_result r = t.wait();
  CHECK(r.status == request_status::cancelled);
  CHECK_FALSE(r.code); // by its caller
}

TEST_CASE("server: a request starts after another, and is cancelled with it") {
  served s;
  ticket first = s.submit(s.endless);
  ticket second = s.it.submit({.model = s.brief, .client = s.owner, .after = first.get()});
  CHECK_FALSE(second.wait_for(2ms));
  first.cancel();
  const request_result r = second.wait();
  CHECK(r.status == request_status::cancelled);
  CHECK(r.error.find("cancelled") == 0);
}

TEST_CASE("server: a deadline that cannot be met is refused by a policy that says so") {
  served<edf> s;
  ticket t = s.it.submit({.model = s.endless, .client = s.owner, .deadline = 5ms});
  const request_result r = t.wait();
  CHECK(r.status == request_status::rejected);
  CHECK(r.error == "rejected: its deadline cannot be met");
}

TEST_CASE("server: watched requests are collected in the order of their ends") {
  served s;
  std::vector<ticket> all;
  for (int i = 0; i < 8; ++i) all.push_back(s.submit(s.brief));
  int watched = 0;
  for (ticket& t : all) watched += server::watch(*t.get());
  int taken = 0;
  request_record* out[3] = {};
  while (taken < watched) {
    const std::uint32_t n = s.it.collect(out, 3, 10s);
    REQUIRE(n > 0);
    for (std::uint32_t i = 0; i < n; ++i) {
      CHECK(out[i]->has_ended());
      out[i]->release();
    }
    taken += static_cast<int>(n);
  }
  CHECK(s.it.collect(out, 3, duration::zero()) == 0);
  s.it.close();
  CHECK(line_of(errc::closed, [&] { static_cast<void>(s.it.collect(out, 3)); }) ==
        "the server was closed, and all are collected");
}

TEST_CASE("server: close drains, or cancels what is left then") {
  served s;
  std::vector<ticket> brief;
  for (int i = 0; i < 20; ++i) brief.push_back(s.submit(s.brief));
  ticket endless = s.submit(s.endless);
  s.it.close(100ms);
  for (ticket& t : brief) CHECK(t.result().status == request_status::finished);
  CHECK(endless.result().status == request_status::cancelled);
  CHECK(endless.result().code == errc::closed);
  line_of(errc::closed, [&] { static_cast<void>(s.submit(s.brief)); });
  s.it.close(); // again
}

TEST_CASE("server: tickets outlive it, and end with it") {
  std::optional<ticket> t;
  {
    served s;
    t = s.submit(s.endless);
  }
  CHECK(t->wait().status == request_status::cancelled);
}

TEST_CASE("server: a model comes and goes while others are served") {
  served s;
  ticket endless = s.submit(s.endless);
  const model_id m = s.it.add_model("two", [] {
    std::vector<program> two;
    two.push_back(kernels("two", 5, 20us));
    two.push_back(kernels("two", 5, 20us));
    return two;
  }());
  CHECK(s.it.model(m).facts.instances == 2);
  CHECK(s.it.model(m).facts.operations == 5);
  std::vector<ticket> all;
  for (int i = 0; i < 10; ++i) all.push_back(s.submit(m));
  s.it.remove_model(m);
  for (ticket& t : all) CHECK(t.result().status == request_status::finished);
  CHECK(line_of(errc::unknown_name, [&] { static_cast<void>(s.submit(m)); }) == "model 2: removed");
  line_of(errc::bad_option, [&] { s.it.remove_model(m); });
  CHECK_FALSE(endless.was_ended());
  CHECK(line_of(errc::timed_out, [&] {
          s.it.remove_model(s.endless, 1ms);
        }).find("have not ended in time") != std::string::npos);
}

TEST_CASE("server: its load is what is accepted and not submitted") {
  served s;
  CHECK(s.it.was_load().active == 0);
  CHECK(s.it.was_load().queued == 0ns);
  ticket background = s.submit(s.endless); // 20 s of work
  ticket behind = s.submit(s.endless);
  for (int i = 0; i < 2000 && s.it.was_load().active < 2; ++i) std::this_thread::sleep_for(1ms);
  const server_load now = s.it.was_load();
  CHECK(now.active == 2);
  CHECK(now.waiting <= 2);
  CHECK(now.queued > 20s);
  CHECK(now.queued < 40s);
  CHECK(!now.failed);
  background.cancel();
  behind.cancel();
  background.wait();
  behind.wait();
  CHECK(s.it.was_load().active == 0);
  CHECK(s.it.was_load().queued == 0ns);
}

TEST_CASE("server: an observer sees each request and segment once") {
  struct counter final : server_observer {
    void arrived(const request_record&, std::int64_t at) noexcept override { see(arrivals, at); }
    void submitted(const request_record& r, const segment& s, duration expected,
                   std::int64_t at) noexcept override {
      see(segments, at);
      operations += s.operations.size();
      ok &= r.id == s.owner && expected > 0ns;
    }
    void segment_ended(const request_record&, segment_id, std::int64_t at) noexcept override {
      see(segment_ends, at);
    }
    void ended(const request_record&, request_status how, std::int64_t at) noexcept override {
      see(ends, at);
      ok &= how == request_status::finished;
    }
    void see(int& what, std::int64_t at) noexcept {
      ++what;
      ok &= at >= last;
      last = at;
    }
    int arrivals = 0, segments = 0, segment_ends = 0, ends = 0;
    std::size_t operations = 0;
    std::int64_t last = detail::now_ns();
    bool ok = true;
  } seen;
  {
    served s;
    s.it.observe(&seen);
    for (int i = 0; i < 10; ++i) CHECK(s.submit(s.brief).wait().status == request_status::finished);
    const server_statistics n = s.it.statistics();
    CHECK(n.use.lanes_in_use == 0);
    CHECK(n.use.lanes > 0);
    CHECK(n.use.busy > 500us); // ten times five kernels of 20 us, one request after another
    CHECK(n.use.lane_time >= n.use.busy);
    CHECK(n.use.busy < n.up_time);
    CHECK(n.kernel_time > 500us);
    CHECK(n.kernel_time < n.use.busy);
    CHECK(n.sms == 132);
    CHECK(n.sm_seconds > to_s(n.kernel_time));
    CHECK(n.sm_seconds < to_s(n.kernel_time) * 132.001);
  }
  CHECK(seen.ok);
  CHECK(seen.arrivals == 10);
  CHECK(seen.ends == 10);
  CHECK(seen.segments >= 10);
  CHECK(seen.segment_ends == seen.segments);
  CHECK(seen.operations == 50);
}

TEST_CASE("server: bad arguments are refused in one line") {
  served s;
  CHECK(line_of(errc::unknown_name, [&] { static_cast<void>(s.submit(model_id{9})); }) ==
        "model 9: unknown, the server has 2");
  CHECK(line_of(errc::unknown_name, [&] {
          static_cast<void>(s.it.submit({.model = s.brief, .client = client_id{7}}));
        }) == "client 7: unknown, the server has 1");
  line_of(errc::bad_option, [&] { s.it.add_client(-1.0); });
  line_of(errc::bad_option, [&] { s.it.add_model("none", std::vector<program>()); });
  line_of(errc::no_device, [] {
    server never([]() -> sim::paced_device { throw error(errc::no_device, "not there"); },
                 [] { return fifo(); });
  });
  std::string line;
  std::atomic<bool> called{false};
  ticket t = s.it.submit({.model = s.brief, .client = s.owner, .done = [&](request_record& r) {
                            line = line_of(errc::bad_option,
                                           [&] { static_cast<void>(wait_until(r, INT64_MAX)); });
                            called = true;
                          }});
  t.wait();
  while (!called) std::this_thread::yield();
  CHECK(line.find("dispatcher's thread") != std::string::npos);
}

TEST_CASE("server: on a paced device no request ends before its time, or is said to take longer") {
  sim::preset slow_host = sim::h200();
  slow_host.host.graph = 100us;
  server it([&] { return sim::paced_device(slow_host); }, [] { return fifo(); });
  const client_id owner = it.add_client();
  std::vector<program> copies;
  for (int i = 0; i < 64; ++i) copies.push_back(kernels("tiny", 1, 1us));
  const model_id tiny = it.add_model("tiny", std::move(copies));
  constexpr int count = 200;
  std::vector<ticket> all;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) all.push_back(it.submit({.model = tiny, .client = owner}));
  duration longest{};
  for (ticket& t : all) {
    REQUIRE(t.wait_for(60s));
    CHECK(t.result().status == request_status::finished);
    longest = std::max(longest, t.result().latency);
  }
  const duration real = std::chrono::steady_clock::now() - begin;
  CHECK(longest <= real);
  CHECK(real >= count * slow_host.host.graph); // its host launches one graph after another
}
