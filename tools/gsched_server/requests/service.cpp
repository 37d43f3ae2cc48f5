// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/service.hpp"

#include "gsched_server/operations/live_trace.hpp"
#include "gsched_server/operations/metrics.hpp"
#include "gsched_server/operations/request_id.hpp"
#include "gsched_server/operations/request_log.hpp"
#include "gsched_server/requests/placement.hpp"
#include "gsched_server/requests/request_tensors.hpp"

#include "common/cli/option_values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/job/job.hpp>
#include <gsched/server/request.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/server.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace gsched_server {

/// A request of a device's server, with what it holds in place until its end.
struct service::request final : gsched::request_record {
  using request_record::request_record;
  service_request what;
  std::shared_ptr<tenant> by;
  on_end ended;
  device_slot* on = nullptr;
  gsched::duration alone{}; ///< counted in on->queued
  request_tensors tensors;  ///< of a model that computes
};

service::service(const settings& s, const make_device& make, request_log* log)
    : most_requests_(s.requests), policy_(s.policy), log_(log),
      meter_([this] { return measure(); }) {
  for (const common::device_choice& which : s.devices) {
    const auto number = static_cast<std::uint32_t>(devices_.size());
    devices_.push_back(
        std::make_unique<device_slot>(number, which.device, make(which), s, s.socket_of(number)));
  }
  set_tenants(s.tenants);
  remover_ = std::thread([this] { remove_retired(); });
  for (const auto& each : devices_)
    each->start([this](gsched::request_record& r) { finish(static_cast<request&>(r)); });
  try {
    for (const model_plan& m : s.models) models_.emplace(m.name, load(m));
    for (const auto& [name, m] : models_)
      for (const served::place& at : m->places) devices_[at.device]->offer(at, m->plan);
  } catch (...) {
    models_.clear();
    close(gsched::duration::zero());
    throw;
  }
}

service::~service() {
  close(gsched::duration::zero());
  models_.clear(); // each goes to retired_, which is still there
}

void service::close(gsched::duration drain_for) noexcept {
  stop_accepting();
  if (!remover_.joinable()) return;
  const auto until = std::chrono::steady_clock::now() + drain_for;
  for (const auto& each : devices_)
    each->close(std::max<gsched::duration>(until - std::chrono::steady_clock::now(), {}));
  {
    const std::lock_guard lock(retired_mutex_);
    ends_ = true;
  }
  has_retired_.notify_all();
  remover_.join();
}

bool service::ready() const noexcept {
  return ready_.load(std::memory_order_relaxed) &&
         std::ranges::any_of(devices_, [](const auto& each) { return each->was_working(); });
}

// Models and tenants --------------------------------------------------------------------------

served_ptr service::load(const model_plan& m) {
  auto made = std::make_unique<served>();
  made->plan = m;
  for (const tensor_spec& t : m.outputs) made->zeros.emplace_back(t.bytes(), '\0');
  // From now on it takes what was loaded off its devices again, also after an exception.
  served* const in = made.get();
  const served_ptr loaded(made.release(), [this](const served* old) { retire(old); });
  std::exception_ptr failed;
  for (const std::uint32_t number : m.devices) {
    try {
      in->places.push_back(devices_[number]->load(m));
    } catch (const gsched::error&) {
      if (devices_[number]->was_working()) throw;
      failed = std::current_exception(); // of a device that no request will go to
    }
  }
  if (in->places.empty()) std::rethrow_exception(failed);
  in->alone = std::ranges::min(in->places, {}, &served::place::alone).alone;
  return loaded;
}

void service::retire(const served* m) noexcept {
  const std::lock_guard lock(retired_mutex_);
  retired_.emplace_back(m);
  has_retired_.notify_all();
}

void service::remove_retired() {
  std::unique_lock lock(retired_mutex_);
  for (;;) {
    has_retired_.wait(lock, [&] { return ends_ || !retired_.empty(); });
    if (ends_) return;
    const std::unique_ptr<const served> old = std::move(retired_.front());
    retired_.pop_front();
    lock.unlock();
    for (const served::place& at : old->places) devices_[at.device]->remove(at.id);
    lock.lock();
  }
}

served_ptr service::find(std::string_view name, std::string_view version) const {
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end())
    throw refusal(outcome::not_found, "model " + common::in_quotes(name) +
                                          ": unknown, expected one of the repository's index");
  if (!version.empty() && version != "1")
    throw refusal(outcome::not_found,
                  fmt::format("model {}: version {}, expected 1", common::in_quotes(name),
                              common::in_quotes(version)));
  return found->second;
}

