// SPDX-License-Identifier: Apache-2.0
#include <gsched/dispatch/scheduler.hpp>

#include <gsched/core/error.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

namespace {

[[nodiscard]] program twenty_us_kernels(const char* name, std::size_t count) {
  operation k;
  k.launch.grid = {264, 1, 1};
  k.launch.block = {256, 1, 1};
  k.launch.registers_per_thread = 32;
  k.expected = 20us;
  k.kernel = kernel_id{0};
  return program(name, std::vector<operation>(count, k));
}

/// What a listener was told.
struct events {
  int arrived = 0; ///< with a pointer to this
  int ended = 0;
  std::vector<duration> off{}; ///< how far ends are from what on_almost_finished expected
};
struct end_listener : silent_listener {
  events* to;
  std::map<job_id, time_point> expected{};
  explicit end_listener(events* e) : to(e) {}
  void on_arrival(const job&, void* user, time_point) noexcept { to->arrived += user == to; }
  void on_almost_finished(const job& j, void*, duration left, time_point t) noexcept {
    expected[j.id] = t + left;
  }
  void on_end(const job& j, void* user, time_point t) noexcept {
    to->ended += user == to;
    if (const auto found = expected.find(j.id); found != expected.end())
      to->off.push_back(t - found->second);
  }
};

/// The simulated GPU, until it fails at a time: it then reports nothing more.
struct departing_device : sim::device {
  time_point at;
  std::optional<std::string> words{};
  explicit departing_device(time_point t) : sim::device(sim::h200()), at(t) {}
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    if (now() >= at) words = "the GPU is gone";
    return words ? 0 : sim::device::poll(out);
  }
  [[nodiscard]] const std::optional<std::string>& failure() const noexcept { return words; }
};

} // namespace

TEST_CASE("scheduler: two models on a device that it owns, the short one first") {
  scheduler s{sim::device{sim::h200()}, make_policy("srpt+deficit")};
  const model_id train = s.add_model("train", twenty_us_kernels("train", 500));
  const model_id infer = s.add_model("infer", twenty_us_kernels("infer", 10));
  std::vector<std::pair<job_id, job_state>> ends;
  const auto note = [&](const job& j, time_point) { ends.emplace_back(j.id, j.state); };
  const job_id first = s.submit(train, {.client = s.add_client(), .done = note});
  const job_id second = s.submit(infer, {.client = s.add_client(), .done = note});
  s.run();
  REQUIRE(ends.size() == 2);
  CHECK(ends[0] == std::pair(second, job_state::finished));
  CHECK(ends[1] == std::pair(first, job_state::finished));
  CHECK(s.statistics().finished == 2);
  CHECK(s.statistics().active == 0);
  CHECK(s.now() >= time_point{500 * 20us});
}

TEST_CASE("scheduler: models that a rule keeps apart take turns") {
  const std::vector<corun_limit> models{{"a"}, {"b", 1.2}};
  const std::vector<corun_slowdown> pairs{{"b", "a", 1.3}};
  const auto rule = std::make_shared<const corun_rule>(models, pairs);
  for (const bool apart : {false, true}) {
    dispatch_options how;
    if (apart) how.corun.rule = rule;
    scheduler s{sim::device{sim::h200()}, fifo{}, how};
    const model_id a = s.add_model("a", twenty_us_kernels("a", 100));
    const model_id b = s.add_model("b", twenty_us_kernels("b", 1));
    std::vector<duration> took;
    const auto note = [&](const job& j, time_point now) { took.push_back(now - j.arrival); };
    s.submit(a);
    s.submit(b, {.done = note});
    s.run();
    REQUIRE(took.size() == 1);
    CHECK((took[0] > how.corun.most_wait) == apart); // it waits for its turn
    CHECK((s.statistics().neighbours.refused > 0) == apart);
  }
}

TEST_CASE("scheduler: a body of one's own, in a client's name") {
  scheduler s{sim::device{sim::h200()}, fifo{}};
  int steps = 0;
  const model_id m = s.add_model("two", twenty_us_kernels("two", 5),
                                 [&](job_context& ctx, const program& p) -> task {
                                   ctx.launch(p);
                                   co_await ctx.synchronize();
                                   steps += *static_cast<int*>(ctx.user);
                                   ctx.launch(p);
                                   co_await ctx.synchronize();
                                   steps += *static_cast<int*>(ctx.user);
                                 });
  int by = 3;
  s.submit(m, {.user = &by});
  s.run();
  CHECK(steps == 6);
  CHECK(s.statistics().finished == 1);
}

TEST_CASE("scheduler: a deadline counts from the arrival") {
  scheduler s{sim::device{sim::h200()}, make_policy("edf")};
  const model_id m = s.add_model("m", twenty_us_kernels("m", 500)); // 10 ms
  job_state how{};
  const auto note = [&](const job& j, time_point) { how = j.state; };
  s.submit(m, {.deadline = 1ms, .done = note});
  s.run();
  CHECK(how == job_state::rejected);
  s.submit(m, {.deadline = 100ms, .done = note});
  s.run();
  CHECK(how == job_state::finished);
  CHECK(to_string(how) == "finished");
}

