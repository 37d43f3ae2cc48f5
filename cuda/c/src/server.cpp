// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include "refusal.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::abi {

namespace {

using namespace std::chrono_literals;

/// False if they stay too long: in a driver that hangs.
[[nodiscard]] bool wait_for_visitors(desk& at) {
  const std::int64_t until = now_ns() + at.longest_away_ns;
  for (std::uint32_t n = 0; (n = at.visitors.load(sync::acquire)) != 0;) { // [V1] acquire
    if (now_ns() >= until) return false;
    futex_wait(at.visitors, n, until);
  }
  return true;
}

void thread_main(std::shared_ptr<desk> at, server::make_engine make,
                 std::promise<std::optional<refusal>> started) {
  pthread_setname_np(pthread_self(), "gsched");
  at->dispatcher = std::this_thread::get_id();
  std::unique_ptr<engine> e;
  try {
    e = make(*at);
    make = nullptr;
  } catch (...) {
    started.set_value(refusal_of_current_exception());
    return;
  }
  started.set_value({});
  try {
    e->run();
  } catch (...) {
    at->set_failure("dispatcher: " + std::string(refusal_of(std::current_exception()).what()));
  }
  const std::string why = at->failure();
  if (why.empty())
    at->end_everything(GSCHED_CANCELLED, GSCHED_CLOSED, "cancelled: the server was closed");
  else
    at->end_everything(GSCHED_FAILED, GSCHED_DEVICE_FAILED, why.c_str());
  if (wait_for_visitors(*at))
    e.reset(); // waits for what hangs, within bounds
  else
    leave({std::shared_ptr<engine>(std::move(e))}); // they may still use it
  for (const std::unique_ptr<model_record>& m : at->records) {
    std::vector<std::shared_ptr<void>> memory = m->take_memory();
    if (at->keeps_memory()) leave(std::move(memory));
  }
  at->stopped.store(1, sync::release); // [S1] release -> [S1] acquire in wait_stopped
  futex_wake_all(at->stopped);
}

/// The thread is in the process that made the server: nothing would ever answer in a child of it.
void refuse_in_child(const desk& of) {
  if (::getpid() != of.process)
    throw refusal(GSCHED_BAD_ARGUMENT, "a server of process " + std::to_string(of.process) +
                                           ", expected one of this process: a child made by fork() "
                                           "opens its own");
}

void refuse_on_thread(const desk& of, const char* what) {
  refuse_in_child(of);
  if (std::this_thread::get_id() == of.dispatcher)
    throw refusal(GSCHED_BAD_ARGUMENT,
                  std::string(what) +
                      ": called on the dispatcher's thread, which would wait for itself");
}

[[nodiscard]] std::vector<transfer> transfers_of(const void* const* from, std::size_t count,
                                                 const server::look_at_memory& look) {
  std::vector<transfer> all;
  for (std::uint32_t i = 0; from != nullptr && i < count; ++i) {
    if (from[i] == nullptr) continue;
    transfer& t = all.emplace_back();
    t.buffer = i;
    t.outside = const_cast<void*>(from[i]);
    t.kind = look(from[i]);
  }
  return all;
}

} // namespace

server::server(const settings& how, make_engine make, look_at_memory look, mark_stream mark)
    : settings_(how), look_(std::move(look)), mark_(std::move(mark)),
      desk_(std::make_shared<desk>()) {
  desk_->longest_away_ns = how.longest_hang().count();
  std::promise<std::optional<refusal>> started;
  std::future<std::optional<refusal>> start = started.get_future();
  std::thread(thread_main, desk_, std::move(make), std::move(started)).detach();
  if (const std::optional<refusal> why = start.get()) throw *why;
}

server::~server() {
  std::string ignored;
  static_cast<void>(close(GSCHED_CANCEL, 0, ignored));
  desk_->ended.clear();
  desk_->unposted.take_each([](ticket& t) { t.let_go(); });
}

gsched_code server::close(gsched_close_how how, std::int64_t timeout_us, std::string& why) {
  refuse_own_thread("gsched_server_close");
  const std::int64_t until = how == GSCHED_DRAIN ? deadline_after_us(timeout_us) : now_ns();
  desk_->stop(until);
  // What is on the GPU ends, or the watchdog ends it, or it is given up; taking the device down
  // takes as long again.
  const std::int64_t longest =
      std::max(desk_->longest_away_ns, settings_.dispatch.segment_limit.count());
  if (!wait_stopped(until == never_ns ? never_ns : until + longest + desk_->longest_away_ns)) {
    why = desk_->failure();
    if (why.empty()) why = "close: the server's thread does not end; it is left behind";
    return GSCHED_TIMED_OUT;
  }
  why = desk_->failure();
  return why.empty() ? GSCHED_OK : GSCHED_DEVICE_FAILED;
}