std::vector<served_ptr> service::models() const {
  const std::shared_lock lock(mutex_);
  std::vector<served_ptr> all;
  for (const auto& [name, m] : models_) all.push_back(m);
  return all;
}

void service::set_tenants(const std::map<std::string, tenant_limits>& to) {
  std::map<std::string, std::shared_ptr<tenant>, std::less<>> next;
  for (const auto& [name, limits] : to) {
    const auto old = tenants_.find(name);
    std::shared_ptr<tenant> t;
    if (old != tenants_.end() && old->second->limits.weight == limits.weight) {
      t = old->second;
    } else { // a client of a server keeps its weight
      std::vector<gsched::client_id> clients;
      for (const auto& each : devices_) clients.push_back(each->add_client(name, limits.weight));
      t = std::make_shared<tenant>(name, std::move(clients), limits.burst);
    }
    const std::lock_guard lock(t->mutex);
    t->limits = limits;
    next.emplace(name, std::move(t));
  }
  const std::unique_lock lock(mutex_);
  tenants_ = std::move(next);
}

std::shared_ptr<tenant> service::tenant_of(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  auto found = tenants_.find(name);
  if (found == tenants_.end()) found = tenants_.find(default_tenant);
  return found->second;
}

void service::reload(const changeable& to) {
  std::map<std::string, served_ptr, std::less<>> next;
  for (const model_plan& m : to.models) {
    const auto same = models_.find(m.name); // written by this thread alone
    const bool keep = same != models_.end() && same->second->plan == m;
    next.emplace(m.name, keep ? same->second : load(m));
  }
  set_tenants(to.tenants);
  most_requests_.store(to.requests, std::memory_order_relaxed);
  const auto each_of = [this](const auto& some, const auto& others, auto call) {
    for (const auto& [name, m] : some)
      if (const auto at = others.find(name); at == others.end() || at->second != m)
        for (const served::place& on : m->places) call(*devices_[on.device], on, m->plan);
  };
  each_of(models_, next,
          [](device_slot& on, const served::place& at, const model_plan&) { on.withdraw(at); });
  each_of(next, models_,
          [](device_slot& on, const served::place& at, const model_plan& m) { on.offer(at, m); });
  {
    const std::unique_lock lock(mutex_);
    models_.swap(next);
  }
  reloads_.fetch_add(1, std::memory_order_relaxed);
}

// Requests ------------------------------------------------------------------------------------

void service::admit(const service_request& what, tenant& by) {
  const auto shown = [&] { return common::in_quotes(by.name); };
  if (!accepting_.load(std::memory_order_relaxed))
    throw refusal(answer{.what = outcome::unavailable,
                         .reason = refused_for::shutdown,
                         .line = "the server shuts down, expected another one",
                         .retry_after = std::chrono::seconds{1}});
  if (what.with.deadline && *what.with.deadline < what.model->alone)
    throw refusal(outcome::late,
                  fmt::format("deadline of {:.3f} ms, expected at least {:.3f} ms, the time of the "
                              "model alone",
                              gsched::to_us(*what.with.deadline) * 1e-3,
                              gsched::to_us(what.model->alone) * 1e-3));
  const std::uint32_t most = most_requests_.load(std::memory_order_relaxed);
  if (active_.load(std::memory_order_relaxed) > most)
    throw refusal(answer{.what = outcome::exhausted,
                         .reason = refused_for::server_limit,
                         .line = fmt::format("{} requests are in service, expected fewer", most),
                         .retry_after = metrics_.between_ends()});
  const std::lock_guard lock(by.mutex);
  if (what.with.real_time && !by.limits.real_time)
    throw refusal(outcome::denied, fmt::format("tenant {}: asks for real time, expected best "
                                               "effort",
                                               shown()));
  if (by.limits.requests != 0 && by.active.load(std::memory_order_relaxed) > by.limits.requests)
    throw refusal(answer{.what = outcome::exhausted,
                         .reason = refused_for::tenant_requests,
                         .line = fmt::format("tenant {}: {} requests are in service, expected "
                                             "fewer",
                                             shown(), by.limits.requests),
                         .retry_after = metrics_.between_ends()});
  if (const gsched::duration wait = by.take_token(); wait > gsched::duration::zero())
    throw refusal(answer{.what = outcome::exhausted,
                         .reason = refused_for::tenant_rate,
                         .line = fmt::format("tenant {}: more than {} requests a second, expected "
                                             "fewer",
                                             shown(), by.limits.rate),
                         .retry_after = wait});
}