TEST_CASE("scheduler: runs until a time, cancels, and uses its records again") {
  scheduler s{sim::device{sim::h200()}, make_policy("srpt")};
  const model_id m = s.add_model("m", twenty_us_kernels("m", 500));
  for (int round = 0; round < 3; ++round) {
    const job_id id = s.submit(m);
    const time_point until = s.now() + 1ms;
    s.run(until);
    CHECK(s.now() >= until);
    CHECK(s.now() < until + 1ms);
    CHECK(s.cancel(id));
    s.run();
    CHECK_FALSE(s.cancel(id));
  }
  CHECK(s.statistics().cancelled == 3);
}

TEST_CASE("scheduler: one that follows another waits for it; a listener gets the user's pointer") {
  events seen;
  {
    scheduler<sim::device, fifo, aggregate_accountant, end_listener> s(
        sim::device{sim::h200()}, fifo{}, {}, end_listener(&seen));
    const model_id m = s.add_model("m", twenty_us_kernels("m", 5));
    std::vector<job_id> order;
    const auto note = [&](const job& j, time_point) { order.push_back(j.id); };
    const job_id a = s.submit(m, {.done = note, .user = &seen});
    const job_id b = s.submit(m, {.after = a, .done = note, .user = &seen});
    s.run();
    CHECK(order == std::vector{a, b});
    s.submit(m, {.user = &seen}); // cancelled by the end
  }
  CHECK(seen.arrived == 3);
  CHECK(seen.ended == 3);
}

TEST_CASE("scheduler: bad arguments are refused in one line, and change nothing") {
  scheduler s{sim::device{sim::h200()}, fifo{}};
  const model_id m = s.add_model("m", twenty_us_kernels("m", 5));
  const auto code_of = [](auto f) -> std::error_code {
    try {
      f();
    } catch (const error& e) {
      return e.code();
    }
    return {};
  };
  CHECK(code_of([&] { s.submit(model_id{7}); }) == errc::unknown_name);
  CHECK(code_of([&] { s.submit(m, {.client = client_id{7}}); }) == errc::unknown_name);
  CHECK(code_of([&] { s.add_client(-1); }) == errc::bad_option);
  program huge = twenty_us_kernels("huge", 1);
  operation k = huge.operations()[0];
  k.launch.block = {4096, 1, 1};
  CHECK(code_of([&] { s.add_model("huge", program("huge", std::vector<operation>{k})); }) ==
        errc::does_not_fit);
  s.submit(m);
  s.run();
  CHECK(s.statistics().finished == 1);
  CHECK(s.statistics().submitted == 1);
}

TEST_CASE("scheduler: jobs of a model with two programs have one each to themselves") {
  program first = twenty_us_kernels("m", 5), second = twenty_us_kernels("m", 5);
  int running[2]{}, seen[2]{};
  {
    scheduler s{sim::device{sim::h200()}, fifo{}};
    const auto body = [&](job_context& ctx, const program& p) -> task {
      const std::uint32_t i = ctx.instance;
      CHECK(&p == (i == 0 ? &first : &second));
      CHECK(++running[i] == 1);
      ++seen[i];
      ctx.launch(p);
      co_await ctx.synchronize();
      --running[i];
    };
    const model_id m = s.add_model("m", {&first, &second}, body);
    for (int i = 0; i < 10; ++i) s.submit(m);
    s.run();
    CHECK(s.statistics().finished == 10);
    CHECK_THROWS_WITH_AS(s.add_model("none", std::vector<program*>{}),
                         "none: no program, expected one", error);
  }
  CHECK(seen[0] + seen[1] == 10);
  CHECK(seen[1] > 0);
}

TEST_CASE("scheduler: waits until a time, and for what the device reports") {
  scheduler s{sim::device{sim::h200()}, fifo{}};
  s.wait(time_point{3ms});
  CHECK(s.now() == time_point{3ms});
  s.submit(s.add_model("m", twenty_us_kernels("m", 5)));
  while (s.step()) {
  }
  s.wait(time_point{1s});
  CHECK(s.now() < time_point{4ms});
}

TEST_CASE("scheduler: a device that fails ends the loop with its own line") {
  scheduler s{departing_device{time_point{1ms}}, fifo{}};
  const model_id m = s.add_model("m", twenty_us_kernels("m", 500));
  s.submit(m);
  CHECK_THROWS_WITH_AS(s.run(), "the GPU is gone", error);
  CHECK_THROWS_WITH_AS(s.step(), "the GPU is gone", error);
}

TEST_CASE("scheduler: what is almost finished ends when it is expected to") {
  events seen;
  {
    scheduler<sim::device, fifo, aggregate_accountant, end_listener> s(
        sim::device{sim::h200()}, fifo{}, {.lanes = 1}, end_listener(&seen));
    const model_id m = s.add_model("m", twenty_us_kernels("m", 50)); // 1 ms
    for (int i = 0; i < 20; ++i) {
      s.submit(m);
      if (i >= 10) s.run(); // first several at once, then one after another
    }
  }
  CHECK(seen.off.size() == 20);
  for (const duration d : seen.off) {
    CHECK(d < 40us);
    CHECK(d > -40us);
  }
}
