// SPDX-License-Identifier: Apache-2.0
#include "cuda/c_abi_rig.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <time.h>

using namespace gsched;
using namespace gsched::testing;

namespace {

[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

TEST_CASE("server: requests of many threads end with their own results, whatever the policy") {
  constexpr std::uint64_t senders = 4;
  constexpr std::uint64_t each = 60;
  for (const char* policy :
       {"fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "direct", "single"}) {
    CAPTURE(std::string(policy));
    server_rig r(policy);
    const std::uint32_t models[] = {r.add_model(3), r.add_model(1, 3, from_us(20))};
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (std::uint64_t s = 0; s < senders; ++s) {
      const std::uint32_t client = r.it.add_client(1.0 + static_cast<double>(s));
      threads.emplace_back([&, s, client] {
        for (std::uint64_t i = 0; i < each; i += 4) {
          std::uint64_t in[4];
          std::uint64_t out[4] = {};
          gsched_ticket* t[4];
          for (std::uint64_t k = 0; k < 4; ++k) {
            in[k] = 1000 * s + i + k;
            const void* from[] = {&in[k]};
            void* to[] = {&out[k]};
            gsched_request q{};
            q.model = models[k % 2];
            q.client = client;
            q.inputs = from;
            q.outputs = to;
            t[k] = r.submit(q);
          }
          for (std::uint64_t k = 0; k < 4; ++k) {
            if (!abi::server::wait(*t[k], 20 * second_us)) ++wrong;
            if (t[k]->status != request_status::finished || out[k] != 3 * in[k] + 1) ++wrong;
            if (t[k]->end_ns < t[k]->start_ns || t[k]->start_ns < t[k]->arrival_ns) ++wrong;
            if (t[k]->instance > 2 || t[k]->segments < 3 || !t[k]->error.empty()) ++wrong;
            t[k]->release();
          }
        }
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    std::string why;
    CHECK(close(r.it, GSCHED_DRAIN, second_us, why) == GSCHED_OK);
    const gsched_statistics s = r.it.statistics();
    CHECK(s.submitted == senders * each);
    CHECK(s.finished == senders * each);
    CHECK(s.active == 0);
  }
}

TEST_CASE("server: whole graphs where nothing is scheduled, and segments elsewhere") {
  for (const auto& [policy, segments] :
       {std::pair{"single", 1u}, std::pair{"direct", 1u}, std::pair{"fifo", 4u}}) {
    server_rig r(policy);
    const std::uint32_t m = r.add_model(1, 100, from_us(20)); // 2 ms
    const std::uint32_t c = r.it.add_client(1.0);
    gsched_ticket* t = r.submit(m, c);
    CHECK(abi::server::wait(*t, 20 * second_us));
    CHECK(t->status == request_status::finished);
    CHECK((segments == 1 ? t->segments == 1 : t->segments >= segments));
    t->release();
  }
}

TEST_CASE("server: the slice of rr is slice_us, and not threshold_us") {
  const auto segments_of = [](double slice_us, double threshold_us) {
    gsched_server_options o = options_for("rr");
    o.watchdog_ms = 10000;
    o.lanes = 1;
    o.slice_us = slice_us;
    o.threshold_us = threshold_us;
    o.quantum_us = o.most_quantum_us = 10000; // so that the slice decides
    server_rig r(o);
    const std::uint32_t m = r.add_model(2, 100, from_us(200)); // 20 ms
    const std::uint32_t c = r.it.add_client(1.0);
    std::uint32_t segments = 0;
    gsched_ticket* const all[] = {r.submit(m, c), r.submit(m, c)};
    for (gsched_ticket* t : all) {
      CHECK(abi::server::wait(*t, 20 * second_us));
      segments += t->segments;
      t->release();
    }
    return segments;
  };
  const std::uint32_t of_short_slices = segments_of(200, 10000);
  CHECK(of_short_slices > 100);
  CHECK(segments_of(200, 10) > 100);
  CHECK(segments_of(10000, 10) < of_short_slices / 2);
}

TEST_CASE("server: a request is cancelled before and while it runs, and not after") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1, 100, from_us(1000)); // 100 ms
  const std::uint32_t c = r.it.add_client(1.0);
  gsched_ticket* running = r.submit(m, c);
  gsched_ticket* waiting = r.submit(m, c);
  CHECK(abi::server::cancel(*waiting));
  CHECK(abi::server::wait(*waiting, 20 * second_us));
  CHECK(waiting->status == request_status::cancelled);
  CHECK(waiting->start_ns == 0);
  CHECK(waiting->error == "cancelled");
  CHECK_FALSE(abi::server::cancel(*waiting));
  CHECK(abi::server::cancel(*running));
  CHECK(abi::server::cancel(*running)); // twice is as once
  CHECK(abi::server::wait(*running, 20 * second_us));
  CHECK(running->status == request_status::cancelled);
  running->release();
  waiting->release();
}

TEST_CASE("server: a wait that is over too early says so") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1, 100, from_us(1000));
  gsched_ticket* t = r.submit(m, r.it.add_client(1.0));
  CHECK_FALSE(abi::server::wait(*t, 0));
  CHECK_FALSE(abi::server::wait(*t, 5000));
  CHECK(abi::server::wait(*t, -1));
  CHECK(t->status == request_status::finished);
  t->release();
}

TEST_CASE("server: closing drains, cancels, or drains until its time is over") {
  for (const auto& [how, timeout_us, finish] :
       {std::tuple{GSCHED_DRAIN, std::int64_t{-1}, true},
        std::tuple{GSCHED_DRAIN, 20 * second_us, true}, std::tuple{GSCHED_CANCEL, second_us, false},
        std::tuple{GSCHED_DRAIN, std::int64_t{3000}, false}}) {
    server_rig r("srpt");
    const std::uint32_t m = r.add_model(2, 20, from_us(100)); // 2 ms, 2 at a time
    const std::uint32_t c = r.it.add_client(1.0);
    std::vector<gsched_ticket*> all;
    for (int i = 0; i < 50; ++i) all.push_back(r.submit(m, c));
    std::string why;
    CHECK(close(r.it, how, timeout_us, why) == GSCHED_OK);
    std::uint64_t finished = 0;
    for (gsched_ticket* t : all) {
      REQUIRE(t->has_ended());
      CHECK((t->status == request_status::finished || t->status == request_status::cancelled));
      finished += t->status == request_status::finished;
      CHECK_FALSE(abi::server::cancel(*t));
      t->release();
    }
    CHECK((finished == all.size()) == finish);
    const gsched_statistics s = r.it.statistics();
    CHECK(s.finished == finished);
    CHECK(s.submitted == all.size());
    CHECK(s.finished + s.cancelled == all.size());
    CHECK(code_of([&] { static_cast<void>(r.submit(m, c)); }) == GSCHED_CLOSED);
    CHECK(code_of([&] { static_cast<void>(r.it.add_client(1.0)); }) == GSCHED_CLOSED);
    CHECK(close(r.it, how, timeout_us, why) == GSCHED_OK);
  }
}

TEST_CASE("server: a drain ends sooner if another thread closes with an earlier end") {
  for (const auto& [how, timeout_us] :
       {std::pair{GSCHED_CANCEL, std::int64_t{-1}}, std::pair{GSCHED_DRAIN, std::int64_t{1000}}}) {
    server_rig r("fifo");
    const std::uint32_t m = r.add_model(1, 20, from_us(100)); // 2 ms, one at a time
    const std::uint32_t c = r.it.add_client(1.0);
    std::vector<gsched_ticket*> all;
    for (int i = 0; i < 5000; ++i) all.push_back(r.submit(m, c)); // 10 s
    std::thread drain([&] {
      std::string why;
      CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
    });
    while (code_of([&] { r.submit(m, c)->release(); }) == GSCHED_OK) std::this_thread::yield();
    std::string why;
    CHECK(close(r.it, how, timeout_us, why) == GSCHED_OK);
    drain.join();
    CHECK(all.back()->status == request_status::cancelled);
    for (gsched_ticket* t : all) t->release();
  }
}

TEST_CASE("server: closing while others submit loses no request") {
  for (int round = 0; round < 20; ++round) {
    server_rig r("fifo");
    const std::uint32_t m = r.add_model(4, 2, from_us(5));
    const std::uint32_t c = r.it.add_client(1.0);
    std::atomic<std::uint64_t> accepted{0};
    std::atomic<std::uint64_t> ended{0};
    std::vector<std::thread> threads;
    for (int s = 0; s < 3; ++s)
      threads.emplace_back([&] {
        gsched_request q{};
        q.model = m;
        q.client = c;
        q.user = &ended;
        q.done = [](void* user, gsched_ticket*) {
          static_cast<std::atomic<std::uint64_t>*>(user)->fetch_add(1);
        };
        q.size = sizeof q;
        while (code_of([&] { r.it.submit(q, nullptr); }) == GSCHED_OK) accepted.fetch_add(1);
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::string why;
    CHECK(close(r.it, round % 2 == 0 ? GSCHED_DRAIN : GSCHED_CANCEL, 1000, why) == GSCHED_OK);
    for (std::thread& t : threads) t.join();
    CHECK(ended == accepted);
  }
}

TEST_CASE("server: a device that fails fails all there is, with its line, and takes no more") {
  server_rig r("srpt+deficit");
  const std::uint32_t m = r.add_model(2);
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->submits_until_failure = 20;
  std::vector<gsched_ticket*> all;
  std::string line;
  gsched_code refused = GSCHED_OK;
  while (all.size() < 1000 && refused == GSCHED_OK)
    refused = code_of([&] { all.push_back(r.submit(m, c)); }, &line);
  std::size_t failed = 0;
  for (gsched_ticket* t : all) {
    REQUIRE(abi::server::wait(*t, 20 * second_us));
    failed += t->status == request_status::failed;
    if (t->status == request_status::failed)
      CHECK(t->error.find("IllegalAddress") != std::string::npos);
    t->release();
  }
  CHECK(failed > 0);
  CHECK(code_of([&] { static_cast<void>(r.submit(m, c)); }, &line) == GSCHED_DEVICE_FAILED);
  CHECK(line.find("IllegalAddress") != std::string::npos);
  std::string why;
  CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_DEVICE_FAILED);
  CHECK(why.find("IllegalAddress") != std::string::npos);
  const gsched_statistics s = r.it.statistics();
  CHECK(s.active == 0);
  CHECK(s.submitted == s.finished + s.failed);
}

TEST_CASE("server: a driver that hangs does not take its callers with it") {
  const auto start = std::chrono::steady_clock::now();
  static server_rig* const r = new server_rig("fifo"); // its thread is left behind, and uses it
  const std::uint32_t m = r->add_model(1);
  const std::uint32_t c = r->it.add_client(1.0);
  r->control->submits_until_hang = 2;
  std::vector<gsched_ticket*> all;
  for (int i = 0; i < 10; ++i) all.push_back(r->submit(m, c));
  gsched_code asked = GSCHED_OK;
  std::thread other([&] { // waits for an answer that never comes
    while (!r->control->hung) std::this_thread::yield();
    asked = code_of([&] { static_cast<void>(r->it.add_client(1.0)); });
  });
  for (gsched_ticket* t : all) {
    REQUIRE(abi::server::wait(*t, -1));
    CHECK((t->status == request_status::failed || t->status == request_status::finished));
    if (t->status == request_status::failed)
      CHECK(t->error.find("did not come back") != std::string::npos);
    t->release();
  }
  other.join();
  CHECK((asked == GSCHED_CLOSED || asked == GSCHED_DEVICE_FAILED));
  std::string why;
  CHECK(close(r->it, GSCHED_DRAIN, -1, why) == GSCHED_TIMED_OUT);
  CHECK(why.find("did not come back") != std::string::npos);
  CHECK(code_of([&] { static_cast<void>(r->it.statistics()); }) == GSCHED_TIMED_OUT);
  CHECK(seconds_since(start) < 20);
}

TEST_CASE("server: a device on which nothing ends is given up when it is closed") {
  const auto start = std::chrono::steady_clock::now();
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1);
  r.control->frozen = true;
  gsched_ticket* t = r.submit(m, r.it.add_client(1.0));
  std::string why;
  std::thread later([&] { // as a watchdog does
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    r.control->frozen = false;
  });
  CHECK(close(r.it, GSCHED_CANCEL, 0, why) == GSCHED_OK);
  CHECK(t->status == request_status::cancelled);
  t->release();
  later.join();
  CHECK(seconds_since(start) < 5);
}

TEST_CASE("settings: spare lanes are for requests that share all lanes") {
  gsched_server_options o = options_for("fifo");
  CHECK(abi::settings_of(o).dispatch.spares(128) == 120);
  CHECK(abi::settings_of(options_for("direct")).dispatch.spares(128) == 0);
  CHECK(abi::settings_of(options_for("single")).dispatch.spares(128) == 0);
  o.real_time_lanes = 1;
  CHECK(abi::settings_of(o).dispatch.spares(128) == 0);
  o.real_time_lanes = 0;
  o.lanes = 1;
  CHECK(abi::settings_of(o).dispatch.spares(128) == 0);
  o.lanes = 8;
  o.spare_lanes = 24;
  CHECK(abi::settings_of(o).dispatch.spare_lanes == 24);
  CHECK(abi::settings_of(o).dispatch.lanes == 8);
  const auto refused = [](const gsched_server_options& wrong) {
    CHECK_THROWS_WITH_AS(static_cast<void>(abi::settings_of(wrong)),
                         doctest::Contains("spare_lanes"), abi::refusal);
  };
  gsched_server_options wrong = o;
  wrong.spare_lanes = 121;
  refused(wrong);
  wrong = o;
  wrong.real_time_lanes = 1;
  refused(wrong);
  wrong = o;
  wrong.policy = "direct";
  refused(wrong);
}

TEST_CASE("settings: slow-downs are a rule for the models that they name") {
  gsched_server_options o = options_for("fifo");
  CHECK(abi::settings_of(o).dispatch.corun.rule == nullptr);
  CHECK(abi::settings_of(o).dispatch.corun.most_wait == corun_options::default_most_wait);
  std::vector<gsched_slow_down> pairs{{"a", "b", 1.8}, {"b", "a", 1.1}, {"b", "c", 1.1}};
  o.slow_downs = pairs.data();
  o.slow_downs_count = 3;
  o.slow_down_limit = 1.2;
  o.apart_wait_us = 500;
  const abi::settings s = abi::settings_of(o);
  REQUIRE(s.dispatch.corun.rule != nullptr);
  CHECK(s.dispatch.corun.most_wait == from_us(500));
  const auto allowed = [](const corun_rule& r, const char* x, const char* y) {
    return r.allows(std::array{r.row_of(x), r.row_of(y)});
  };
  CHECK_FALSE(allowed(*s.dispatch.corun.rule, "a", "b"));
  CHECK(allowed(*s.dispatch.corun.rule, "b", "c"));
  CHECK(allowed(*s.dispatch.corun.rule, "a", "c"));
  CHECK(allowed(*s.dispatch.corun.rule, "b", "another"));
  o.unknown_apart = 1;
  const abi::settings cautious = abi::settings_of(o);
  CHECK_FALSE(allowed(*cautious.dispatch.corun.rule, "a", "c"));
  CHECK_FALSE(allowed(*cautious.dispatch.corun.rule, "b", "another"));
  CHECK(allowed(*cautious.dispatch.corun.rule, "a", "a"));

  // Models with limits of their own, with or without one of the others.
  o.unknown_apart = 0;
  std::vector<gsched_slow_down_limit> own{{"a", 2}, {"c", 1}};
  o.slow_down_limits = own.data();
  o.slow_down_limits_count = 2;
  const abi::settings by_model = abi::settings_of(o);
  CHECK(allowed(*by_model.dispatch.corun.rule, "a", "b"));
  CHECK(allowed(*by_model.dispatch.corun.rule, "b", "c"));
  own[0].most = 1.7;
  CHECK_FALSE(allowed(*abi::settings_of(o).dispatch.corun.rule, "a", "b"));
  own[0] = {"b", 1.05};
  CHECK_FALSE(allowed(*abi::settings_of(o).dispatch.corun.rule, "b", "c"));
  own[0] = {"c", 1.5};
  o.slow_down_limits_count = 1;
  o.slow_down_limit = 0;
  CHECK(allowed(*abi::settings_of(o).dispatch.corun.rule, "a", "b")); // neither has a limit
  o.slow_down_limit = 1.2;
  o.slow_down_limits_count = 0;
  o.unknown_apart = 1;

  const auto refused = [](const gsched_server_options& wrong, const char* name) {
    std::string line;
    CHECK(code_of([&] { static_cast<void>(abi::settings_of(wrong)); }, &line) ==
          GSCHED_BAD_ARGUMENT);
    CHECK(line.find(name) != std::string::npos);
  };
  gsched_server_options wrong = o;
  for (const gsched_slow_down_limit bad : {gsched_slow_down_limit{nullptr, 2}, {"a", 0.9}}) {
    own[0] = bad;
    wrong.slow_down_limits_count = 1;
    refused(wrong, "slow_down_limits");
  }
  own = {{"a", 2}, {"a", 3}};
  wrong.slow_down_limits = own.data();
  wrong.slow_down_limits_count = 2;
  refused(wrong, "slow_down_limits: expected each model once");
  wrong.slow_down_limits = nullptr;
  refused(wrong, "slow_down_limits: expected slow_down_limits_count");
  wrong = o;
  wrong.slow_down_limit = 0;
  refused(wrong, "slow_down_limit: expected at least 1");
  wrong = o;
  wrong.reserved = 1;
  refused(wrong, "reserved");
  wrong = o;
  wrong.slow_downs = nullptr;
  refused(wrong, "slow_downs");
  wrong = o;
  wrong.policy = "direct";
  refused(wrong, "slow_downs");
  wrong = o;
  wrong.slow_down_limit = 0.9;
  refused(wrong, "slow_down_limit");
  wrong = o;
  wrong.unknown_apart = 2;
  refused(wrong, "unknown_apart");
  wrong = o;
  wrong.apart_wait_us = -1;
  refused(wrong, "apart_wait_us");
  wrong = o;
  wrong.slow_downs_count = 0;
  refused(wrong, "slow_down_limit");
  wrong.slow_down_limit = 0;
  refused(wrong, "unknown_apart");
  for (const gsched_slow_down bad : {gsched_slow_down{"a", nullptr, 1}, {nullptr, "a", 1}}) {
    pairs[1] = bad;
    refused(o, "slow_downs");
  }
  pairs[1] = {"a", "b", 0};
  refused(o, "slow-down 0 of a beside b");
}

TEST_CASE("server: requests of models that slow each other too much do not run side by side") {
  const gsched_slow_down itself{"fake", "fake", 1.5};
  for (const double limit : {1.2, 2.0}) {
    CAPTURE(limit);
    gsched_server_options o = options_for("fifo");
    o.slow_downs = &itself;
    o.slow_downs_count = 1;
    o.slow_down_limit = limit;
    server_rig r(o);
    const std::uint32_t m = r.add_model(2, 1, from_us(100'000));
    const std::uint32_t c = r.it.add_client(1.0);
    std::vector<gsched_ticket*> all{r.submit(m, c), r.submit(m, c)};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(r.control->launched == (limit < 1.5 ? 1 : 2));
    for (gsched_ticket* t : all) {
      CHECK(abi::server::wait(*t, 20 * second_us));
      CHECK(t->status == request_status::finished);
      t->release();
    }
    CHECK((r.it.statistics().kept_apart > 0) == (limit < 1.5));
    CHECK((r.it.statistics().apart_wait_ns > 0) == (limit < 1.5));
  }
}

TEST_CASE("server: with instrumented set, the blocks on the GPU decide what is submitted") {
  for (const std::uint32_t instrumented : {0u, 1u}) {
    CAPTURE(instrumented);
    gsched_server_options o = options_for("fifo");
    o.overshoot = 100; // segments never fill the GPU
    o.instrumented = instrumented;
    server_rig r(o);
    r.blocks = 132 * 16 + 64; // a full GPU, and as many as may wait
    const std::uint32_t m = r.add_model(6, 1, from_us(200'000));
    const std::uint32_t c = r.it.add_client(1.0);
    std::vector<gsched_ticket*> all;
    for (int i = 0; i < 6; ++i) all.push_back(r.submit(m, c));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(r.control->launched == (instrumented != 0 ? 1 : 6));
    for (gsched_ticket* t : all) {
      CHECK(abi::server::wait(*t, 20 * second_us));
      CHECK(t->status == request_status::finished);
      t->release();
    }
  }
}

TEST_CASE("server: a callback may submit and look, and is refused what would wait for itself") {
  struct chain {
    server_rig r{"fifo"};
    std::uint32_t model = 0;
    std::uint32_t client = 0;
    std::atomic<int> left{20};
    std::atomic<int> wrong{0};
    std::atomic<bool> done{false};

    static void next(void* user, gsched_ticket* t) {
      auto& self = *static_cast<chain*>(user);
      std::string why;
      self.wrong += !t->has_ended() || t->status != request_status::finished;
      self.wrong += code_of([&] { static_cast<void>(self.r.it.statistics()); }) == GSCHED_OK;
      self.wrong += code_of([&] { self.r.it.close(GSCHED_CANCEL, 0); }) == GSCHED_OK;
      self.wrong += code_of([&] { static_cast<void>(abi::server::wait(*t, 1)); }) == GSCHED_OK;
      if (self.left.fetch_sub(1) > 1)
        self.begin();
      else
        self.done = true;
    }
    void begin() {
      gsched_request q{};
      q.size = sizeof q;
      q.model = model;
      q.client = client;
      q.done = next;
      q.user = this;
      r.it.submit(q, nullptr);
    }
  } c;
  c.model = c.r.add_model(1, 2);
  c.client = c.r.it.add_client(1.0);
  c.begin();
  const auto start = std::chrono::steady_clock::now();
  while (!c.done && seconds_since(start) < 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(c.left == 0);
  CHECK(c.wrong == 0);
}

TEST_CASE("server: ended tickets are collected in order, all of them, and then it is closed") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(4, 2, from_us(5));
  const std::uint32_t c = r.it.add_client(1.0);
  gsched_ticket* none[1];
  CHECK(code_of([&] { static_cast<void>(r.it.collect(none, 1, 0)); }) == GSCHED_TIMED_OUT);
  CHECK(code_of([&] { static_cast<void>(r.it.collect(none, 1, 2000)); }) == GSCHED_TIMED_OUT);
  constexpr std::uintptr_t count = 2000;
  std::atomic<std::uintptr_t> got{0};
  std::atomic<int> wrong{0};
  std::thread collecting([&] {
    std::int64_t last = 0;
    gsched_ticket* some[7];
    std::uint32_t n = 0;
    while (code_of([&] { n = r.it.collect(some, 7, -1); }) == GSCHED_OK)
      for (std::uint32_t i = 0; i < n; ++i) {
        wrong += some[i]->end_ns < last || reinterpret_cast<std::uintptr_t>(some[i]->user) == 0;
        last = some[i]->end_ns;
        some[i]->release();
        ++got;
      }
  });
  gsched_request q{};
  q.size = sizeof q;
  q.model = m;
  q.client = c;
  q.collected = 1;
  for (std::uintptr_t i = 1; i <= count; ++i) {
    q.user = reinterpret_cast<void*>(i);
    r.it.submit(q, nullptr);
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string why;
  CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
  collecting.join();
  CHECK(got == count);
  CHECK(wrong == 0);
}

TEST_CASE("server: a request that is watched is collected once, one that has ended is not") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(4, 2, from_us(2000));
  const std::uint32_t c = r.it.add_client(1.0);
  gsched_ticket* const t = r.submit(m, c);
  CHECK(abi::server::watch(*t));
  CHECK(code_of([&] { static_cast<void>(abi::server::watch(*t)); }) == GSCHED_BAD_ARGUMENT);
  gsched_ticket* got[2]{};
  CHECK(r.it.collect(got, 2, 20 * second_us) == 1);
  CHECK(got[0] == t);
  CHECK(t->has_ended());
  CHECK_FALSE(abi::server::watch(*t));
  CHECK(t->owners.load() >= 2); // the caller's share and the one that was handed out
  t->release();
  t->release();
  gsched_ticket* const late = r.submit(m, c);
  CHECK(abi::server::wait(*late, 20 * second_us));
  while (abi::server::status(*late).state == GSCHED_PENDING) continue;
  std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the end is published before that
  CHECK_FALSE(abi::server::watch(*late));
  CHECK(code_of([&] { static_cast<void>(r.it.collect(got, 2, 0)); }) == GSCHED_TIMED_OUT);
  late->release();
  std::string why;
  gsched_ticket* const last = r.submit(m, c);
  CHECK(abi::server::watch(*last));
  CHECK(close(r.it, GSCHED_CANCEL, -1, why) == GSCHED_OK);
  CHECK(r.it.collect(got, 2, -1) == 1);
  CHECK(got[0] == last);
  CHECK(code_of([&] { static_cast<void>(r.it.collect(got, 2, -1)); }) == GSCHED_CLOSED);
  last->release();
  last->release();
}

TEST_CASE("server: requests that end while they are watched are collected or known to have ended") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(4, 2, from_us(5));
  const std::uint32_t c = r.it.add_client(1.0);
  constexpr int count = 2000;
  std::atomic<int> got{0};
  std::thread collecting([&] {
    gsched_ticket* some[7];
    std::uint32_t n = 0;
    while (code_of([&] { n = r.it.collect(some, 7, -1); }) == GSCHED_OK)
      for (std::uint32_t i = 0; i < n; ++i, ++got) some[i]->release();
  });
  int ended = 0;
  std::int64_t pause_ns = 1000; // follows the time of a request, so that both come about
  for (int i = 0; i < count; ++i) {
    gsched_ticket* const t = r.submit(m, c);
    for (const std::int64_t until = detail::now_ns() + pause_ns; detail::now_ns() < until;)
      continue;
    const bool watched = abi::server::watch(*t);
    if (!watched) {
      ++ended;
      CHECK(t->has_ended());
    }
    pause_ns = watched ? pause_ns * 5 / 4 + 100 : pause_ns * 4 / 5;
    t->release();
  }
  std::string why;
  CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
  collecting.join();
  CHECK(got + ended == count);
  CHECK(ended > 0);
  CHECK(got > 0);
}

TEST_CASE("server: tickets that nobody collects go with the server") {
  server_rig r("fifo"); // a leak is the sanitizer's to find
  gsched_request q{};
  q.size = sizeof q;
  q.model = r.add_model(1, 2);
  q.client = r.it.add_client(1.0);
  q.collected = 1;
  for (int i = 0; i < 10; ++i) r.it.submit(q, nullptr);
  q.collected = 0;
  gsched_ticket* watched = nullptr;
  r.it.submit(q, &watched);
  static_cast<void>(abi::server::watch(*watched));
  watched->release();
}

TEST_CASE("server: without work its thread sleeps, and wakes up for it") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1, 2);
  const std::uint32_t c = r.it.add_client(1.0);
  const auto cpu = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(cpu() - before < 0.03);
  for (int i = 0; i < 20; ++i) {
    gsched_ticket* t = r.submit(m, c);
    CHECK(abi::server::wait(*t, 20 * second_us));
    t->release();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(r.it.statistics().sleeps >= 5);
}

TEST_CASE("server: too many requests and hopeless deadlines are rejected with a word") {
  gsched_server_options o = options_for("edf");
  o.max_jobs = 3;
  server_rig r(o);
  const std::uint32_t m = r.add_model(1, 100, from_us(1000)); // 100 ms
  const std::uint32_t c = r.it.add_client(1.0);
  gsched_request late{};
  late.model = m;
  late.client = c;
  late.deadline_us = 1000;
  gsched_ticket* t = r.submit(late);
  CHECK(abi::server::wait(*t, 20 * second_us));
  CHECK(t->status == request_status::rejected);
  CHECK(t->error.find("deadline") != std::string::npos);
  t->release();
  std::vector<gsched_ticket*> all;
  for (int i = 0; i < 4; ++i) all.push_back(r.submit(m, c));
  CHECK(abi::server::wait(*all[3], 20 * second_us));
  CHECK(all[3]->status == request_status::rejected);
  CHECK(all[3]->error == // as the listener hears it
        "rejected: 3 jobs are active, expected less for another one (max_jobs)");
  CHECK(code_of([&] { static_cast<void>(r.submit(m + 1, c)); }) == GSCHED_BAD_ARGUMENT);
  CHECK(code_of([&] { static_cast<void>(r.submit(m, c + 1)); }) == GSCHED_BAD_ARGUMENT);
  for (gsched_ticket* each : all) each->release();
}

TEST_CASE("server: a model that cannot be built leaves the server as it was") {
  server_rig r("srpt");
  const std::uint32_t first = r.add_model(2);
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->loads_until_failure = 1;
  std::string line;
  CHECK(code_of([&] { static_cast<void>(r.add_model(3)); }, &line) == GSCHED_OUT_OF_MEMORY);
  CHECK(line.find("out of memory") != std::string::npos);
  r.control->loads_until_failure = 100;
  const std::uint32_t second = r.add_model(2);
  CHECK(second == first + 1);
  CHECK(r.it.facts(second).instances == 2);
  CHECK(r.it.facts(second).operations == 20);
  for (const std::uint32_t m : {first, second}) {
    gsched_ticket* t = r.submit(m, c);
    CHECK(abi::server::wait(*t, 20 * second_us));
    CHECK(t->status == request_status::finished);
    t->release();
  }
}

TEST_CASE("server: models are added while others are served") {
  server_rig r("srpt");
  const std::uint32_t m = r.add_model(2, 20, from_us(20));
  const std::uint32_t c = r.it.add_client(1.0);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread serving([&] {
    while (!stop) {
      gsched_ticket* t = r.submit(m, c);
      wrong += !abi::server::wait(*t, 20 * second_us) || t->status != request_status::finished;
      t->release();
    }
  });
  for (int i = 0; i < 10; ++i) {
    gsched_ticket* t = r.submit(r.add_model(3), c);
    wrong += !abi::server::wait(*t, 20 * second_us) || t->status != request_status::finished;
    t->release();
  }
  stop = true;
  serving.join();
  CHECK(wrong == 0);
}

TEST_CASE("server: one that cannot start says why and is not there") {
  const abi::settings how = abi::settings_of(options_for("fifo"));
  std::string line;
  CHECK(code_of(
            [&] {
              abi::server s(abi::serve(how,
                                       []() -> fake_device {
                                         throw error(errc::no_device, "GPU 7: not there");
                                       }),
                            [](const void*) { return abi::memory_kind::pageable; });
            },
            &line) == GSCHED_NO_DEVICE);
  CHECK(line == "GPU 7: not there");
}

TEST_CASE("server: tickets outlive it") {
  gsched_ticket* t = nullptr;
  {
    server_rig r("fifo");
    const std::uint32_t m = r.add_model(1, 100, from_us(1000));
    t = r.submit(m, r.it.add_client(1.0));
  }
  REQUIRE(t->has_ended());
  CHECK(t->status == request_status::cancelled);
  CHECK_FALSE(abi::server::cancel(*t));
  CHECK(abi::server::wait(*t, -1));
  t->release();
}