gsched::ticket service::submit(service_request&& what, const std::shared_ptr<tenant>& by,
                               const on_end& ended) {
  gsched::server_request r;
  r.service =
      what.with.real_time ? gsched::service_class::real_time : gsched::service_class::best_effort;
  r.deadline = what.with.deadline.value_or(gsched::duration::zero());
  for (;;) {
    const served::place* const at = try_place(what.model->places, devices_);
    if (at == nullptr)
      throw refusal(answer{.what = outcome::unavailable,
                           .reason = refused_for::device_failed,
                           .line = "the devices of the model have failed, expected another server",
                           .retry_after = std::chrono::seconds{1}});
    device_slot& on = *devices_[at->device];
    try {
      r.model = at->id;
      r.client = by->clients[at->device];
      on.server().check(r);
      auto made = std::make_unique<request>(on.server().state());
      request* const posted = made.get();
      made->by = by;
      made->ended = ended;
      made->on = &on;
      made->alone = at->alone;
      const model_plan& plan = what.model->plan;
      if (plan.adaptor.library) made->tensors.prepare(what.inputs, plan.inputs, plan.outputs);
      r.user = &made->tensors; // requests of the channel have none
      made->what = std::move(what);
      made->hold();
      on.server().submit_as(std::move(made), r, true, {});
      return gsched::ticket(posted);
    } catch (...) {
      on.queued.remove(at->alone);
      // One that has failed since it was chosen; another one, unless the request has gone with it.
      if (on.was_working() || what.model == nullptr) throw;
    }
  }
}

gsched::ticket service::infer(service_request&& what, on_end ended) {
  const std::shared_ptr<tenant> by = tenant_of(what.with.tenant);
  const served_ptr model = what.model;
  if (what.with.id.empty()) what.with.id = make_request_id();
  std::string id = what.with.id; // of a refusal, too
  // Counted before it is looked at, so that wait_idle waits for all that are let in.
  unanswered_.fetch_add(1, std::memory_order_seq_cst);
  active_.fetch_add(1, std::memory_order_relaxed);
  by->active.fetch_add(1, std::memory_order_relaxed);
  answer refused;
  try {
    admit(what, *by);
    return submit(std::move(what), by, ended);
  } catch (const refusal& e) {
    refused = e.says;
  } catch (const gsched::error& e) {
    refused = {.what = outcome::unavailable,
               .reason = accepting_.load(std::memory_order_relaxed) ? refused_for::device_failed
                                                                    : refused_for::shutdown,
               .line = e.what(),
               .retry_after = std::chrono::seconds{1}};
  } catch (const std::bad_alloc&) {
    refused = {.what = outcome::failed,
               .reason = refused_for::memory,
               .line = "out of memory, expected a smaller request"};
  }
  active_.fetch_sub(1, std::memory_order_relaxed);
  by->active.fetch_sub(1, std::memory_order_relaxed);
  refused.id = std::move(id);
  note_end(model->plan.name, by->name, nullptr, refused);
  ended(refused);
  if (unanswered_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    const std::lock_guard lock(idle_mutex_);
    idle_.notify_all();
  }
  return {};
}

void service::finish(request& r) {
  using gsched::request_status;
  answer a;
  a.latency = gsched::duration{r.end_ns - r.arrival_ns};
  a.waited = gsched::duration{(r.start_ns != 0 ? r.start_ns : r.end_ns) - r.arrival_ns};
  a.line = r.error;
  switch (r.status) {
  case request_status::finished: a.missed_deadline = r.end_ns > r.deadline_ns; break;
  case request_status::rejected: // all other limits are admit's
    a.what = outcome::late;
    a.reason = refused_for::deadline;
    break;
  case request_status::cancelled:
    a.what = r.code == gsched::errc::closed ? outcome::unavailable : outcome::cancelled;
    break;
  default:
    a.what = r.code == gsched::errc::device_failed ? outcome::unavailable : outcome::failed;
    break;
  }
  if (a.what == outcome::ok) a.outputs = r.tensors.take_outputs();
  // What it has left on its device may still write to its outputs: these are never freed.
  if (r.code == gsched::errc::device_failed && r.what.model->plan.adaptor.library) r.hold();
  if (a.what == outcome::unavailable) a.retry_after = std::chrono::seconds{1};
  r.on->queued.remove(r.alone);
  // Places are free before the client learns of the end, so that it may use them again.
  active_.fetch_sub(1, std::memory_order_relaxed);
  r.by->active.fetch_sub(1, std::memory_order_relaxed);
  a.id = std::move(r.what.with.id);
  note_end(r.what.model->plan.name, r.by->name, r.on, a);
  const on_end ended = std::move(r.ended);
  r.what = {}; // the server's thread may release it last, and must not remove a model
  r.release();
  ended(a);
  if (unanswered_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    const std::lock_guard lock(idle_mutex_);
    idle_.notify_all();
  }
}

