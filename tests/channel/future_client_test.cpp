// SPDX-License-Identifier: Apache-2.0
#include "channel/hosted.hpp"

#include <gsched/channel.hpp>
#include <gsched/core/error.hpp>

#include <doctest/doctest.h>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;
using channel::answer;
using channel::future_client;
using channel::outcome;
using channel::pending_answer;
using channel::reason;
using channel_test::fresh_name;
using channel_test::half;
using channel_test::hosted;

namespace {

constexpr std::uint64_t small_arena = 64 * 1024;

channel::client_options of_slots(std::uint32_t slots) {
  channel::client_options o;
  o.slots = slots;
  o.arena_bytes = small_arena;
  return o;
}

void fill(std::span<std::byte> to, unsigned seed) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(i * 3 + seed);
}
bool is_reversed(const channel::payload& io) {
  const std::span<std::byte> in = io.inputs();
  return std::equal(in.rbegin(), in.rend(), io.outputs().begin(), io.outputs().end());
}
/// No piece of the arena is in use.
bool is_all_free(future_client& c) {
  channel::model_entry all;
  all.input_bytes = small_arena;
  try {
    return static_cast<bool>(c.allocate(all));
  } catch (const error&) {
    return false;
  }
}
template <class F>
std::string refusal_of(errc code, F f) {
  try {
    f();
  } catch (const error& e) {
    CHECK(e.code() == code);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}
/// Unknown, or cancelled by a server that was quick to reply.
bool is_lost(const answer& a) {
  return a.end.how == outcome::cancelled ||
         (a.end.how == outcome::unknown && a.end.text.find("was closed") != std::string::npos);
}
template <class F>
bool comes_true(F f) {
  for (int n = 0; n < 10000 && !f(); ++n) std::this_thread::sleep_for(1ms);
  return f();
}

/// host_process, in a process of its own.
struct other_process {
  other_process() {
    int out[2];
    REQUIRE(::pipe(out) == 0);
    REQUIRE(::pipe(in) == 0);
    id = ::fork();
    REQUIRE(id >= 0);
    if (id == 0) {
      ::dup2(out[1], 1);
      ::dup2(in[0], 0);
      ::close(in[1]);
      ::execl(GSCHED_HOST_PROCESS, "host_process", socket.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(in[0]);
    char ready[6] = {};
    CHECK(::read(out[0], ready, sizeof ready) == 6);
    ::close(out[0]);
  }
  ~other_process() {
    kill();
    ::close(in[1]);
  }
  void kill() {
    if (id > 0) {
      ::kill(id, SIGKILL);
      ::waitpid(std::exchange(id, 0), nullptr, 0);
    }
  }
  std::string socket = fresh_name();
  int in[2];
  pid_t id = 0;
};

} // namespace

TEST_CASE("future client: many threads, many requests, and all of the arena is free again") {
  hosted h;
  for (const channel::wait_by by :
       {channel::wait_by::hybrid, channel::wait_by::polling, channel::wait_by::waiting}) {
    channel::client_options how = of_slots(32);
    how.wait = by;
    future_client c(h.socket, how);
    const channel::model_entry m = c.model("brief");
    std::atomic<int> right{0};
    std::vector<std::thread> all;
    for (unsigned t = 0; t < 4; ++t)
      all.emplace_back([&, t] {
        for (unsigned round = 0; round < 5; ++round) {
          std::vector<pending_answer> asked;
          for (unsigned n = 0; n < 8; ++n) {
            channel::payload io = c.allocate(m);
            fill(io.inputs(), t * 64 + round * 8 + n);
            asked.push_back(c.submit(m, std::move(io)));
          }
          static_cast<void>(c.models());
          for (unsigned n = 0; n < 8; ++n) {
            const answer a = asked[n].get();
            right += a.has_finished() && a.end.id == asked[n].id() && is_reversed(a.io) &&
                     a.io.inputs()[1] == static_cast<std::byte>(3 + t * 64 + round * 8 + n);
          }
        }
      });
    for (std::thread& t : all) t.join();
    CHECK(right == 160);
    CHECK(c.in_flight() == 0);
    CHECK(is_all_free(c));
  }
}

TEST_CASE("future client: a callback comes once, and may submit") {
  hosted h;
  future_client c(h.socket, of_slots(8));
  const channel::model_entry m = c.model("brief");
  std::promise<void> over;
  int calls = 0; // of one thread
  std::function<void(answer)> again = [&](answer a) {
    CHECK(a.has_finished());
    if (++calls == 20) return over.set_value();
    c.submit(m, std::move(a.io), {}, again);
  };
  c.submit(m, c.allocate(m), {}, again);
  REQUIRE(over.get_future().wait_for(20s) == std::future_status::ready);
  CHECK(calls == 20);
  CHECK(comes_true([&] { return c.in_flight() == 0; }));
  CHECK(comes_true([&] { return is_all_free(c); }));
}

TEST_CASE("future client: every kind of end reaches its request") {
  other_process server;
  future_client c(server.socket, of_slots(8));
  CHECK(c.models().size() == 3);
  const channel::model_entry m = c.model("brief");
  CHECK(c.submit(m, c.allocate(m)).get().has_finished());

  answer failed = c.submit(c.model("failing"), c.allocate(c.model("failing"))).get();
  CHECK(failed.end.how == outcome::failed);
  CHECK(failed.end.why == reason::job_failed);
  CHECK(failed.end.text.find("out of order") != std::string::npos);

  answer late = c.submit(c.model("endless"), c.allocate(m), {.deadline = 1ms}).get();
  CHECK(late.end.how == outcome::rejected);
  CHECK(late.end.why == reason::deadline);

  channel::model_entry none = m;
  none.id = 77;
  answer refused = c.submit(none, c.allocate(m)).get();
  CHECK(refused.end.how == outcome::refused);
  CHECK(refused.end.why == reason::unknown_model);

  pending_answer endless = c.submit(c.model("endless"), c.allocate(m));
  CHECK(!endless.wait_for(20ms));
  endless.cancel();
  CHECK(endless.get().end.how == outcome::cancelled);
  CHECK(!endless.valid());

  CHECK(refusal_of(errc::unknown_name, [&] {
          static_cast<void>(c.model("x"));
        }).find("brief, endless, failing") != std::string::npos);
  refusal_of(errc::bad_option, [&] { static_cast<void>(c.submit(m, channel::payload())); });
  future_client other(server.socket, of_slots(8));
  refusal_of(errc::bad_option, [&] { static_cast<void>(c.submit(m, other.allocate(m))); });
  std::vector<pending_answer> eight;
  for (int n = 0; n < 8; ++n) eight.push_back(c.submit(c.model("endless"), c.allocate(m)));
  refusal_of(errc::too_small, [&] { static_cast<void>(c.submit(m, c.allocate(m))); });
  for (pending_answer& p : eight) p.cancel();
  for (pending_answer& p : eight) CHECK(p.get().end.how == outcome::cancelled);
  CHECK(!is_all_free(c));
  for (answer* a : {&failed, &late, &refused}) a->io.reset();
  CHECK(is_all_free(c));
}

TEST_CASE("future client: a request is cancelled however many came after it") {
  hosted h;
  future_client c(h.socket, of_slots(8));
  const channel::model_entry endless = c.model("endless");
  std::vector<pending_answer> held;
  held.push_back(c.submit(endless, c.allocate(endless)));
  for (int n = 0; n < 20; ++n) {
    pending_answer p = c.submit(endless, c.allocate(endless));
    p.cancel();
    CHECK(p.get().end.how == outcome::cancelled);
  }
  held[0].cancel();
  REQUIRE(held[0].wait_for(20s));
  CHECK(held[0].get().end.how == outcome::cancelled);
}

TEST_CASE("future client: close ends every request once, and payloads outlive it") {
  hosted h;
  std::vector<answer> kept;
  {
    future_client c(h.socket, of_slots(8));
    const channel::model_entry m = c.model("brief");
    const channel::model_entry endless = c.model("endless");
    std::array<int, 4> calls{};
    std::vector<pending_answer> asked;
    for (int n = 0; n < 4; ++n) {
      asked.push_back(c.submit(endless, c.allocate(m)));
      c.submit(endless, c.allocate(m), {}, [&, n](answer a) {
        CHECK(is_lost(a));
        ++calls[static_cast<std::size_t>(n)];
        c.close(); // on the thread that reads: returns at once
      });
    }
    c.close();
    for (const int n : calls) CHECK(n == 1);
    for (pending_answer& p : asked) {
      REQUIRE(p.wait_for(0ms));
      kept.push_back(p.get());
    }
    for (const answer& a : kept) CHECK(is_lost(a));
    CHECK(refusal_of(errc::closed, [&] { static_cast<void>(c.models()); }).find("was closed") !=
          std::string::npos);
    c.close();
  }
  for (answer& a : kept) fill(a.io.bytes(), 1); // the memory is there
  CHECK(h.come_to(0));
  CHECK(h.host->statistics().requests.cancelled == h.host->statistics().requests.read);
}

TEST_CASE("future client: the death of the server ends every request") {
  for (int round = 0; round < 3; ++round) {
    other_process server;
    future_client c(server.socket, of_slots(16));
    const channel::model_entry m = c.model("brief");
    const channel::model_entry endless = c.model("endless");
    std::atomic<int> ended{0};
    std::vector<pending_answer> asked;
    for (int n = 0; n < 6; ++n) {
      asked.push_back(c.submit(n % 2 == 0 ? m : endless, c.allocate(m)));
      c.submit(endless, c.allocate(m), {},
               [&](answer a) { ended += a.end.how == outcome::unknown; });
    }
    std::thread more([&] { // submits until it is refused
      try {
        for (;;) {
          pending_answer p = c.submit(m, c.allocate(m));
          if (p.get().end.how == outcome::unknown) break;
        }
      } catch (const error& e) {
        CHECK(e.code() == errc::closed);
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(round));
    server.kill();
    for (pending_answer& p : asked) {
      REQUIRE(p.wait_for(20s));
      const outcome how = p.get().end.how;
      CHECK((how == outcome::unknown || how == outcome::finished));
    }
    more.join();
    CHECK(comes_true([&] { return ended == 6; }));
    CHECK(refusal_of(errc::closed, [&] {
            static_cast<void>(c.submit(m, c.allocate(m)));
          }).find("has gone") != std::string::npos);
  }
}

TEST_CASE("future client: a forked child is refused, and does not hold on to the connection") {
  other_process server;
  std::optional<future_client> c(std::in_place, server.socket, of_slots(8));
  const channel::model_entry m = c->model("brief");
  pending_answer p = c->submit(c->model("endless"), c->allocate(m));
  channel::payload piece = c->allocate(m);
  std::optional<channel::client> plain(std::in_place, server.socket, of_slots(8));
  int stop[2];
  REQUIRE(::pipe(stop) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(server.in[1]);
    int wrong = 0;
    const auto refused = [&](const std::function<void()>& f) {
      try {
        f();
        ++wrong;
      } catch (const error& e) {
        wrong +=
            e.code() != errc::bad_option || std::string(e.what()).find("fork") == std::string::npos;
      }
    };
    refused([&] { static_cast<void>(c->models()); });
    refused([&] { static_cast<void>(c->allocate(m)); });
    refused([&] { static_cast<void>(c->in_flight()); });
    refused([&] { c->cancel(p.id()); });
    refused([&] { p.cancel(); });
    refused([&] { static_cast<void>(c->submit(m, std::move(piece))); });
    c.reset();
    plain.reset();
    char x = 0;
    ::close(stop[1]);
    wrong += ::read(stop[0], &x, 1) != 0;
    ::_exit(wrong);
  }
  ::close(stop[0]);
  CHECK(!p.wait_for(50ms)); // the child's end of its copy has not ended it
  CHECK(c->submit(m, c->allocate(m)).get().has_finished());
  CHECK(plain->models().size() == 3);
  plain.reset();
  c.reset(); // the server learns of it while the child lives
  CHECK(is_lost(p.get()));
  ::close(server.in[1]); // it waits until all have left
  int status = -1;
  CHECK(::waitpid(std::exchange(server.id, 0), &status, 0) > 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  server.in[1] = -1;
  ::close(stop[1]);
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("shared client: one thread reads at a time, an event loop too, and close wakes it") {
  hosted h;
  channel::client_options how = of_slots(8);
  how.wait = channel::wait_by::waiting;
  channel::shared_client c(h.socket, how);
  const channel::model_entry m = c.model("brief");
  const std::span<std::byte> io = c.allocate(m.payload_bytes());

  // By its file. models() on the way may take a wake-up, and must not lose it.
  for (int round = 0; round < 20; ++round) {
    c.predict(m.id, io);
    std::optional<channel::reply> r;
    while (!r) {
      if (c.arm()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        static_cast<void>(c.models());
        pollfd p{c.file(), POLLIN, 0};
        REQUIRE(::poll(&p, 1, 20000) == 1);
      }
      CHECK(c.take_wake_ups());
      r = c.read_result_within(duration::zero());
    }
    CHECK(r->how == outcome::finished);
  }
  CHECK(!c.read_result_within(duration::zero()));
  static_cast<void>(c.models());
  CHECK(c.take_wake_ups());
  pollfd none{c.file(), POLLIN, 0};
  CHECK(::poll(&none, 1, 0) == 0);

  std::atomic<bool> waits{false};
  std::thread reader([&] {
    waits = true;
    refusal_of(errc::closed, [&] { static_cast<void>(c.read_result_within(duration::max())); });
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  CHECK(refusal_of(errc::bad_option, [&] {
          static_cast<void>(c.read_result_within(1ms));
        }).find("another thread reads") != std::string::npos);
  c.close();
  reader.join();
  refusal_of(errc::closed, [&] { c.predict(m.id, io); });
  c.release(io);
}
