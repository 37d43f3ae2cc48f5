// SPDX-License-Identifier: Apache-2.0
// Requests that wait: for events, for other requests, for models that exclude theirs. Models that
// are removed, or of which nothing stays. What a child made by fork() may do: nothing.
#include "cuda/c_abi_rig.hpp"

#include "model_check.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace gsched;
using namespace gsched::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t never_away_ns = 3'600'000'000'000;

/// One request with its memory, whose ticket goes with it.
struct asked {
  std::uint64_t in = 1;
  std::uint64_t out = 0;
  gsched_ticket* ticket = nullptr;

  asked() = default;
  asked(const asked&) = delete;
  asked& operator=(const asked&) = delete;
  ~asked() {
    if (ticket != nullptr) ticket->release();
  }
  void submit(server_rig& to, gsched_request r) {
    const void* from[] = {&in};
    void* into[] = {&out};
    r.inputs = from;
    r.outputs = into;
    ticket = to.submit(r);
  }
  [[nodiscard]] bool finished() const {
    return abi::server::wait(*ticket, 20 * second_us) &&
           ticket->status == request_status::finished && out == 3 * in + 1;
  }
  [[nodiscard]] bool ended(gsched_state how, const std::string& line) const {
    if (!abi::server::wait(*ticket, 20 * second_us)) return false;
    INFO(ticket->error);
    CHECK(ticket->error.find(line) != std::string::npos);
    return ticket->status == static_cast<request_status>(how);
  }
};

[[nodiscard]] gsched_request request(std::uint32_t model, std::uint32_t client) {
  gsched_request r{};
  r.model = model;
  r.client = client;
  return r;
}

void soon(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (!holds() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  CHECK(holds());
}

} // namespace

TEST_CASE("events: a request starts, and reads its inputs, once its event has completed") {
  server_rig r("srpt");
  const std::uint32_t m = r.add_model(2);
  const std::uint32_t c = r.it.add_client(1.0);
  fake_event e;
  asked x;
  gsched_request q = request(m, c);
  q.wait_event = &e;
  x.submit(r, q);
  asked others[20];
  for (asked& o : others) {
    o.submit(r, request(m, c)); // both instances are free
    CHECK(o.finished());
  }
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(x.ticket->has_ended());
  const std::uint64_t sleeps = r.it.statistics().sleeps;
  const auto since = std::chrono::steady_clock::now();
  const int before = e.queries;
  soon([&] { return e.queries - before >= 50; }); // it is asked for, again and again, ...
  const int asked_for = e.queries - before;
  const auto took = std::chrono::steady_clock::now() - since;
  CHECK(asked_for <= took / 5us + 2);        // ... though not without pause ...
  CHECK(r.it.statistics().sleeps == sleeps); // ... and without a sleep
  CHECK(r.it.statistics().active == 1);
  x.in = 77; // what is there when the event completes
  e.code = 0;
  CHECK(x.finished());
  CHECK(x.out == 3 * 77 + 1);
  CHECK(abi::code_of(x.ticket->code) == GSCHED_OK);
  const int last = e.queries;
  std::this_thread::sleep_for(2ms);
  CHECK(e.queries == last);
}

TEST_CASE("events: one that has completed is asked for once") {
  server_rig r("fifo");
  fake_event e;
  e.code = 0;
  asked x;
  gsched_request q = request(r.add_model(1), r.it.add_client(1.0));
  q.wait_event = &e;
  x.submit(r, q);
  CHECK(x.finished());
  CHECK(e.queries == 1);
}

TEST_CASE("events: one that fails, at once or later, fails its request with CUDA's words") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1);
  const std::uint32_t c = r.it.add_client(1.0);
  for (const bool later : {false, true})
    for (const auto& [code, says] : {std::pair{400, GSCHED_BAD_ARGUMENT}, // an invalid handle
                                     std::pair{700, GSCHED_DEVICE_FAILED}}) {
      fake_event e;
      asked x;
      if (!later) e.code = code;
      gsched_request q = request(m, c);
      q.wait_event = &e;
      x.submit(r, q);
      if (later) {
        soon([&] { return e.queries > 2; });
        e.code = code;
      }
      CHECK(x.ended(GSCHED_FAILED, "wait_event: CUDA's words for " + std::to_string(code)));
      CHECK(abi::code_of(x.ticket->code) == says);
      CHECK(x.ticket->start_ns == 0);
    }
  asked x;
  x.submit(r, request(m, c));
  CHECK(x.finished());
  const gsched_statistics s = r.it.statistics();
  CHECK(s.failed == 4);
  CHECK(s.submitted == 5);
  CHECK(s.active == 0);
}

TEST_CASE("events: a server that was given none refuses requests that wait for one") {
  gsched::event_source none;
  const abi::settings how = abi::settings_of(options_for("fifo"));
  abi::server it(abi::serve(how, [] { return fake_device(std::make_shared<fake_control>()); }),
                 [](const void*) { return abi::memory_kind::pageable; });
  auto made = std::make_shared<fake_instance>(3, from_us(5));
  gsched_request q{};
  q.size = sizeof q;
  q.model = it.add_model({}, [&] {
    auto m = std::make_unique<abi::model>("fake", std::vector<model_instance>());
    m->instances.push_back({&made->graph, made});
    m->buffers.emplace_back();
    return m;
  });
  q.client = it.add_client(1.0);
  q.wait_event = &none;
  gsched_ticket* t = nullptr;
  it.submit(q, &t);
  CHECK(abi::server::wait(*t, 20 * second_us));
  CHECK(t->error == "wait_event: this server has no events");
  t->release();
}