answer service::count_refused(std::string_view model, const terms& with, answer a) {
  a.id = with.id.empty() ? make_request_id() : with.id;
  note_end(model, {}, nullptr, a);
  return a;
}

void service::note_end(std::string_view model, std::string_view by, const device_slot* on,
                       const answer& a) {
  metrics_.ended(model, by, a);
  if (log_ == nullptr) return;
  log_entry e;
  e.model = model;
  e.tenant = by;
  if (on != nullptr) e.device = on->number();
  e.end = {.what = a.what, // not its outputs
           .reason = a.reason,
           .line = a.line,
           .waited = a.waited,
           .latency = a.latency,
           .missed_deadline = a.missed_deadline,
           .id = a.id};
  log_->add(std::move(e));
}

bool service::wait_idle(gsched::duration timeout) {
  std::unique_lock lock(idle_mutex_);
  return idle_.wait_for(lock, timeout,
                        [&] { return unanswered_.load(std::memory_order_seq_cst) == 0; });
}

load_figures service::load() const {
  load_figures sum{.ready = ready(),
                   .failed = true,
                   .active = 0,
                   .most = most_requests_.load(std::memory_order_relaxed),
                   .queued = {}};
  int working = 0;
  for (const auto& each : devices_) {
    const gsched::server_load now = each->was_load();
    if (now.failed) continue;
    ++working;
    sum.active += now.active;
    sum.queued += now.queued;
  }
  sum.failed = working == 0;
  if (working > 0) sum.queued /= working;
  sum.active = std::max<std::uint64_t>(active_.load(std::memory_order_relaxed), sum.active);
  return sum;
}

// What operators see -------------------------------------------------------------------------

std::vector<device_figures> service::figures() const {
  std::vector<device_figures> all;
  for (const auto& d : devices_)
    all.push_back({d->number(), d->name(), d->was_load(), d->queued.was(), d->statistics(),
                   d->channel_clients()});
  return all;
}

bool service::keeps_events() const noexcept { return devices_.front()->events().capacity() > 0; }

observation service::observe(std::size_t events) const {
  std::vector<traced_device> recent;
  for (const auto& d : devices_)
    recent.push_back({d->name(), d->events().last(events), d->events().known()});
  return {policy_,   load(),           metrics_.count(), metrics_.rows(), metrics_.refused(),
          figures(), std::move(recent)};
}

void service::write_trace(std::ostream& out, std::int64_t since_ns) const {
  std::vector<traced_device> all;
  for (const auto& d : devices_)
    all.push_back({fmt::format("{} {}", d->number(), d->name()),
                   d->events().last(d->events().capacity()), d->events().known()});
  gsched_server::write_trace(out, all, since_ns);
}

load_meter::sample service::measure() const {
  double busy_s = 0;
  for (const auto& d : devices_)
    if (const auto s = d->statistics()) busy_s += gsched::to_s(s->use.busy);
  return {load(), metrics_.count(), busy_s / static_cast<double>(devices_.size())};
}

std::string service::metrics() const {
  metrics_text out;
  metrics_.write(out);
  out.metric("gsched_requests_active", "gauge", "Requests that have not ended, by tenant.");
  std::size_t count = 0;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [name, t] : tenants_)
      out.sample("", metrics_text::label("tenant", name),
                 t->active.load(std::memory_order_relaxed));
    count = models_.size();
  }
  out.metric("gsched_requests_limit", "gauge", "Requests that the server takes at once.");
  out.sample("", "", most_requests_.load(std::memory_order_relaxed));
  out.metric("gsched_ready", "gauge", "1 while it takes requests.");
  out.sample("", "", ready() ? 1 : 0);
  out.metric("gsched_models", "gauge", "Models that are served.");
  out.sample("", "", static_cast<double>(count));
  out.metric("gsched_reloads_total", "counter", "Configurations that were taken anew.");
  out.sample("", "", static_cast<double>(reloads_.load(std::memory_order_relaxed)));
  write(out, figures());
  if (log_ != nullptr) log_->write(out);
  write_process(out);
  return out.text();
}

} // namespace gsched_server