bool server::wait_stopped(std::int64_t deadline_ns) const {
  for (patience p(*desk_); desk_->stopped.load(sync::acquire) == 0; p.look()) { // [S1] acquire
    if (now_ns() >= deadline_ns || desk_->whose.was_taken()) return false;
    futex_wait(desk_->stopped, 0, p.next(deadline_ns));
  }
  return true;
}

void server::refuse_own_thread(const char* what) const { refuse_on_thread(*desk_, what); }

void server::refuse_if_gone() const {
  if (desk_->failed.load(sync::acquire)) // [F1] acquire
    throw refusal(GSCHED_DEVICE_FAILED, desk_->failure());
  if (desk_->stopping.load(sync::relaxed)) // unordered: a hint, the inbox decides
    throw refusal(GSCHED_CLOSED, "the server was closed");
}

void server::order(std::function<bool(engine&)> turn) {
  command c(std::move(turn));
  if (!desk_->try_post(c.asked)) throw refusal(GSCHED_CLOSED, "the server was closed");
  for (patience p(*desk_); !c.wait_until(p.next(never_ns));) p.look();
  if (c.refused) throw *c.refused;
}

/// Keeps the engine while a thread that is not its own builds and frees on its device. A server
/// that closes meanwhile waits.
struct server::visit {
  explicit visit(server& s) : on(s.desk_) {
    s.order([this](engine& e) {
      at = &e;
      on->visitors.fetch_add(1, sync::relaxed); // unordered: by the thread that will wait for it
      return true;
    });
  }
  ~visit() {
    // Of a thread that was left behind in the driver it is not known what it still reads.
    if (on->whose.was_taken() || on->keeps_memory()) {
      std::vector<std::shared_ptr<void>> kept;
      for (auto& each : parts) kept.push_back(std::shared_ptr<program_parts>(std::move(each)));
      leave(std::move(kept));
    }
    parts.clear();
    // [V1] release -> [V1] acquire in wait_for_visitors: what was done with the engine
    if (on->visitors.fetch_sub(1, sync::release) == 1) futex_wake_all(on->visitors);
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

  std::shared_ptr<desk> on;
  engine* at = nullptr;
  std::vector<std::unique_ptr<program_parts>> parts{}; ///< what is not loaded
};

std::uint32_t server::add_client(double weight) {
  refuse_own_thread("gsched_add_client");
  refuse_if_gone();
  std::uint32_t id = 0;
  order([&](engine& e) {
    id = e.add_client(weight);
    return true;
  });
  return id;
}

void server::refuse_unknown(std::uint32_t model) const {
  const std::uint32_t models =
      desk_->models_count.load(sync::acquire); // [N2] acquire <- [N2] release
  if (model >= models)
    throw refusal(GSCHED_BAD_ARGUMENT, "model " + std::to_string(model) +
                                           ": unknown, the server has " + std::to_string(models));
}

void server::refuse_full() const {
  // unordered: the server's thread counts again
  refuse_one_more_model(desk_->models_count.load(sync::relaxed));
}

std::uint32_t server::add_model(std::span<const std::uint32_t> excludes,
                                const std::function<model_record()>& make) {
  refuse_own_thread("gsched_add_model");
  refuse_if_gone();
  refuse_full();
  for (const std::uint32_t each : excludes) refuse_unknown(each);
  std::uint32_t id = 0;
  auto made = std::make_unique<model_record>(make());
  model_record& placed = *made;
  placed.excludes.assign(excludes.begin(), excludes.end());
  const struct freed_at_last {
    std::unique_ptr<model_record>& of;
    const desk& at;
    ~freed_at_last() {
      if (of != nullptr && at.keeps_memory()) leave(of->take_memory());
    }
  } after{made, *desk_};
  refuse_if_gone(); // to measure takes a while
  refuse_full();
  visit here(*this);
  const std::int64_t start = now_ns();
  for (const instance& i : placed.instances) here.parts.push_back(here.at->build(*i.graph));
  placed.facts.build_ms += static_cast<double>(now_ns() - start) * 1e-6;
  order([&](engine& e) {
    // Its memory is the server's while the device may refer to it, and goes on this thread else.
    desk_->records.push_back(std::move(made));
    std::size_t loaded = 0;
    try {
      for (; loaded < placed.instances.size(); ++loaded)
        e.load(*placed.instances[loaded].graph, std::move(here.parts[loaded]), placed.facts);
      id = e.add(placed);
      return true;
    } catch (...) {
      bool forgotten = true;
      while (loaded-- > 0) {
        engine::unloaded u = e.unload(*placed.instances[loaded].graph);
        forgotten &= u.forgotten;
        here.parts[loaded] = std::move(u.parts);
      }
      if (forgotten) made = desk_->take_record(placed);
      throw;
    }
  });
  return id;
}

void server::remove_model(std::uint32_t model, std::int64_t timeout_us) {
  refuse_own_thread("gsched_remove_model");
  refuse_unknown(model);
  const std::int64_t until = deadline_after_us(timeout_us);
  desk::entry& of = desk_->models[model];
  of.removed.store(true, sync::relaxed); // unordered: the order below makes it known to the thread
  bool again = false;
  order([&](engine&) {                                // what was posted before it is served
    model_record& m = *of.record.load(sync::relaxed); // unordered: this thread has written it
    m.closed = true;
    again = m.removed;
    return true;
  });
  if (again)
    throw refusal(GSCHED_BAD_ARGUMENT, "model " + std::to_string(model) + ": removed already");
  patience p(*desk_);
  for (std::uint32_t n = 0; (n = of.active.load(sync::acquire)) != 0; p.look()) { // [A1] acquire
    if (now_ns() >= until)
      throw refusal(GSCHED_TIMED_OUT, "model " + std::to_string(model) + ": " + std::to_string(n) +
                                          " requests have not ended in time; it takes no more");
    futex_wait(of.active, n, p.next(until));
  }
  std::vector<std::shared_ptr<void>> memory;
  bool hangs = false;
  visit here(*this);
  order([&](engine& e) {
    model_record& m = *of.record.load(sync::relaxed); // unordered: this thread has written it
    if (m.removed) return true;
    e.remove(m);
    bool forgotten = true;
    for (const instance& i : m.instances) {
      engine::unloaded u = e.unload(*i.graph);
      forgotten &= u.forgotten;
      hangs |= u.hangs;
      here.parts.push_back(std::move(u.parts));
    }
    if (forgotten) memory = m.take_memory();
    return true;
  });
  if (desk_->keeps_memory()) leave(std::move(memory));
  if (hangs)
    throw refusal(GSCHED_DEVICE_FAILED, "model " + std::to_string(model) +
                                            ": removed, but one of its kernels hangs; the memory "
                                            "of its graphs must never be freed or used again");
}

gsched_model_facts server::facts(std::uint32_t model) const {
  refuse_in_child(*desk_);
  refuse_unknown(model);
  // unordered: models_count ordered it
  return desk_->models[model].record.load(sync::relaxed)->facts;
}

void server::submit(const gsched_request& r, ticket** out) {
  refuse_in_child(*desk_);
  refuse_if_gone();
  refuse_unknown(r.model);
  desk::entry& of = desk_->models[r.model];
  if (of.removed.load(sync::relaxed)) // unordered: a hint, the server's thread decides
    throw refusal(GSCHED_BAD_ARGUMENT, "model " + std::to_string(r.model) + ": removed");
  const std::uint32_t clients = desk_->clients_count.load(sync::acquire); // [N1] acquire
  if (r.client >= clients)
    throw refusal(GSCHED_BAD_ARGUMENT, "client " + std::to_string(r.client) +
                                           ": unknown, the server has " + std::to_string(clients));
  if (r.real_time > 1 || r.collected > 1)
    throw refusal(GSCHED_BAD_ARGUMENT, "real_time, collected: expected 0 or 1");
  if (!(r.deadline_us <= 1e15) || r.arrival_ns > INT64_MAX / 2)
    throw refusal(GSCHED_BAD_ARGUMENT, "arrival_ns, deadline_us: expected times of this century");
  if (r.after != nullptr && r.after->at != desk_)
    throw refusal(GSCHED_BAD_ARGUMENT, "after: a request of another server, expected one of this");
  auto t = std::make_unique<ticket>(desk_);
  // unordered: models_count ordered it
  const instance& shape = of.record.load(sync::relaxed)->instances.front();
  t->inputs = transfers_of(r.inputs, shape.inputs.size(), look_);
  t->outputs = transfers_of(r.outputs, shape.outputs.size(), look_);
  t->model = r.model;
  t->client = r.client;
  t->real_time = r.real_time != 0;
  if (r.collected != 0)
    t->collect.store(ticket::collecting, sync::relaxed); // unordered: not posted
  t->done = r.done;
  t->user = r.user;
  t->wait_event = r.wait_event;
  t->signal_event = r.signal_event;
  if (r.wait_stream != nullptr) {
    if (r.wait_event != nullptr)
      throw refusal(GSCHED_BAD_ARGUMENT, "wait_event, wait_stream: expected one of them");
    if (!mark_) throw refusal(GSCHED_BAD_ARGUMENT, "wait_stream: this server has no streams");
    t->marked = mark_(r.wait_stream);
    t->wait_event = t->marked.get();
  }
  if (r.after != nullptr) {
    r.after->hold();
    t->after = r.after;
  }
  t->arrival_ns = r.arrival_ns != 0 ? static_cast<std::int64_t>(r.arrival_ns) : now_ns();
  const duration within =
      r.deadline_us == 0 ? settings_.slo : from_us(std::max(r.deadline_us, 0.0));
  if (within > duration::zero()) t->deadline_ns = t->arrival_ns + within.count();
  if (out == nullptr && r.collected == 0)
    t->owners.store(1, sync::relaxed); // unordered: not posted
  if (out != nullptr) *out = t.get();
  if (desk_->try_post(t->asked)) {
    static_cast<void>(t.release());
    return;
  }
  if (out != nullptr) {
    *out = nullptr;
    desk_->end_unposted(*t.release());
  }
  throw refusal(GSCHED_CLOSED, "the server was closed");
}

gsched_statistics server::statistics() {
  refuse_own_thread("gsched_get_statistics");
  gsched_statistics out{};
  try {
    order([&](engine& e) {
      out = e.statistics();
      return true;
    });
  } catch (const refusal&) { // it is closed, or about to be
    if (desk_->whose.was_taken())
      throw refusal(GSCHED_TIMED_OUT, "the server's thread was left behind in the driver");
    static_cast<void>(wait_stopped(never_ns));
    out = desk_->last_statistics;
  }
  return out;
}

gsched_report server::status(const ticket& t) {
  refuse_in_child(*t.at);
  gsched_report r{};
  r.instance = UINT32_MAX;
  r.arrival_ns = static_cast<std::uint64_t>(t.arrival_ns);
  r.user = t.user;
  r.error = "";
  r.code = GSCHED_OK;
  if (!t.has_ended()) return r;
  r.state = t.state;
  r.start_ns = static_cast<std::uint64_t>(t.start_ns);
  r.end_ns = static_cast<std::uint64_t>(t.end_ns);
  r.segments = t.segments;
  r.instance = t.instance;
  r.error = t.error.c_str();
  r.code = t.code;
  return r;
}

bool server::cancel(ticket& t) {
  if (t.has_ended()) return false;
  refuse_in_child(*t.at);
  if (t.cancelling.exchange(true, sync::relaxed)) return true; // unordered: one of them posts
  t.hold();
  if (!t.at->try_post(t.cancel)) t.let_go(); // the server ends it
  return true;
}

void server::release(ticket& t) noexcept {
  if (::getpid() == t.at->process) t.let_go();
}

bool server::watch(ticket& t) {
  refuse_in_child(*t.at);
  const ticket::collection was = t.try_collect();
  if (was == ticket::collecting)
    throw refusal(GSCHED_BAD_ARGUMENT, "ticket: collected already, expected one that is not");
  return was == ticket::uncollected;
}

bool server::wait(ticket& t, std::int64_t timeout_us) {
  const std::int64_t until = deadline_after_us(timeout_us);
  refuse_in_child(*t.at);
  if (timeout_us != 0) refuse_on_thread(*t.at, "gsched_wait");
  for (patience p(*t.at); !t.wait_until(p.next(until)); p.look())
    if (now_ns() >= until) return false;
  return true;
}

std::uint32_t server::collect(ticket** out, std::uint32_t most, std::int64_t timeout_us) {
  refuse_own_thread("gsched_collect");
  const std::int64_t until = deadline_after_us(timeout_us);
  patience p(*desk_);
  auto n = desk_->ended.take(out, most, p.next(until));
  for (; n && *n == 0 && now_ns() < until; n = desk_->ended.take(out, most, p.next(until)))
    p.look();
  if (!n) throw refusal(GSCHED_CLOSED, "the server was closed, and all are collected");
  if (*n == 0) throw refusal(GSCHED_TIMED_OUT, "no request has ended in time");
  return *n;
}

} // namespace gsched::abi
