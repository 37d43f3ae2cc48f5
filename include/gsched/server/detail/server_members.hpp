// SPDX-License-Identifier: Apache-2.0
#pragma once

// The member functions of gsched::server; included at the end of server.hpp.

#include <gsched/server/server.hpp>

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gsched {

inline task served_model::operator()(job_context& ctx) {
  request_record& of = *static_cast<request_record*>(ctx.user);
  of.instance = ctx.instance;
  return run(ctx, of);
}

/// Keeps the engine in place while another thread builds and frees on its device. A server that
/// closes meanwhile waits.
struct server::visit {
  explicit visit(server& s) : on(s.state_) {
    s.command([this](detail::engine& e) {
      at = &e;
      on->visitors.fetch_add(1, sync::relaxed); // unordered: by the thread that will wait for it
      return true;
    });
  }
  ~visit() {
    // It is not known what an abandoned thread still reads.
    if (on->whose.was_taken() || on->keeps_memory()) {
      std::vector<std::shared_ptr<void>> kept;
      for (auto& each : built)
        kept.push_back(std::shared_ptr<detail::built_program>(std::move(each)));
      detail::retain_until_exit(std::move(kept));
    }
    built.clear();
    // [V1] release -> [V1] acquire in wait_for_visitors: what was done with the engine
    if (on->visitors.fetch_sub(1, sync::release) == 1) detail::futex_wake_all(on->visitors);
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

  std::shared_ptr<detail::server_state> on;
  detail::engine* at = nullptr;
  std::vector<std::unique_ptr<detail::built_program>> built{}; ///< what is not loaded
};

// The thread ----------------------------------------------------------------------------------

/// False if they stay too long: in a driver that hangs.
inline bool server::wait_for_visitors(detail::server_state& at) {
  const std::int64_t until = detail::now_ns() + at.longest_away_ns;
  for (std::uint32_t n = 0; (n = at.visitors.load(sync::acquire)) != 0;) { // [V1] acquire
    if (detail::now_ns() >= until) return false;
    detail::futex_wait(at.visitors, n, until);
  }
  return true;
}

inline void server::thread_main(const std::shared_ptr<detail::server_state>& at, make_engine make,
                                std::promise<std::exception_ptr> started) {
  pthread_setname_np(pthread_self(), "gsched");
  at->dispatcher = std::this_thread::get_id();
  std::unique_ptr<detail::engine> e;
  std::exception_ptr refusal;
  try {
    e = make(*at);
    make = nullptr;
  } catch (...) {
    refusal = std::current_exception();
  }
  const bool refused = refusal != nullptr;
  started.set_value(std::move(refusal)); // its one owner is now who waits for it
  if (refused) return;
  try {
    e->run();
  } catch (...) {
    at->set_failure("dispatcher: " + describe_current_exception().line);
  }
  const std::string why = at->failure();
  if (why.empty())
    at->end_everything(request_status::cancelled, errc::closed, "cancelled: the server was closed");
  else
    at->end_everything(request_status::failed, errc::device_failed, why.c_str());
  if (wait_for_visitors(*at))
    e.reset(); // waits for what hangs, within bounds
  else
    detail::retain_until_exit({std::shared_ptr<detail::engine>(std::move(e))}); // they may use it
  for (const std::unique_ptr<served_model>& m : at->records) {
    std::vector<std::shared_ptr<void>> memory = m->take_memory();
    if (at->keeps_memory()) detail::retain_until_exit(std::move(memory));
  }
  at->stopped.store(1, sync::release); // [S1] release -> [S1] acquire in wait_stopped
  detail::futex_wake_all(at->stopped);
}

inline server::server(const server_options& how, make_engine make)
    : options_(how), state_(std::make_shared<detail::server_state>()) {
  state_->longest_away_ns = how.longest_hang.count();
  std::promise<std::exception_ptr> started;
  std::future<std::exception_ptr> start = started.get_future();
  std::thread(thread_main, state_, std::move(make), std::move(started)).detach();
  if (const std::exception_ptr why = start.get()) std::rethrow_exception(why);
}

inline server::~server() {
  try {
    close(duration::zero());
  } catch (const std::exception&) { // the requests have said why
  }
  state_->ended.clear();
  state_->unposted.take_each([](request_record& s) { s.release(); });
}

inline std::int64_t server::end_of_wait(duration timeout) noexcept {
  const std::int64_t now = detail::now_ns();
  return timeout.count() > detail::never_ns - now ? detail::never_ns : now + timeout.count();
}

inline void server::close(duration drain_for) {
  refuse_own_thread("close");
  const std::int64_t until = end_of_wait(std::max(drain_for, duration::zero()));
  state_->stop(until);
  // What is on the GPU ends, or the watchdog ends it, or it is given up; taking the device down
  // takes as long again.
  const std::int64_t longest =
      std::max(state_->longest_away_ns, options_.dispatch.segment_limit.count());
  const bool ends = wait_stopped(
      until == detail::never_ns ? detail::never_ns : until + longest + state_->longest_away_ns);
  const std::string why = state_->failure();
  if (!ends)
    throw error(errc::timed_out,
                why.empty() ? "close: the server's thread does not end; it is abandoned" : why);
  if (!why.empty()) throw error(errc::device_failed, why);
}

inline bool server::wait_stopped(std::int64_t deadline_ns) const {
  // [S1] acquire <- [S1] release in thread_main
  for (detail::stall_detector d(*state_); state_->stopped.load(sync::acquire) == 0; d.look()) {
    if (detail::now_ns() >= deadline_ns || state_->whose.was_taken()) return false;
    detail::futex_wait(state_->stopped, 0, d.next(deadline_ns));
  }
  return true;
}

inline void server::refuse_if_gone() const {
  if (state_->failed.load(sync::acquire)) // [F1] acquire
    throw error(errc::device_failed, state_->failure());
  if (state_->stopping.load(sync::relaxed)) // unordered: a hint, the inbox decides
    throw error(errc::closed, "the server was closed");
}

inline void server::command(std::function<bool(detail::engine&)> round) {
  detail::command c(std::move(round));
  if (!state_->try_post(c.asked)) throw error(errc::closed, "the server was closed");
  for (detail::stall_detector d(*state_); !c.wait_until(d.next(detail::never_ns));) d.look();
  if (c.thrown) std::rethrow_exception(c.thrown);
}

inline server_statistics server::statistics() {
  refuse_own_thread("statistics");
  server_statistics out{};
  try {
    command([&](detail::engine& e) {
      out = e.statistics();
      return true;
    });
  } catch (const error&) { // it is closed, or about to be
    if (state_->whose.was_taken())
      throw error(errc::timed_out, "the server's thread was abandoned in the driver");
    static_cast<void>(wait_stopped(detail::never_ns));
    out = state_->last_statistics;
  }
  return out;
}

inline void server::observe(server_observer* by) {
  refuse_own_thread("observe");
  refuse_if_gone();
  command([&](detail::engine& e) {
    e.observe(by);
    return true;
  });
}

// Models and clients --------------------------------------------------------------------------

inline client_id server::add_client(double weight) {
  refuse_own_thread("add_client");
  refuse_if_gone();
  std::uint32_t id = 0;
  command([&](detail::engine& e) {
    id = e.add_client(weight);
    return true;
  });
  return client_id{id};
}

inline void server::refuse_unknown(std::uint32_t model) const {
  const std::uint32_t models =
      state_->models_count.load(sync::acquire); // [N2] acquire <- [N2] release
  if (model >= models)
    throw error(errc::unknown_name, "model " + std::to_string(model) +
                                        ": unknown, the server has " + std::to_string(models));
}

inline void server::refuse_full() const {
  // unordered: the server's thread counts again
  detail::refuse_one_more_model(state_->models_count.load(sync::relaxed));
}

inline model_id server::add_model(std::string name, std::vector<program> instances) {
  if (instances.empty())
    throw error(errc::bad_option, name + ": no program, expected one for each instance");
  return add_model({}, [&] {
    const auto keep = std::make_shared<std::vector<program>>(std::move(instances));
    std::vector<model_instance> all;
    for (program& p : *keep) {
      if (p.size() != keep->front().size())
        throw error(errc::bad_option, name + ": programs of " +
                                          std::to_string(keep->front().size()) + " and " +
                                          std::to_string(p.size()) +
                                          " operations, expected the same in all instances");
      all.push_back({&p, keep});
    }
    return std::make_unique<served_model>(std::move(name), std::move(all));
  });
}
inline model_id server::add_model(std::string name, program only) {
  std::vector<program> one;
  one.push_back(std::move(only));
  return add_model(std::move(name), std::move(one));
}

inline model_id server::add_model(std::span<const model_id> excludes,
                                  const std::function<std::unique_ptr<served_model>()>& make) {
  refuse_own_thread("add_model");
  refuse_if_gone();
  refuse_full();
  for (const model_id each : excludes) refuse_unknown(index(each));
  std::uint32_t id = 0;
  std::unique_ptr<served_model> made = make();
  served_model& placed = *made;
  for (const model_id each : excludes) placed.excludes.push_back(index(each));
  const struct freed_at_last {
    std::unique_ptr<served_model>& of;
    const detail::server_state& at;
    ~freed_at_last() {
      if (of != nullptr && at.keeps_memory()) detail::retain_until_exit(of->take_memory());
    }
  } after{made, *state_};
  refuse_if_gone(); // make() may have taken long
  refuse_full();
  visit here(*this);
  const std::int64_t start = detail::now_ns();
  for (const model_instance& i : placed.instances) here.built.push_back(here.at->build(*i.program));
  placed.facts.build_time += duration{detail::now_ns() - start};
  command([&](detail::engine& e) {
    // The server owns its memory while the device may refer to it; otherwise this thread frees it.
    state_->records.push_back(std::move(made));
    std::size_t loaded = 0;
    try {
      for (; loaded < placed.instances.size(); ++loaded)
        e.load(*placed.instances[loaded].program, std::move(here.built[loaded]), placed.facts);
      id = e.add(placed);
      return true;
    } catch (...) {
      bool forgotten = true;
      while (loaded-- > 0) {
        detail::engine::unloaded u = e.unload(*placed.instances[loaded].program);
        forgotten &= u.forgotten;
        here.built[loaded] = std::move(u.built);
      }
      if (forgotten) made = state_->take_record(placed);
      throw;
    }
  });
  return model_id{id};
}

inline void server::remove_model(model_id which, duration timeout) {
  refuse_own_thread("remove_model");
  const std::uint32_t model = index(which);
  refuse_unknown(model);
  const std::int64_t until = end_of_wait(timeout);
  detail::server_state::entry& of = state_->models[model];
  of.removed.store(true, sync::relaxed); // unordered: the command below publishes it
  bool again = false;
  command([&](detail::engine&) {                      // what was posted before it is served
    served_model& m = *of.record.load(sync::relaxed); // unordered: this thread has written it
    m.closed = true;
    again = m.removed;
    return true;
  });
  if (again) throw error(errc::bad_option, "model " + std::to_string(model) + ": removed already");
  detail::stall_detector d(*state_);
  for (std::uint32_t n = 0; (n = of.active.load(sync::acquire)) != 0; d.look()) { // [A1] acquire
    if (detail::now_ns() >= until)
      throw error(errc::timed_out, "model " + std::to_string(model) + ": " + std::to_string(n) +
                                       " requests have not ended in time; it takes no more");
    detail::futex_wait(of.active, n, d.next(until));
  }
  std::vector<std::shared_ptr<void>> memory;
  bool hangs = false;
  visit here(*this);
  command([&](detail::engine& e) {
    served_model& m = *of.record.load(sync::relaxed); // unordered: this thread has written it
    if (m.removed) return true;
    e.remove(m);
    bool forgotten = true;
    for (const model_instance& i : m.instances) {
      detail::engine::unloaded u = e.unload(*i.program);
      forgotten &= u.forgotten;
      hangs |= u.hangs;
      here.built.push_back(std::move(u.built));
    }
    if (forgotten) memory = m.take_memory();
    return true;
  });
  if (state_->keeps_memory()) detail::retain_until_exit(std::move(memory));
  if (hangs)
    throw error(errc::device_failed, "model " + std::to_string(model) +
                                         ": removed, but one of its kernels hangs; the memory "
                                         "of its graphs must never be freed or used again");
}

inline const served_model& server::model(model_id id) const {
  refuse_in_child(*state_);
  refuse_unknown(index(id));
  // unordered: models_count ordered it
  return *state_->models[index(id)].record.load(sync::relaxed);
}

// Sources -------------------------------------------------------------------------------------

inline void server::attach(request_source& s) {
  refuse_own_thread("attach");
  refuse_if_gone();
  command([&](detail::engine& e) {
    e.attach(s);
    return true;
  });
}

inline void server::detach(request_source& s) {
  refuse_own_thread("detach");
  try {
    command([&](detail::engine& e) {
      e.detach(s);
      return true;
    });
  } catch (const error& e) { // it is closed, or about to be
    if (e.code() != errc::closed) throw;
    if (!wait_stopped(detail::never_ns))
      throw error(errc::timed_out, "detach: the server's thread was abandoned in the driver");
  }
}

// Requests ------------------------------------------------------------------------------------

inline ticket server::submit(const server_request& r) {
  check(r);
  request_record* out = nullptr;
  submit_as(std::make_unique<request_record>(state_), r, false,
            [&](request_record* made) { out = made; });
  return ticket(out);
}

inline void server::check(const server_request& r) const {
  refuse_in_child(*state_);
  refuse_if_gone();
  refuse_unknown(index(r.model));
  if (state_->models[index(r.model)].removed.load(sync::relaxed)) // unordered: a hint
    throw error(errc::unknown_name, "model " + std::to_string(index(r.model)) + ": removed");
  const std::uint32_t clients = state_->clients_count.load(sync::acquire); // [N1] acquire
  if (index(r.client) >= clients)
    throw error(errc::unknown_name, "client " + std::to_string(index(r.client)) +
                                        ": unknown, the server has " + std::to_string(clients));
  if (r.after != nullptr && r.after->server != state_)
    throw error(errc::bad_option, "after: a request of another server, expected one of this");
}

inline void server::submit_as(std::unique_ptr<request_record> made, const server_request& r,
                              bool collected, const std::function<void(request_record*)>& taken) {
  request_record& t = *made;
  t.model = index(r.model);
  t.client = index(r.client);
  t.real_time = r.service == service_class::real_time;
  if (collected)
    t.collect.store(request_record::collecting, sync::relaxed); // unordered: not posted
  t.payload = r.payload;
  t.done = r.done;
  t.user = r.user;
  t.wait_event = r.wait_event;
  t.signal_event = r.signal_event;
  if (r.after != nullptr) {
    r.after->hold();
    t.after = r.after;
  }
  t.arrival_ns = r.arrival ? std::chrono::nanoseconds(r.arrival->time_since_epoch()).count()
                           : detail::now_ns();
  if (const duration within = r.deadline.value_or(options_.deadline); within > duration::zero())
    t.deadline_ns =
        saturating_add(time_point{duration{t.arrival_ns}}, within).time_since_epoch().count();
  if (!taken && !collected) t.owners.store(1, sync::relaxed); // unordered: not posted
  if (taken) taken(&t);
  if (state_->try_post(t.asked)) {
    static_cast<void>(made.release());
    return;
  }
  if (taken) {
    taken(nullptr);
    state_->end_unposted(*made.release());
  }
  throw error(errc::closed, "the server was closed");
}

inline bool server::watch(request_record& s) {
  refuse_in_child(*s.server);
  const request_record::collection was = s.try_collect();
  if (was == request_record::collecting)
    throw error(errc::bad_option, "ticket: collected already, expected one that is not");
  return was == request_record::uncollected;
}

inline std::uint32_t server::collect(request_record** out, std::uint32_t most, duration timeout) {
  refuse_own_thread("collect");
  const std::int64_t until = end_of_wait(timeout);
  detail::stall_detector d(*state_);
  auto n = state_->ended.take(out, most, d.next(until));
  for (; n && *n == 0 && detail::now_ns() < until; n = state_->ended.take(out, most, d.next(until)))
    d.look();
  if (!n) throw error(errc::closed, "the server was closed, and all are collected");
  return *n;
}

} // namespace gsched