TEST_CASE("events: what waits is cancelled, drained and given up as everything else") {
  for (const int way : {0, 1, 2, 3}) {
    CAPTURE(way);
    server_rig r("fifo");
    fake_event e;
    asked x;
    asked follows;
    gsched_request q = request(r.add_model(1), r.it.add_client(1.0));
    q.wait_event = &e;
    x.submit(r, q);
    q.wait_event = nullptr;
    q.after = x.ticket;
    follows.submit(r, q);
    std::string why;
    if (way == 0) {
      CHECK(abi::server::cancel(*x.ticket));
      CHECK(x.ended(GSCHED_CANCELLED, "cancelled"));
      CHECK(follows.ended(GSCHED_CANCELLED, "cancelled: its predecessor was cancelled"));
      CHECK(abi::code_of(x.ticket->code) == GSCHED_OK);
      CHECK(abi::code_of(follows.ticket->code) == GSCHED_OK);
    } else if (way == 1) {
      CHECK(close(r.it, GSCHED_CANCEL, 0, why) == GSCHED_OK);
      CHECK(x.ended(GSCHED_CANCELLED, "cancelled"));
      CHECK(abi::code_of(x.ticket->code) == GSCHED_CLOSED);
      CHECK(follows.ticket->has_ended());
    } else if (way == 2) {
      CHECK(close(r.it, GSCHED_DRAIN, 5000, why) == GSCHED_OK);
      CHECK(x.ended(GSCHED_CANCELLED, "cancelled"));
    } else {
      std::thread later([&] {
        std::this_thread::sleep_for(20ms);
        e.code = 0;
      });
      CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
      later.join();
      CHECK(x.finished());
      CHECK(follows.finished());
    }
  }
}

TEST_CASE("events: many that wait do not hold up the others, and each completes by itself") {
  server_rig r("srpt");
  const std::uint32_t m = r.add_model(4);
  const std::uint32_t c = r.it.add_client(1.0);
  constexpr std::size_t count = 300;
  std::vector<fake_event> events(count);
  std::vector<asked> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    gsched_request q = request(m, c);
    q.wait_event = &events[i];
    all[i].in = i;
    all[i].submit(r, q);
  }
  for (int i = 0; i < 50; ++i) {
    asked x;
    x.submit(r, request(m, c));
    CHECK(x.finished());
  }
  for (const asked& x : all) CHECK_FALSE(x.ticket->has_ended());
  for (std::size_t i = count; i > 0; --i) events[i - 1].code = 0;
  for (const asked& x : all) CHECK(x.finished());
  CHECK(r.it.statistics().finished == count + 50);
}

TEST_CASE("events: one to signal is recorded once, however its request ends, before that is said") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1);
  const std::uint32_t c = r.it.add_client(1.0);
  const auto ends = [&](const std::function<void(gsched_request&, asked&)>& how,
                        gsched_state state) {
    fake_event e;
    struct watch {
      fake_event* e;
      std::atomic<int> early{0};
      std::atomic<bool> done{false};
    } w{&e};
    asked x;
    gsched_request q = request(m, c);
    q.signal_event = &e;
    q.user = &w;
    q.done = [](void* user, gsched_ticket* t) {
      auto& told = *static_cast<watch*>(user);
      told.early += told.e->records != 1 || !t->has_ended();
      told.done = true;
    };
    how(q, x);
    CHECK(abi::server::wait(*x.ticket, 20 * second_us));
    CHECK(x.ticket->status == static_cast<request_status>(state));
    soon([&] { return w.done.load(); });
    CHECK(w.early == 0);
    CHECK(e.records == 1);
  };
  ends([&](gsched_request& q, asked& x) { x.submit(r, q); }, GSCHED_FINISHED);
  fake_event pending;
  ends(
      [&](gsched_request& q, asked& x) {
        q.wait_event = &pending;
        x.submit(r, q);
        CHECK(abi::server::cancel(*x.ticket));
      },
      GSCHED_CANCELLED);
  pending.code = 700;
  ends(
      [&](gsched_request& q, asked& x) {
        q.wait_event = &pending;
        x.submit(r, q);
      },
      GSCHED_FAILED);
  pending.code = 600;
  asked waits;
  gsched_request q = request(m, c);
  q.wait_event = &pending;
  fake_event at_close;
  q.signal_event = &at_close;
  waits.submit(r, q);
  std::string why;
  CHECK(close(r.it, GSCHED_CANCEL, 0, why) == GSCHED_OK);
  CHECK(at_close.records == 1);
}

TEST_CASE("events: one that cannot be recorded fails a request that would have finished") {
  server_rig r("fifo");
  fake_event e;
  e.record_code = 400;
  asked x;
  gsched_request q = request(r.add_model(1), r.it.add_client(1.0));
  q.signal_event = &e;
  x.submit(r, q);
  CHECK(x.ended(GSCHED_FAILED, "signal_event: CUDA's words for 400"));
  CHECK(abi::code_of(x.ticket->code) == GSCHED_BAD_ARGUMENT);
  const gsched_statistics s = r.it.statistics();
  CHECK(s.finished == 0);
  CHECK(s.failed == 1);
}

TEST_CASE("events: a driver that does not come back from recording one is left behind") {
  static server_rig* const r = new server_rig("fifo"); // its thread is left behind, and uses it
  static fake_event* const e = new fake_event;
  e->as_recorded = [] {
    for (;;) std::this_thread::sleep_for(1h);
  };
  asked x;
  asked y;
  gsched_request q = request(r->add_model(1), r->it.add_client(1.0));
  fake_event never;
  q.wait_event = &never;
  y.submit(*r, q);
  q.wait_event = nullptr;
  q.signal_event = e;
  x.submit(*r, q);
  CHECK(x.ended(GSCHED_FAILED, "did not come back"));
  CHECK(abi::code_of(x.ticket->code) == GSCHED_DEVICE_FAILED);
  CHECK(y.ended(GSCHED_FAILED, "did not come back"));
  CHECK(abi::code_of(y.ticket->code) == GSCHED_DEVICE_FAILED);
  std::string why;
  CHECK(close(r->it, GSCHED_DRAIN, -1, why) == GSCHED_TIMED_OUT);
}

