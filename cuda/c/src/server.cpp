// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include "refusal.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace gsched::abi {

namespace {

using namespace std::chrono_literals;

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
    at->set_failure("dispatcher: " + line_of(std::current_exception()));
  }
  const std::string why = at->failure();
  at->end_everything(why.empty() ? GSCHED_CANCELLED : GSCHED_FAILED,
                     why.empty() ? "cancelled: the server was closed" : why.c_str());
  e.reset(); // waits for what hangs, within bounds
  for (model_record& m : at->records)
    for (instance& i : m.instances) i.forget_memory(!why.empty());
  at->stopped.store(1, sync::release); // [S1] release -> [S1] acquire in wait_stopped
  futex_wake_all(at->stopped);
}

void refuse_on_thread(const desk& of, const char* what) {
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

server::server(const settings& how, make_engine make, look_at_memory look)
    : settings_(how), look_(std::move(look)), desk_(std::make_shared<desk>()) {
  desk_->longest_away_ns = (2 * how.watchdog + 3s).count(); // the device's watchdog comes first
  std::promise<std::optional<refusal>> started;
  std::future<std::optional<refusal>> start = started.get_future();
  std::thread(thread_main, desk_, std::move(make), std::move(started)).detach();
  if (const std::optional<refusal> why = start.get()) throw *why;
}

server::~server() {
  std::string ignored;
  static_cast<void>(close(GSCHED_CANCEL, 0, ignored));
  desk_->ended.clear();
}

gsched_code server::close(gsched_close_how how, std::int64_t timeout_us, std::string& why) {
  refuse_own_thread("gsched_server_close");
  const std::int64_t until = how == GSCHED_DRAIN ? deadline_after_us(timeout_us) : now_ns();
  desk_->stop(until);
  // What is on the GPU ends, or the watchdog ends it; taking the device down takes as long again.
  if (!wait_stopped(until == never_ns ? never_ns : until + 2 * desk_->longest_away_ns)) {
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
  if (desk_->stopping.load(sync::relaxed)) // unordered: a hint, the mailbox decides
    throw refusal(GSCHED_CLOSED, "the server was closed");
}

void server::order(std::function<bool(engine&)> turn) {
  command c(std::move(turn));
  if (!desk_->try_post(c.asked)) throw refusal(GSCHED_CLOSED, "the server was closed");
  for (patience p(*desk_); !c.wait_until(p.next(never_ns));) p.look();
  if (c.refused) throw *c.refused;
}

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

std::uint32_t server::add_model(model_record m) {
  refuse_own_thread("gsched_add_model");
  refuse_if_gone();
  std::uint32_t id = 0;
  std::size_t next = 0;
  model_record* placed = nullptr;
  order([&](engine& e) {
    if (placed == nullptr) placed = &desk_->records.emplace_back(std::move(m));
    const std::int64_t start = now_ns();
    e.load(*placed->instances[next].graph, placed->facts);
    placed->facts.build_ms += static_cast<double>(now_ns() - start) * 1e-6;
    if (++next < placed->instances.size()) return false;
    id = e.add(*placed);
    return true;
  });
  return id;
}

gsched_model_facts server::facts(std::uint32_t model) const {
  if (model >= desk_->models_count.load(sync::acquire)) // [N2] acquire <- [N2] release
    throw refusal(GSCHED_BAD_ARGUMENT, "model " + std::to_string(model) + ": unknown");
  return desk_->models[model].load(sync::relaxed)->facts; // unordered: models_count ordered it
}

void server::submit(const gsched_request& r, ticket** out) {
  refuse_if_gone();
  const std::uint32_t models = desk_->models_count.load(sync::acquire);   // [N2] acquire
  const std::uint32_t clients = desk_->clients_count.load(sync::acquire); // [N1] acquire
  if (r.model >= models)
    throw refusal(GSCHED_BAD_ARGUMENT, "model " + std::to_string(r.model) +
                                           ": unknown, the server has " + std::to_string(models));
  if (r.client >= clients)
    throw refusal(GSCHED_BAD_ARGUMENT, "client " + std::to_string(r.client) +
                                           ": unknown, the server has " + std::to_string(clients));
  if (r.real_time > 1 || r.collected > 1)
    throw refusal(GSCHED_BAD_ARGUMENT, "real_time, collected: expected 0 or 1");
  if (!(r.deadline_us <= 1e15) || r.arrival_ns > INT64_MAX / 2)
    throw refusal(GSCHED_BAD_ARGUMENT, "arrival_ns, deadline_us: expected times of this century");
  auto t = std::make_unique<ticket>(desk_);
  const instance& shape = desk_->models[r.model].load(sync::relaxed)->instances.front();
  t->inputs = transfers_of(r.inputs, shape.inputs.size(), look_);
  t->outputs = transfers_of(r.outputs, shape.outputs.size(), look_);
  t->model = r.model;
  t->client = r.client;
  t->real_time = r.real_time != 0;
  t->collected = r.collected != 0;
  t->done = r.done;
  t->user = r.user;
  t->arrival_ns = r.arrival_ns != 0 ? static_cast<std::int64_t>(r.arrival_ns) : now_ns();
  const duration within =
      r.deadline_us == 0 ? settings_.slo : from_us(std::max(r.deadline_us, 0.0));
  if (within > duration::zero()) t->deadline_ns = t->arrival_ns + within.count();
  if (out == nullptr && !t->collected) t->owners.store(1, sync::relaxed); // unordered: not posted
  if (out != nullptr) *out = t.get();
  if (desk_->try_post(t->asked)) {
    static_cast<void>(t.release());
    return;
  }
  if (out != nullptr) *out = nullptr;
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

bool server::cancel(ticket& t) noexcept {
  if (t.has_ended()) return false;
  if (t.cancelling.exchange(true, sync::relaxed)) return true; // unordered: one of them posts
  t.hold();
  if (!t.at->try_post(t.cancel)) t.let_go(); // the server ends it
  return true;
}

bool server::wait(ticket& t, std::int64_t timeout_us) {
  const std::int64_t until = deadline_after_us(timeout_us);
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
