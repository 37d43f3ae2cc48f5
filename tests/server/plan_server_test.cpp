// SPDX-License-Identifier: Apache-2.0
#include <gsched/server/plan_server.hpp>

#include <gsched/core/error.hpp>
#include <gsched/serving/learning/time_corrections.hpp>
#include <gsched/serving/paced_batches.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

namespace {

/// Batches of 1 to 8 take 0.2 ms plus 0.05 ms a request on 8 SMs, and less on more SMs.
latency_table table_of(std::size_t models) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < models; ++m)
    for (const std::uint32_t s : {8u, 16u, 32u})
      for (std::uint32_t b = 1; b <= 8; ++b)
        rows.push_back({"m" + std::to_string(m), b, sm_count{s},
                        200us + duration{50'000} * b * 8 / static_cast<int>(s)});
  return latency_table(rows);
}

/// A request of model m: its payload is a number, and behind it its answer.
struct question {
  std::uint64_t in = 0, out = 0;
  [[nodiscard]] std::span<std::byte> bytes() noexcept {
    return std::as_writable_bytes(std::span(&in, 2));
  }
};
static_assert(sizeof(question) == 16);
constexpr std::uint64_t answer_of(std::size_t model, std::uint64_t in) {
  return 3 * in + 1 + 1000 * model;
}
void answer(std::size_t model, std::span<const void* const> in, std::span<void* const> out) {
  if (in[0] == nullptr) return;
  std::uint64_t x = 0;
  std::memcpy(&x, in[0], sizeof x);
  x = answer_of(model, x);
  std::memcpy(out[0], &x, sizeof x);
}

plan_offer offer_of(std::size_t models, duration slo, double rate = 1000) {
  plan_offer o{table_of(models), {gpu_shape{sm_count{32}, sm_count{8}}}, {}};
  for (std::size_t m = 0; m < models; ++m)
    o.models.push_back(
        {std::make_unique<planned_model>("m" + std::to_string(m), std::vector<std::uint64_t>{8},
                                         std::vector<std::uint64_t>{8}),
         slo, rate});
  return o;
}

/// How a runner misbehaves, told from any thread.
struct runner_control {
  std::atomic<int> batches_until_failure{INT32_MAX};
  std::atomic<int> plans_until_failure{INT32_MAX};
};

/// paced_batches that fail when they are told to.
class failing_batches : public paced_batches {
public:
  failing_batches(const latency_table& t, const interference_function& truth,
                  std::shared_ptr<runner_control> c)
      : paced_batches(t, truth, 1, 1ms, answer), control_(std::move(c)) {}
  void begin(const batch_run& r) {
    if (control_->batches_until_failure.fetch_sub(1) <= 0)
      throw error(errc::device_failed, "GPU 0: an illegal memory access was encountered");
    paced_batches::begin(r);
  }
  bool try_prepared() {
    if (!paced_batches::try_prepared()) return false;
    if (control_->plans_until_failure.fetch_sub(1) <= 0)
      throw error(errc::too_small, "no graph is left");
    return true;
  }

private:
  std::shared_ptr<runner_control> control_;
};

/// Events that are numbers: 0 has completed, 1 has not, others have failed.
event_source number_events() {
  return {[](void* e) {
            const int now = static_cast<std::atomic<int>*>(e)->load();
            using kind = event_answer::kind;
            return event_answer{now == 0   ? kind::complete
                                : now == 1 ? kind::pending
                                           : kind::failed,
                                now};
          },
          {},
          [](int code) { return "failure " + std::to_string(code); },
          {}};
}

struct rig {
  explicit rig(plan_offer o, plan_server_options how = {})
      : it(
            std::move(o),
            [c = control](const latency_table& t, const interference_function& f) {
              return failing_batches(t, f, c);
            },
            how, [](auto&) { return number_events(); }) {}

  std::shared_ptr<runner_control> control = std::make_shared<runner_control>();
  plan_server it;

  [[nodiscard]] ticket ask(question& q, std::uint32_t model = 0) {
    return it.submit({.model = model_id{model}, .payload = q.bytes()});
  }
};

template <class F>
std::string refusal_line(errc code, F f) {
  try {
    f();
  } catch (const error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}

void check_sums(const server_statistics& s) {
  const dispatch_statistics& n = s.requests;
  CHECK(n.submitted == n.active + n.finished + n.rejected + n.cancelled + n.failed);
}

/// One request of model 0, which comes while the server's thread is in the midst of a round.
class late_source final : public request_source {
public:
  explicit late_source(question& q) { record.payload = q.bytes(); }
  bool poll(request_taker& to) noexcept override {
    if (std::exchange(sent_, true)) return false;
    record.arrival_ns = std::chrono::nanoseconds(now()).count();
    to.take(record);
    return true;
  }
  bool fall_asleep() noexcept override { return false; }
  void wake_up() noexcept override {}
  void close() noexcept override {}

  struct record_of_test final : request_record {
    record_of_test() : request_record(nullptr) {}
    void dispose() noexcept override {}
  } record;

private:
  static std::chrono::steady_clock::duration now() {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  bool sent_ = false;
};

} // namespace

TEST_CASE("plan server: no request starts before it came") {
  rig r(offer_of(1, 5s));
  for (int i = 0; i < 20; ++i) {
    question q;
    late_source source(q);
    r.it.attach(source);
    while (!source.record.has_ended()) std::this_thread::sleep_for(1ms);
    r.it.detach(source);
    CHECK(source.record.status == request_status::finished);
    CHECK(source.record.start_ns >= source.record.arrival_ns);
    CHECK(source.record.end_ns >= source.record.start_ns);
  }
}

TEST_CASE("plan server: requests of many threads are batched, and each gets its own answer") {
  rig r(offer_of(2, 5s)); // so long that a loaded machine drops none
  constexpr std::size_t threads = 4, each = 300;
  std::vector<std::vector<question>> all(threads, std::vector<question>(each));
  std::vector<std::thread> users;
  for (std::size_t u = 0; u < threads; ++u)
    users.emplace_back([&, u] {
      std::vector<ticket> tickets;
      for (std::size_t i = 0; i < each; ++i) {
        all[u][i].in = u * each + i;
        tickets.push_back(r.ask(all[u][i], i % 2));
      }
      for (ticket& t : tickets) static_cast<void>(t.wait());
      for (std::size_t i = 0; i < each; ++i) {
        const request_result end = tickets[i].result();
        if (end.status != request_status::finished || end.latency < end.waited) return;
      }
      for (std::size_t i = 0; i < each; ++i)
        if (all[u][i].out != answer_of(i % 2, all[u][i].in)) all[u][i].in = ~0ull;
    });
  for (std::thread& u : users) u.join();
  for (const std::vector<question>& of : all)
    for (const question& q : of) CHECK(q.in != ~0ull);
  for (std::size_t u = 0; u < threads; ++u)
    for (std::size_t i = 0; i < each; ++i) REQUIRE(all[u][i].out == answer_of(i % 2, all[u][i].in));
  const plan_report p = r.it.report();
  CHECK(p.models.size() == 2);
  CHECK(p.models[0].counts.arrived == threads * each / 2);
  CHECK(p.models[1].counts.in_time == threads * each / 2);
  CHECK(p.models[0].latency.count() == threads * each / 2);
  CHECK(p.batches < threads * each / 2); // 8 wait for each other mostly
  CHECK(p.batches >= threads * each / 8);
  CHECK_FALSE(p.plan.gpulets.empty());
  CHECK(p.factor > 1);
  const server_statistics s = r.it.statistics();
  check_sums(s);
  CHECK(s.requests.finished == threads * each);
  CHECK(s.requests.segments == p.batches);
  CHECK(s.sms == 32);
  r.it.close();
  CHECK(r.it.report().batches == p.batches);
  CHECK(r.it.statistics().requests.finished == threads * each);
}

TEST_CASE("plan server: what cannot be in time is rejected, and says so") {
  rig r(offer_of(1, 3ms, 10));
  std::deque<question> all(3000);
  std::vector<ticket> tickets;
  for (question& q : all) tickets.push_back(r.ask(q)); // at most 30,000 a second are served
  std::uint64_t finished = 0, rejected = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const request_result end = tickets[i].wait();
    if (end.status == request_status::finished) {
      ++finished;
      REQUIRE(all[i].out == answer_of(0, 0));
    } else {
      ++rejected;
      REQUIRE(end.status == request_status::rejected);
      REQUIRE(end.error == "rejected: no batch of m0 would end within 3 ms of its arrival");
      REQUIRE_FALSE(end.code);
      REQUIRE(all[i].out == 0);
    }
  }
  CHECK(rejected > 0);
  const server_statistics s = r.it.statistics();
  check_sums(s);
  CHECK(s.requests.finished == finished);
  CHECK(s.requests.rejected == rejected);
  CHECK(r.it.report().models[0].counts.dropped == rejected);
}

TEST_CASE("plan server: a request that waits can be cancelled, one that runs ends with its batch") {
  plan_offer slow = offer_of(1, 20s, 0.1); // a batch waits for others for up to 10 s
  rig r(std::move(slow));
  std::array<question, 3> q;
  ticket kept = r.ask(q[0]), gone = r.ask(q[1]);
  std::this_thread::sleep_for(20ms);
  const bool waits = !kept.was_ended(); // else the plan's batches are of one request
  CHECK(gone.cancel() != gone.was_ended());
  const request_result end = gone.wait();
  if (waits) {
    CHECK(end.status == request_status::cancelled);
    CHECK(end.error == "cancelled");
    CHECK_FALSE(end.code);
    CHECK(q[1].out == 0);
  }
  CHECK_FALSE(gone.cancel());
  r.it.close(0s); // and closing cancels the other
  CHECK(kept.wait().status == (waits ? request_status::cancelled : request_status::finished));
  if (waits) CHECK(kept.result().code == errc::closed);
  check_sums(r.it.statistics());
  CHECK(refusal_line(errc::closed, [&] { static_cast<void>(r.ask(q[2])); }) != "");
}

TEST_CASE("plan server: closing serves what was accepted") {
  rig r(offer_of(1, 10s));
  std::vector<question> all(100);
  std::vector<ticket> tickets;
  for (question& q : all) tickets.push_back(r.ask(q));
  r.it.close();
  for (ticket& t : tickets) CHECK(t.result().status == request_status::finished);
}

TEST_CASE("plan server: a request starts once its event has completed") {
  rig r(offer_of(1, 10s));
  std::atomic<int> event = 1, bad = 7;
  question q, p;
  ticket t = r.it.submit({.model = model_id{0}, .payload = q.bytes(), .wait_event = &event});
  ticket f = r.it.submit({.model = model_id{0}, .payload = p.bytes(), .wait_event = &bad});
  CHECK(f.wait().status == request_status::failed);
  CHECK(f.result().error == "wait_event: failure 7");
  CHECK_FALSE(t.wait_for(20ms));
  q.in = 5; // the event says when the input is complete
  event = 0;
  CHECK(t.wait().status == request_status::finished);
  CHECK(q.out == answer_of(0, 5));
  event = 1;
  ticket c = r.it.submit({.model = model_id{0}, .payload = q.bytes(), .wait_event = &event});
  CHECK(c.cancel());
  CHECK(c.wait().status == request_status::cancelled);
  check_sums(r.it.statistics());
}

TEST_CASE("plan server: bad requests fail with one line, and so does a model that is added") {
  rig r(offer_of(1, 10s));
  question q;
  const auto line = [&](const server_request& s) {
    ticket t = r.it.submit(s);
    const request_result end = t.wait();
    CHECK(end.status == request_status::failed);
    CHECK(end.code == errc::bad_option);
    return end.error;
  };
  CHECK(line({.model = model_id{0}, .payload = q.bytes().first(15)}) ==
        "m0: payload of 15 bytes, expected 16 of inputs and outputs, or none");
  CHECK(line({.model = model_id{0}, .deadline = 5ms, .payload = q.bytes()}).find("deadline") == 0);
  ticket before = r.ask(q);
  CHECK(line({.model = model_id{0}, .payload = q.bytes(), .after = before.get()}).find("after") ==
        0);
  ticket empty = r.it.submit({.model = model_id{0}}); // of no data
  CHECK(refusal_line(errc::unknown_name, [&] {
          static_cast<void>(r.it.submit({.model = model_id{1}}));
        }).find("model 1") == 0);
  CHECK(refusal_line(errc::unknown_name, [&] {
          static_cast<void>(r.it.submit({.model = model_id{0}, .client = client_id{1}}));
        }).find("client 1") == 0);
  CHECK(r.it.add_client() == client_id{1});
  ticket second = r.it.submit({.model = model_id{0}, .client = client_id{1}});
  CHECK(refusal_line(errc::bad_option, [&] {
          static_cast<void>(r.it.add_model("late", program("late", {operation{}})));
        }).find("add_model") == 0);
  CHECK(r.it.model(model_id{0}).name == "m0");
  r.it.remove_model(model_id{0});
  CHECK(refusal_line(errc::unknown_name, [&] {
          static_cast<void>(r.it.submit({.model = model_id{0}}));
        }).find("removed") != std::string::npos);
  CHECK(second.wait().status == request_status::finished);
  check_sums(r.it.statistics());
}

TEST_CASE("plan server: a bad offer is refused in one line") {
  const auto line = [](plan_offer o) {
    return refusal_line(errc::bad_option, [&] { rig r(std::move(o)); });
  };
  plan_offer o = offer_of(2, 10ms);
  o.models.pop_back();
  CHECK(line(std::move(o)).find("1 models, expected the 2") != std::string::npos);
  o = offer_of(2, 10ms);
  std::swap(o.models[0], o.models[1]);
  CHECK(line(std::move(o)).find("model 0: expected m0") != std::string::npos);
  o = offer_of(1, 0ms);
  CHECK(line(std::move(o)).find("SLO") != std::string::npos);
  o = offer_of(1, 10ms, -1);
  CHECK(line(std::move(o)).find("rate") != std::string::npos);
  o = offer_of(1, 10ms);
  o.shapes.clear();
  CHECK(line(std::move(o)).find("GPU") != std::string::npos);
  CHECK(line(offer_of(1, 100us)).find("none serves") != std::string::npos); // one takes 212 us
}

TEST_CASE("plan server: an error of a batch fails all that was accepted, and ends the service") {
  rig r(offer_of(1, 10s));
  question first;
  CHECK(r.ask(first).wait().status == request_status::finished);
  r.control->batches_until_failure = 0;
  std::vector<question> all(50);
  std::vector<ticket> tickets;
  std::string refused;
  for (question& q : all) {
    try {
      tickets.push_back(r.ask(q));
    } catch (const error& e) {
      refused = e.what();
      break;
    }
  }
  for (ticket& t : tickets) {
    const request_result end = t.wait();
    CHECK(end.status == request_status::failed);
    CHECK(end.code == errc::device_failed);
    CHECK(end.error.find("illegal memory access") != std::string::npos);
  }
  CHECK(refusal_line(errc::device_failed, [&] {
          static_cast<void>(r.ask(first));
        }).find("illegal memory access") != std::string::npos);
  CHECK(refusal_line(errc::device_failed, [&] { r.it.close(); }).find("illegal") !=
        std::string::npos);
}

TEST_CASE("plan server: a later plan that cannot be made leaves the current one in service") {
  plan_server_options how;
  how.plan.period = 20ms;
  rig r(offer_of(1, 10s, 10), how);
  const partition_plan before = r.it.report().plan;
  r.control->plans_until_failure = 0;
  std::uint64_t failed = 0;
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (failed == 0 && std::chrono::steady_clock::now() < until) {
    std::vector<question> all(200); // more than was expected
    std::vector<ticket> tickets;
    for (question& q : all) tickets.push_back(r.ask(q));
    for (ticket& t : tickets) REQUIRE(t.wait().status == request_status::finished);
    failed = r.it.report().failed_plans;
  }
  CHECK(failed > 0);
  CHECK(r.it.report().last_failure == "no graph is left");
  CHECK(r.it.report().plan == before);
  r.control->plans_until_failure = INT32_MAX;
  question q;
  CHECK(r.ask(q).wait().status == request_status::finished);
}

TEST_CASE("plan server: the report has learned times and the reason for the last plan") {
  plan_server_options how;
  how.plan.period = 30ms;
  how.plan.corrections.fewest = 1;
  const std::vector<double> by{4.0};
  const latency_table slow = with_corrections(table_of(1), by);
  plan_server it(
      offer_of(1, 10s, 10),
      [&](const latency_table&, const interference_function& f) {
        return paced_batches(slow, f, 1, 1ms, answer);
      },
      how, [](auto&) { return number_events(); });
  CHECK(it.report().reason == replan_reason::none);
  CHECK(it.report().times == std::vector<learned_times>(1));
  CHECK(it.report().sms == 32);
  plan_report p;
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (p.reason == replan_reason::none && std::chrono::steady_clock::now() < until) {
    question q;
    REQUIRE(it.submit({.model = model_id{0}, .payload = q.bytes()}).wait().status ==
            request_status::finished);
    p = it.report();
  }
  CHECK(p.reason != replan_reason::none); // rates, too, are other than expected
  while (p.times[0].time_factor == 1 && std::chrono::steady_clock::now() < until) {
    question q;
    REQUIRE(it.submit({.model = model_id{0}, .payload = q.bytes()}).wait().status ==
            request_status::finished);
    p = it.report();
  }
  CHECK(p.times[0].time_factor > 3);
  CHECK_FALSE(p.times[0].is_too_slow);
  it.close();
}

TEST_CASE("plan server: whatever threads do, each request ends once, and the counts add up") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    plan_server_options how;
    how.plan.period = 5ms; // plans are made while requests come and go
    rig r(offer_of(2, seed % 2 == 0 ? 4ms : 200ms, 100), how);
    std::atomic<int> told{0}, posted{0}, refused{0}, wrong{0};
    std::vector<std::thread> users;
    for (std::uint64_t u = 0; u < 4; ++u)
      users.emplace_back([&, u] {
        std::mt19937_64 random(seed * 100 + u);
        std::deque<question> questions(150);
        std::deque<ticket> tickets;
        std::deque<std::size_t> asked;
        for (std::size_t i = 0; i < questions.size(); ++i) {
          questions[i].in = random() % 1000;
          const std::uint32_t model = random() % 2;
          try {
            tickets.push_back(r.it.submit({.model = model_id{model},
                                           .payload = questions[i].bytes(),
                                           .done = [&](request_record&) { ++told; },
                                           .user = &questions[i]}));
            asked.push_back(model);
            ++posted;
          } catch (const error& e) {
            refused += e.code() == errc::closed;
            wrong += e.code() != errc::closed;
          }
          if (tickets.empty()) continue;
          const std::size_t which = random() % tickets.size();
          switch (random() % 6) {
          case 0: static_cast<void>(tickets[which].cancel()); break;
          case 1: wrong += tickets[which].wait().status == request_status::pending; break;
          case 2: static_cast<void>(tickets[which].wait_for(duration{random() % 300'000})); break;
          case 3: std::this_thread::yield(); break;
          default: break;
          }
        }
        if (u == 0 && seed >= 3) r.it.close(duration{random() % 2'000'000});
        for (std::size_t i = 0; i < tickets.size(); ++i) {
          const request_result end = tickets[i].wait();
          const auto& q = *static_cast<question*>(tickets[i].get()->user);
          const bool answered = q.out == answer_of(asked[i], q.in);
          wrong += answered != (end.status == request_status::finished);
          wrong += end.status == request_status::failed;
        }
      });
    for (std::thread& u : users) u.join();
    if (seed < 3) r.it.close();
    CHECK(wrong == 0);
    CHECK(told == posted);
    CHECK(posted + refused == 4 * 150);
    const dispatch_statistics n = r.it.statistics().requests;
    CHECK(n.active == 0);
    CHECK(n.finished + n.rejected + n.cancelled == n.submitted);
    const plan_report p = r.it.report();
    std::uint64_t in_service = 0;
    for (const model_outcome& m : p.models) {
      CHECK(m.counts.arrived ==
            m.counts.in_time + m.counts.late + m.counts.dropped + m.counts.cancelled);
      in_service += m.counts.arrived;
    }
    CHECK(in_service <= n.submitted);
    CHECK(p.failed_plans == 0);
  }
}