namespace {

void never_returns() {
  for (;;) std::this_thread::sleep_for(1h);
}

} // namespace

TEST_CASE("takeover: what was posted behind a request on which the driver hangs ends as well") {
  static server_rig* const r = new server_rig("fifo"); // its thread is left behind, and uses it
  static fake_event* const e = new fake_event;
  static std::atomic<bool> inside{false}, goes_on{false}, answered{false};
  e->as_asked = never_returns;
  const std::uint32_t m = r->add_model(1);
  const std::uint32_t c = r->it.add_client(1.0);
  asked holds, a, b;
  gsched_request q = request(m, c);
  q.done = [](void*, gsched_ticket*) {
    inside = true;
    while (!goes_on) std::this_thread::sleep_for(1ms);
  };
  holds.submit(*r, q);
  soon([&] { return inside.load(); });
  q = request(m, c);
  q.wait_event = e;
  a.submit(*r, q); // a, b, a cancel message and a command are one batch
  b.submit(*r, request(m, c));
  CHECK(abi::server::cancel(*b.ticket));
  std::thread([] {
    const gsched_code code = code_of([] { static_cast<void>(r->it.add_client(1.0)); });
    answered = code == GSCHED_CLOSED || code == GSCHED_DEVICE_FAILED;
  }).detach();
  std::this_thread::sleep_for(20ms);
  goes_on = true;
  for (const asked* x : {&b, &a}) {
    CHECK(x->ended(GSCHED_FAILED, "did not come back"));
    CHECK(abi::code_of(x->ticket->code) == GSCHED_DEVICE_FAILED);
  }
  soon([&] { return answered.load(); });
  soon([&] { return b.ticket->owners == 1; }); // the cancel message has ended, too
}

TEST_CASE("takeover: a close whose driver hangs on the first request of the inbox ends the rest") {
  static const auto d = std::make_shared<detail::server_state>();
  static fake_event* const e = new fake_event;
  static const gsched::event_source* const source = new gsched::event_source(fake_event::source());
  e->as_recorded = never_returns;
  d->longest_away_ns = std::chrono::nanoseconds(50ms).count();
  d->events = source;
  asked a, b;
  for (asked* x : {&a, &b}) x->ticket = new gsched_ticket(d);
  a.ticket->signal_event = e;
  for (asked* x : {&a, &b}) REQUIRE(d->try_post(x->ticket->asked));
  std::thread([] {
    d->end_everything(request_status::cancelled, errc::closed, "closed");
  }).detach();
  for (const asked* x : {&b, &a}) CHECK(x->ended(GSCHED_FAILED, "did not come back"));
  CHECK(d->live.empty());
}

TEST_CASE("takeover: tickets that the hung call may still read are never freed") {
  static server_rig* const r = new server_rig("fifo"); // its thread is left behind, and uses it
  static fake_event* const stream = new fake_event;
  stream->code = 0;
  const std::uint32_t m = r->add_model(1);
  const std::uint32_t c = r->it.add_client(1.0);
  r->control->submits_until_hang = 0;
  asked x;
  gsched_request q = request(m, c);
  q.wait_stream = stream; // the ticket owns a mark of it
  x.submit(*r, q);
  CHECK(x.ended(GSCHED_FAILED, "did not come back"));
  x.ticket->release();
  x.ticket = nullptr;
  CHECK(stream->marks == 1);
  r->control->hang_ends = true; // the driver returns and reads the request's copy
  soon([&] { return r->control->read_late == 1; });
  CHECK(stream->marks == 1);
}

TEST_CASE(
    "after: requests run one after another, and those after one that does not finish do not") {
  server_rig r("srpt");
  const std::uint32_t m = r.add_model(4);
  const std::uint32_t c = r.it.add_client(1.0);
  constexpr std::size_t count = 300;
  std::vector<asked> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    gsched_request q = request(m, c);
    if (i > 0) q.after = all[i - 1].ticket;
    all[i].in = i;
    all[i].submit(r, q);
  }
  for (const asked& x : all) CHECK(x.finished());
  for (std::size_t i = 1; i < count; ++i)
    CHECK(all[i].ticket->start_ns >= all[i - 1].ticket->end_ns);
  asked late;
  gsched_request q = request(m, c);
  q.after = all[0].ticket; // it has long ended
  late.submit(r, q);
  CHECK(late.finished());

  fake_event e;
  e.code = 400;
  asked failed;
  q = request(m, c);
  q.wait_event = &e;
  failed.submit(r, q);
  CHECK(failed.ended(GSCHED_FAILED, "words"));
  asked follows; // of one that has ended
  q.wait_event = nullptr;
  q.after = failed.ticket;
  follows.submit(r, q);
  CHECK(follows.ended(GSCHED_CANCELLED, "cancelled: its predecessor failed"));
  asked again; // of one that was cancelled for it
  q.after = follows.ticket;
  again.submit(r, q);
  CHECK(again.ended(GSCHED_CANCELLED, "cancelled: its predecessor was cancelled"));
  CHECK(r.it.statistics().cancelled == 2);
}

TEST_CASE("after: the ticket is needed during the call only, and is of the same server") {
  server_rig r("fifo");
  server_rig other("fifo");
  const std::uint32_t m = r.add_model(1, 20, from_us(100)); // 2 ms
  const std::uint32_t c = r.it.add_client(1.0);
  gsched_ticket* before = r.submit(m, c);
  gsched_request q = request(m, c);
  q.after = before;
  asked x;
  x.submit(r, q);
  before->release();
  CHECK(x.finished());
  std::string line;
  gsched_request foreign = request(other.add_model(1), other.it.add_client(1.0));
  foreign.after = x.ticket;
  CHECK(code_of([&] { static_cast<void>(other.submit(foreign)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line.find("after: a request of another server") == 0);
}

TEST_CASE("after: an event and a request are both waited for") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(2, 20, from_us(50));
  const std::uint32_t c = r.it.add_client(1.0);
  for (const bool event_first : {false, true}) {
    fake_event first_of;
    fake_event e;
    asked first;
    asked both;
    gsched_request q = request(m, c);
    q.wait_event = &first_of;
    first.submit(r, q);
    q.wait_event = &e;
    q.after = first.ticket;
    both.submit(r, q);
    (event_first ? e : first_of).code = 0;
    std::this_thread::sleep_for(10ms);
    CHECK_FALSE(both.ticket->has_ended());
    (event_first ? first_of : e).code = 0;
    CHECK(both.finished());
    CHECK(both.ticket->start_ns >= first.ticket->end_ns);
  }
}

TEST_CASE("excludes: requests of models that exclude one another, or themselves, do not overlap") {
  server_rig r("srpt");
  const std::uint32_t first = r.add_model(2);
  const std::uint32_t second = r.add_model(2, 20, from_us(5), {first});
  const std::uint32_t alone = r.add_model(3, 20, from_us(5), {}, true);
  const std::uint32_t c = r.it.add_client(1.0);
  std::vector<asked> all(300);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].submit(r, request(std::vector{first, second, alone}[i % 3], c));
  for (const asked& x : all) CHECK(x.finished());
  int overlaps = 0;
  int beside = 0;
  for (const asked& x : all)
    for (const asked& y : all) {
      if (&x == &y || x.ticket->start_ns > y.ticket->start_ns) continue;
      if (x.ticket->end_ns <= y.ticket->start_ns) continue;
      const std::uint32_t a = x.ticket->model;
      const std::uint32_t b = y.ticket->model;
      const bool excluded = (a == alone && b == alone) || (a != b && a != alone && b != alone);
      overlaps += excluded;
      beside += !excluded;
    }
  CHECK(overlaps == 0);
  CHECK(beside > 0);
  std::string line;
  CHECK(code_of([&] { static_cast<void>(r.add_model(1, 2, from_us(5), {99})); }, &line) ==
        GSCHED_BAD_ARGUMENT);
  CHECK(line == "model 99: unknown, the server has 3");
}

TEST_CASE("remove: a model serves what it has, takes no more, and frees its memory") {
  server_rig r("srpt");
  const std::uint32_t stays = r.add_model(1);
  const std::uint32_t m = r.add_model(2, 20, from_us(100), {stays}); // 2 ms
  const std::weak_ptr<fake_instance> memory = r.last_made;
  const std::uint32_t c = r.it.add_client(1.0);
  CHECK(r.control->loaded == 3);
  r.control->frozen = true;
  std::vector<asked> all(20);
  for (asked& x : all) x.submit(r, request(m, c));
  std::string line;
  CHECK(code_of([&] { r.it.remove_model(m, 2000); }, &line) == GSCHED_TIMED_OUT);
  CHECK(line.find("requests have not ended in time; it takes no more") != std::string::npos);
  CHECK(code_of([&] { static_cast<void>(r.submit(m, c)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "model " + std::to_string(m) + ": removed");
  std::thread removing([&] { r.it.remove_model(m, -1); });
  std::this_thread::sleep_for(5ms);
  CHECK(r.it.statistics().active == 20); // other commands are served meanwhile
  CHECK_FALSE(memory.expired());
  r.control->frozen = false;
  removing.join();
  for (const asked& x : all) CHECK(x.finished());
  CHECK(memory.expired());
  CHECK(r.control->loaded == 1);
  CHECK(code_of([&] { r.it.remove_model(m, 0); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line.find("removed already") != std::string::npos);
  CHECK(code_of([&] { r.it.remove_model(77, 0); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(r.it.facts(m).instances == 2);
  const std::uint32_t next = r.add_model(1, 20, from_us(5), {m, stays}); // m does not count
  CHECK(next == m + 1);
  for (const std::uint32_t model : {stays, next}) {
    asked x;
    x.submit(r, request(model, c));
    CHECK(x.finished());
  }
}

TEST_CASE("remove: requests of other threads end or are refused, whenever they come") {
  server_rig r("fifo");
  const std::uint32_t c = r.it.add_client(1.0);
  for (int round = 0; round < 20; ++round) {
    const std::uint32_t m = r.add_model(2, 4, from_us(10));
    std::atomic<int> accepted{0};
    std::atomic<int> ended{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        gsched_request q = request(m, c);
        q.size = sizeof q;
        q.user = &ended;
        q.done = [](void* user, gsched_ticket* t) {
          auto& n = *static_cast<std::atomic<int>*>(user);
          // Threads that are not held up submit more than a server takes.
          const bool rejected = t->status == request_status::rejected;
          const bool removed = t->error == "cancelled: its model was removed";
          if (t->status == request_status::finished || rejected || removed) ++n;
        };
        while (code_of([&] { r.it.submit(q, nullptr); }) == GSCHED_OK) ++accepted;
      });
    std::this_thread::sleep_for(1ms);
    r.it.remove_model(m, -1);
    for (std::thread& t : threads) t.join();
    soon([&] { return ended == accepted; });
  }
  CHECK(r.control->loaded == 0);
}

TEST_CASE("remove: a closed server removes nothing more, and its own end frees all") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1);
  const std::weak_ptr<fake_instance> memory = r.last_made;
  std::string why;
  CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
  CHECK(code_of([&] { r.it.remove_model(m, -1); }) == GSCHED_CLOSED);
  CHECK(memory.expired());
}

TEST_CASE("server: a model that cannot be built leaves nothing behind") {
  server_rig r("srpt");
  const std::uint32_t first = r.add_model(1);
  for (const int loads : {0, 1, 2}) {
    r.control->loads_until_failure = loads;
    std::string line;
    CHECK(code_of([&] { static_cast<void>(r.add_model(3)); }, &line) == GSCHED_OUT_OF_MEMORY);
    CHECK(r.control->loaded == 1);
    CHECK(r.last_made.expired());
  }
  r.control->loads_until_failure = 100;
  for (const int builds : {0, 1, 2}) {
    r.control->builds_until_failure = builds;
    CHECK(code_of([&] { static_cast<void>(r.add_model(3)); }) == GSCHED_OUT_OF_MEMORY);
    CHECK(r.control->built == 1);
    CHECK(r.last_made.expired());
  }
  r.control->builds_until_failure = 100;
  CHECK(r.add_model(2) == first + 1);
  CHECK(r.control->loaded == 3);
  CHECK(r.control->built == 3);
}

TEST_CASE("server: requests are served while a model is built") {
  server_rig r("srpt");
  const std::uint32_t m = r.add_model(1);
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->builds = false;
  std::uint32_t added = 0;
  std::thread other([&] { added = r.add_model(1); });
  soon([&] { return r.control->building.load() > 0; });
  for (int i = 0; i < 3; ++i) {
    asked one;
    one.submit(r, request(m, c));
    CHECK(one.finished());
  }
  CHECK(r.control->building == 1);
  r.control->builds = true;
  other.join();
  asked last;
  last.submit(r, request(added, c));
  CHECK(last.finished());
}

TEST_CASE("server: closing waits for a model that is built, which is refused") {
  server_rig r("srpt");
  r.control->builds = false;
  gsched_code code = GSCHED_OK;
  std::thread other([&] { code = code_of([&] { static_cast<void>(r.add_model(2)); }); });
  soon([&] { return r.control->building.load() > 0; });
  std::thread builder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    r.control->builds = true;
  });
  std::string why;
  CHECK(close(r.it, GSCHED_CANCEL, 0, why) == GSCHED_OK);
  other.join();
  builder.join();
  CHECK(code == GSCHED_CLOSED);
  CHECK(r.control->built == 0);
  CHECK(r.control->loaded == 0);
  CHECK(r.last_made.expired());
}

TEST_CASE("add: what can be refused is refused before the model uses the GPU") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1);
  gsched_request q = request(m, r.it.add_client(1.0));
  std::atomic<int> refused{-1};
  struct both {
    server_rig& rig;
    std::atomic<int>& refused;
  } user{r, refused};
  q.user = &user;
  q.done = [](void* given, gsched_ticket*) {
    both& to = *static_cast<both*>(given);
    to.refused = code_of([&] { static_cast<void>(to.rig.add_model(1)); });
  };
  asked one;
  one.submit(r, q);
  soon([&] { return refused >= 0; });
  CHECK(refused == GSCHED_BAD_ARGUMENT); // on the dispatcher's thread
  std::string line;
  CHECK(code_of(
            [&] {
              static_cast<void>(r.add_model(1, 2, from_us(5), {m, 99}));
            },
            &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "model 99: unknown, the server has 1");
  std::string why;
  CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
  CHECK(code_of([&] { static_cast<void>(r.add_model(1)); }) == GSCHED_CLOSED);
  CHECK(r.measured == 1);
}

TEST_CASE("add: a server that closes while a model is measured refuses it and builds nothing") {
  server_rig r("fifo");
  fake_event e;
  asked waits; // the server drains until it has ended
  gsched_request q = request(r.add_model(1), r.it.add_client(1.0));
  q.wait_event = &e;
  waits.submit(r, q);
  std::deque<asked> others; // accepted as long as the server is not closed
  std::thread closing;
  r.as_measured = [&] {
    closing = std::thread([&] {
      std::string why;
      CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
    });
    soon([&] {
      others.emplace_back();
      return code_of([&] { others.back().submit(r, request(0, 0)); }) == GSCHED_CLOSED;
    });
  };
  r.control->builds_until_failure = 0;
  CHECK(code_of([&] { static_cast<void>(r.add_model(1)); }) == GSCHED_CLOSED);
  CHECK(r.measured == 2);
  CHECK(r.last_made.expired());
  e.code = 0;
  closing.join();
  CHECK(waits.finished());
}

TEST_CASE("add: a server has so many models in its life, removed ones included") {
  server_rig r("fifo");
  for (std::uint32_t i = 0; i < GSCHED_MOST_MODELS; ++i) {
    const std::uint32_t m = r.add_model(1, 1);
    REQUIRE(m == i);
    if (m > 0) r.it.remove_model(m, -1);
  }
  std::string line;
  CHECK(code_of([&] { static_cast<void>(r.add_model(1)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "add_model: the server has had 4096 models, removed ones included, "
                "expected fewer than 4096");
  CHECK(r.measured == GSCHED_MOST_MODELS);
  asked one;
  one.submit(r, request(0, r.it.add_client(1.0)));
  CHECK(one.finished());
}

TEST_CASE("add: a model is checked by its fields, each instance included") {
  std::uint64_t memory = 0;
  const gsched_buffer in[] = {{&memory, 8}};
  const gsched_buffer longer[] = {{&memory, 16}};
  const gsched_buffer none[] = {{nullptr, 8}};
  const std::uint32_t others[] = {0};
  const double durations[] = {5, -1};
  gsched_instance instances[2]{};
  for (gsched_instance& i : instances) {
    i.size = sizeof i;
    i.graph = &memory;
    i.inputs = i.outputs = in;
  }
  gsched_model good{};
  good.size = sizeof good;
  good.name = "m";
  good.instances = instances;
  good.instances_count = 2;
  good.inputs = good.outputs = 1;
  abi::check_model(good);
  const auto refused = [&](const gsched_model& m, const std::string& expected) {
    std::string line;
    CHECK(code_of([&] { abi::check_model(m); }, &line) == GSCHED_BAD_ARGUMENT);
    CHECK(line == expected);
  };
  gsched_model m = good;
  m.name = "";
  refused(m, "name: expected one");
  m = good;
  m.instances_count = 0;
  refused(m, "instances: expected at least one");
  m = good;
  m.instances_count = 1025;
  refused(m, "instances_count: expected at most 1024");
  m = good;
  m.unmeasured = 2;
  refused(m, "unmeasured: expected 0 or 1");
  m = good;
  m.exclusive = 2;
  refused(m, "exclusive: expected 0 or 1");
  m = good;
  m.excludes_count = 1;
  refused(m, "excludes: NULL, but excludes_count is not 0");
  m.excludes = others;
  abi::check_model(m);
  m = good;
  m.durations_count = 2;
  refused(m, "durations_us: NULL, but durations_count is not 0");
  m.durations_us = durations;
  refused(m, "durations_us[1]: expected 0 to 1e9");
  m.durations_count = 0;
  refused(m, "durations_count: 0, expected one for each operation");
  instances[1].inputs = longer;
  refused(good, "m: instance 1.inputs[0]: 16 bytes, expected 8 as in the first instance");
  instances[1].inputs = nullptr;
  refused(good, "m: instance 1.inputs: NULL, expected 1");
  instances[1].inputs = in;
  instances[1].outputs = none;
  refused(good, "m: instance 1.outputs[0]: expected device memory of at least a byte");
  instances[1].graph = nullptr;
  refused(good, "m: instance 1.graph: NULL, expected a captured graph");
  instances[1].size = 0;
  refused(good, "gsched_instance.size: 0 of instance 1, expected 32 as of the first");
  instances[1].size = 4000; // and not beyond the array
  refused(good, "gsched_instance.size: 4000 of instance 1, expected 32 as of the first");
}

TEST_CASE("submit: a ticket of a request that a closing server refuses stays until its end") {
  fake_event stream;
  {
    server_rig r("fifo");
    gsched_request q = request(r.add_model(1), r.it.add_client(1.0));
    q.size = sizeof q;
    q.wait_stream = &stream; // the ticket owns a mark of it
    const void* from[] = {&q};
    q.inputs = from;
    std::string why;
    r.as_looked = [&] { CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK); };
    gsched_ticket* t = nullptr;
    CHECK(code_of([&] { r.it.submit(q, &t); }) == GSCHED_CLOSED);
    CHECK(t == nullptr);
    CHECK(stream.marks == 1); // another thread may have read the ticket, and wait
  }
  CHECK(stream.marks == 0);
}

TEST_CASE("submit: who waits for a ticket whose request could not be posted sees its end") {
  const auto d = std::make_shared<detail::server_state>();
  d->longest_away_ns = never_away_ns;
  auto* const t = new gsched_ticket(d);
  gsched_report seen{};
  std::thread waits([&] {
    if (abi::server::wait(*t, 20 * second_us)) seen = abi::server::status(*t);
  });
  std::this_thread::sleep_for(5ms);
  d->end_everything(request_status::cancelled, errc::closed, "closed");
  REQUIRE(!d->try_post(t->asked));
  d->end_unposted(*t);
  waits.join();
  CHECK(seen.state == GSCHED_CANCELLED);
  CHECK(seen.code == GSCHED_CLOSED);
  CHECK(t->owners == 1);
  d->unposted.take_each([](request_record& each) { each.release(); });
}

TEST_CASE("server: an instance that hangs is used no more, and its memory is kept") {
  server_rig r("srpt");
  const std::uint32_t m = r.add_model(2);
  const std::weak_ptr<fake_instance> memory = r.last_made;
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->hangs = 0; // the program of instance 0
  const auto report_of = [&] {
    asked one;
    one.submit(r, request(m, c));
    REQUIRE(abi::server::wait(*one.ticket, -1));
    const gsched_ticket& t = *one.ticket;
    return std::tuple(static_cast<gsched_state>(t.status), abi::code_of(t.code), t.instance,
                      t.error);
  };
  CHECK(report_of() ==
        std::tuple(GSCHED_FAILED, GSCHED_DEVICE_FAILED, 0u, std::string("fake: its kernel hangs")));
  for (int i = 0; i < 4; ++i)
    CHECK(report_of() == std::tuple(GSCHED_FINISHED, GSCHED_OK, 1u, std::string()));
  r.control->hangs = 1; // the last one is kept, so that requests end
  for (int i = 0; i < 4; ++i) CHECK(std::get<0>(report_of()) == GSCHED_FAILED);
  std::string line;
  CHECK(code_of([&] { r.it.remove_model(m, -1); }, &line) == GSCHED_DEVICE_FAILED);
  CHECK(line ==
        "model 0: removed, but one of its kernels hangs; the memory of its graphs must never "
        "be freed or used again");
  CHECK(!memory.expired());
}

TEST_CASE("server: a request that is cancelled while its kernel hangs says that memory must stay") {
  server_rig r("srpt");
  const std::uint32_t m = r.add_model(1, 1, from_us(500'000));
  const std::weak_ptr<fake_instance> memory = r.last_made;
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->hangs = 0;
  asked one;
  one.submit(r, request(m, c));
  soon([&] { return r.it.statistics().segments > 0; });
  CHECK(abi::server::cancel(*one.ticket));
  CHECK(one.ended(GSCHED_CANCELLED, "cancelled"));
  CHECK(abi::code_of(one.ticket->code) == GSCHED_DEVICE_FAILED);
  std::string why;
  CHECK(close(r.it, GSCHED_DRAIN, -1, why) == GSCHED_OK); // the device works
  CHECK(!memory.expired());
}

TEST_CASE("server: once something hangs no memory is freed, whose ever it is") {
  server_rig r("srpt");
  const std::uint32_t bad = r.add_model(1);
  const std::uint32_t good = r.add_model(1);
  const std::weak_ptr<fake_instance> memory = r.last_made;
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->hangs = 0;
  asked first, second;
  first.submit(r, request(bad, c));
  CHECK(first.ended(GSCHED_FAILED, "fake: its kernel hangs"));
  second.submit(r, request(good, c));
  CHECK(second.finished());
  r.it.remove_model(good, -1);
  CHECK(!memory.expired());
}

namespace {

/// Segments are given up after 100 ms.
abi::settings with_limit() {
  abi::settings s = abi::settings_of(options_for("srpt"));
  s.dispatch.segment_limit = std::chrono::milliseconds{100};
  s.dispatch.limit_factor = 1;
  return s;
}

} // namespace

TEST_CASE("lost: a segment that the device never reports fails its request, and others finish") {
  server_rig r(with_limit());
  const std::uint32_t m = r.add_model(2);
  const std::uint32_t other = r.add_model(1);
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->silent = 0; // the program of instance 0
  asked first, second, beside;
  first.submit(r, request(m, c));
  soon([&] { return r.it.statistics().segments > 0; });
  second.submit(r, request(m, c)); // on instance 1
  beside.submit(r, request(other, c));
  CHECK(second.finished());
  CHECK(beside.finished());
  CHECK(!first.ticket->has_ended());
  CHECK(first.ended(GSCHED_FAILED, "not reported after"));
  CHECK(abi::code_of(first.ticket->code) == GSCHED_DEVICE_FAILED);
}

TEST_CASE("lost: memory of a model stays once a segment of it was given up") {
  server_rig r(with_limit());
  const std::uint32_t m = r.add_model(1);
  const std::weak_ptr<fake_instance> memory = r.last_made;
  const std::uint32_t good = r.add_model(1);
  const std::weak_ptr<fake_instance> of_good = r.last_made;
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->silent = 0;
  asked one;
  one.submit(r, request(m, c));
  CHECK(one.ended(GSCHED_FAILED, "not reported after"));
  std::string line;
  CHECK(code_of([&] { r.it.remove_model(m, -1); }, &line) == GSCHED_DEVICE_FAILED);
  CHECK(line.find("the memory of its graphs must never be freed") != std::string::npos);
  CHECK(!memory.expired());
  CHECK(code_of([&] { r.it.remove_model(good, -1); }) == GSCHED_OK);
  CHECK(!of_good.expired()); // to free it would wait for the GPU
}

TEST_CASE("lost: requests are cancelled while the device reports nothing, and the server closes") {
  server_rig r(with_limit());
  const std::uint32_t m = r.add_model(1);
  const std::uint32_t c = r.it.add_client(1.0);
  r.control->silent = 0;
  asked on_gpu, waits;
  on_gpu.submit(r, request(m, c));
  soon([&] { return r.it.statistics().segments > 0; });
  waits.submit(r, request(m, c)); // for the instance
  CHECK(abi::server::cancel(*on_gpu.ticket));
  CHECK(abi::server::cancel(*waits.ticket));
  CHECK(waits.ended(GSCHED_CANCELLED, "cancelled"));                // at once
  CHECK(on_gpu.ended(GSCHED_CANCELLED, "cancelled"));               // with the limit
  CHECK(abi::code_of(on_gpu.ticket->code) == GSCHED_DEVICE_FAILED); // its memory stays
  CHECK(abi::code_of(waits.ticket->code) == GSCHED_OK);
  asked last;
  last.submit(r, request(m, c));
  std::string why;
  CHECK(close(r.it, GSCHED_CANCEL, 0, why) == GSCHED_OK);
  CHECK(last.ticket->has_ended());
}

TEST_CASE("lost: what hangs is the watchdog's to find first") {
  gsched_server_options o = abi::default_options();
  CHECK(abi::settings_of(o).dispatch.segment_limit == dispatch_options{}.segment_limit);
  o.watchdog_ms = 600'000;
  CHECK(abi::settings_of(o).dispatch.segment_limit > 2 * std::chrono::milliseconds{o.watchdog_ms});
}

TEST_CASE("server: a request starts behind what a stream holds, by an event of its own") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1);
  const std::uint32_t c = r.it.add_client(1.0);
  fake_event stream;
  {
    asked one;
    gsched_request q = request(m, c);
    q.wait_stream = &stream;
    one.submit(r, q);
    CHECK(stream.marks == 1);
    soon([&] { return stream.queries > 2; });
    CHECK(!one.ticket->has_ended());
    stream.code = 0;
    CHECK(one.finished());
  }
  soon([&] { return stream.marks == 0; }); // the server's thread has a share of the ticket
  gsched_request q = request(m, c);
  q.wait_stream = q.wait_event = &stream;
  std::string line;
  CHECK(code_of([&] { static_cast<void>(r.submit(q)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "wait_event, wait_stream: expected one of them");
  q.wait_event = nullptr;
  stream.code = 700;
  CHECK(code_of([&] { static_cast<void>(r.submit(q)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "wait_stream: bad");
  CHECK(stream.marks == 0);
}

TEST_CASE("server: a request that waits for an event ends when the device fails") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(2);
  const std::uint32_t c = r.it.add_client(1.0);
  fake_event never;
  asked waits, follows, fails;
  gsched_request q = request(m, c);
  q.wait_event = &never;
  waits.submit(r, q);
  q.wait_event = nullptr;
  q.after = waits.ticket;
  follows.submit(r, q);
  r.control->submits_until_failure = 0;
  fails.submit(r, request(m, c));
  CHECK(fails.ended(GSCHED_FAILED, "illegal memory access"));
  CHECK(waits.ended(GSCHED_FAILED, "illegal memory access"));
  CHECK(follows.ended(GSCHED_CANCELLED, "illegal memory access"));
}

TEST_CASE("report: what a device that fails may still touch is said by the code") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(2, 50, from_us(100)); // 5 ms
  const std::uint32_t c = r.it.add_client(1.0);
  asked finished;
  finished.submit(r, request(m, c));
  CHECK(finished.finished());
  CHECK(abi::code_of(finished.ticket->code) == GSCHED_OK);
  asked cancelled; // while it runs, and then the device fails
  asked fails;
  cancelled.submit(r, request(m, c));
  fails.submit(r, request(m, c));
  soon([&] { return r.it.statistics().active == 2 && r.it.statistics().segments > 8; });
  r.control->frozen = true;
  CHECK(abi::server::cancel(*cancelled.ticket));
  std::this_thread::sleep_for(5ms);
  CHECK_FALSE(cancelled.ticket->has_ended()); // some of it is on the device
  r.control->submits_until_failure = 0;
  asked waits; // its submission is where the device fails
  waits.submit(r, request(r.add_model(1), c));
  for (const asked* x : {&fails, &cancelled, &waits})
    CHECK(abi::server::wait(*x->ticket, 20 * second_us));
  CHECK(fails.ticket->status == request_status::failed);
  CHECK(abi::code_of(fails.ticket->code) == GSCHED_DEVICE_FAILED);
  CHECK(cancelled.ticket->status == request_status::cancelled);
  CHECK(abi::code_of(cancelled.ticket->code) == GSCHED_DEVICE_FAILED);
  CHECK(abi::code_of(waits.ticket->code) == GSCHED_DEVICE_FAILED);
}

TEST_CASE("fork: a child is refused at once, frees nothing, and does not hang") {
  server_rig r("fifo");
  const std::uint32_t m = r.add_model(1, 20, from_us(5));
  const std::uint32_t c = r.it.add_client(1.0);
  fake_event e;
  asked waits;
  gsched_request q = request(m, c);
  q.wait_event = &e;
  waits.submit(r, q);
  asked ended;
  ended.submit(r, request(m, c));
  CHECK(ended.finished());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int wrong = 0;
    std::string line;
    std::string why;
    const auto refused = [&](const std::function<void()>& call) {
      line.clear();
      gsched_code code = GSCHED_OK;
      try {
        call();
      } catch (...) {
        const abi::refusal said = abi::refusal_of_current_exception();
        code = said.code();
        line = said.what();
      }
      wrong += code != GSCHED_BAD_ARGUMENT || line.find("fork") == std::string::npos;
    };
    gsched_ticket* none = nullptr;
    refused([&] { r.it.close(GSCHED_CANCEL, 0); });
    refused([&] { static_cast<void>(r.it.add_client(1.0)); });
    refused([&] { static_cast<void>(r.add_model(1)); });
    refused([&] { r.it.remove_model(m, -1); });
    refused([&] { static_cast<void>(r.submit(m, c)); });
    refused([&] { static_cast<void>(r.it.statistics()); });
    refused([&] { static_cast<void>(r.it.collect(&none, 1, -1)); });
    refused([&] { static_cast<void>(abi::server::wait(*waits.ticket, -1)); });
    refused([&] { static_cast<void>(abi::server::cancel(*waits.ticket)); });
    refused([&] { static_cast<void>(abi::server::status(*waits.ticket)); });
    refused([&] { static_cast<void>(r.it.facts(m)); });
    wrong += r.measured != 1; // the model that was refused did not use the GPU
    abi::server::release(*ended.ticket);
    abi::server::release(*ended.ticket); // frees nothing, so twice is as once
    _exit(wrong);
  }
  int status = -1;
  for (int i = 0; i < 2000 && waitpid(child, &status, WNOHANG) == 0; ++i)
    std::this_thread::sleep_for(10ms);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  e.code = 0;
  CHECK(waits.finished());
}

TEST_CASE("statistics: what the device counts is passed on") {
  server_rig r("fifo");
  const gsched_statistics s = r.it.statistics();
  CHECK(s.graph_launches == 1);
  CHECK(s.built_late == 2);
  CHECK(s.driver_ns == 3);
  CHECK(s.expired_leases == 4);
  CHECK(s.opened == 5);
  CHECK(s.found_to_need_sms == 6);
}

TEST_CASE("settings: the lease has a default and a range") {
  gsched_server_options o = options_for("fifo");
  CHECK(abi::settings_of(o).lease == 20ms);
  o.lease_us = 500;
  CHECK(abi::settings_of(o).lease == 500us);
  o.lease_us = 16e6;
  CHECK(abi::settings_of(o).lease == 16s);
  o.lease_us = 16e6 + 1;
  CHECK(code_of([&] { static_cast<void>(abi::settings_of(o)); }) == GSCHED_BAD_ARGUMENT);
  o.lease_us = 99;
  std::string line;
  CHECK(code_of([&] { static_cast<void>(abi::settings_of(o)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line.find("lease_us") == 0);
}

TEST_CASE("settings: SMs for real-time work rise, and need lanes for it") {
  const auto refused = [](const gsched_server_options& o, const char* name) {
    std::string line;
    CHECK(code_of([&] { static_cast<void>(abi::settings_of(o)); }, &line) == GSCHED_BAD_ARGUMENT);
    CHECK(line.find(name) == 0);
  };
  gsched_server_options good = options_for("fifo");
  good.real_time_lanes = 1;
  good.reserve_sms[0] = 8;
  good.reserve_sms[2] = 32;
  good.long_kernel_us = 250;
  good.reserve_share = 0.5;
  const preemption_options p = abi::settings_of(good).dispatch.preemption;
  CHECK(p.reserve.size() == 2);
  CHECK(p.reserve[1] == sm_count{32});
  CHECK(p.reserve_learns);
  CHECK(p.long_operation == 250us);
  CHECK(p.reserve_share == 0.5);
  gsched_server_options o = good;
  o.reserve_fixed = 1;
  CHECK(!abi::settings_of(o).dispatch.preemption.reserve_learns);
  o = good;
  o.reserve_sms[1] = 33;
  refused(o, "reserve_sms");
  o = good;
  o.real_time_lanes = 0;
  refused(o, "reserve_sms");
  o = good;
  o.long_kernel_us = 0;
  refused(o, "long_kernel_us");
  o = good;
  o.reserve_share = 1.5;
  refused(o, "reserve_share");
  o = good;
  o.one_long = 2;
  refused(o, "one_long");
}
