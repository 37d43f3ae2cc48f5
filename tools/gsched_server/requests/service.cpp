// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/service.hpp"

#include "common/cli/option_values.hpp"
#include "common/cli/run_error.hpp"
#include "common/run/simulated_backend.hpp"

#include <gsched/channel/host.hpp>
#include <gsched/core/error.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/server.hpp>
#include <gsched/sim/paced_device.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace gsched_server {

using clock = std::chrono::steady_clock;

/// A share of the device, and limits. Requests of one that has lost its place end as they would.
struct service::tenant {
  std::string name;
  gsched::client_id client{};
  std::atomic<std::uint32_t> active{0};

  std::mutex mutex; ///< of the rest
  tenant_limits limits;
  double tokens = 0; ///< requests that the rate allows now
  clock::time_point filled{};

  /// The time until the rate allows a request; zero, and takes it, if that is now.
  [[nodiscard]] gsched::duration take_token() {
    if (limits.rate == 0) return {};
    const clock::time_point now = clock::now();
    tokens = std::min(limits.burst, tokens + gsched::to_s(now - filled) * limits.rate);
    filled = now;
    if (tokens >= 1) {
      tokens -= 1;
      return {};
    }
    return std::max(gsched::from_us((1 - tokens) / limits.rate * 1e6), gsched::duration{1});
  }
};

/// A request of the server, with what it holds in place until its end.
struct service::request final : gsched::request_record {
  using request_record::request_record;
  service_request what;
  std::shared_ptr<tenant> by;
  on_end ended;
};

/// Copies the inputs in, runs the profile, copies the outputs out. It computes nothing.
class service::simulated_model final : public gsched::served_model {
public:
  static std::unique_ptr<simulated_model> make(const model_plan& m) {
    const auto keep = std::make_shared<std::vector<gsched::program>>();
    for (std::uint32_t i = 0; i < m.instances; ++i) keep->push_back(gsched::to_program(m.profile));
    std::vector<gsched::model_instance> all;
    for (gsched::program& p : *keep) all.push_back({&p, keep});
    return std::make_unique<simulated_model>(m, std::move(all));
  }
  simulated_model(const model_plan& m, std::vector<gsched::model_instance> all)
      : served_model(m.name, std::move(all)), in_(m.profile.input), out_(m.profile.output) {}

  gsched::task run(gsched::job_context& ctx, gsched::request_record&) override {
    const gsched::stream_id s = ctx.default_stream();
    if (in_.count() > 0) ctx.copy_async(s, gsched::copy_direction::host_to_device, in_);
    ctx.launch(s, *instances[ctx.instance].program);
    if (out_.count() > 0) ctx.copy_async(s, gsched::copy_direction::device_to_host, out_);
    co_return;
  }

  /// Zeros for clients of the channel, whose outputs are behind their inputs.
  void deliver(gsched::request_record& r) noexcept override {
    if (r.payload.size() == in_.count() + out_.count())
      std::ranges::fill(r.payload.subspan(in_.count()), std::byte{0});
  }

private:
  gsched::byte_count in_, out_;
};

service::service(const settings& s) : most_requests_(s.requests) {
  gsched::server_options how;
  how.dispatch.preemption.real_time_lanes = s.real_time_lanes;
  server_ = std::make_unique<gsched::server>(
      [gpu = common::simulated_gpu_of(s.device)] { return gsched::sim::paced_device(gpu.preset); },
      [name = s.policy] {
        return gsched::priority<gsched::edf, gsched::named_policy>(
            [] { return gsched::edf(); }, [&] { return gsched::make_policy(name); });
      },
      how);
  set_tenants(s.tenants);
  if (!s.socket.empty()) {
    gsched::channel::host_options listens;
    listens.socket = s.socket;
    try {
      host_ = std::make_unique<gsched::channel::host>(*server_, std::move(listens));
    } catch (const gsched::error& e) { // of this machine, and not of the command line
      throw common::run_error(gsched::errc::io, e.what());
    }
  }
  remover_ = std::thread([this] { remove_retired(); });
  collector_ = std::thread([this] { collect(); });
  try {
    for (const model_plan& m : s.models) models_.emplace(m.name, load(m));
    if (host_)
      for (const auto& [name, m] : models_)
        host_->offer(m->id, name, m->plan.profile.input.count(), m->plan.profile.output.count());
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
  if (server_ == nullptr || ends_) return;
  try {
    server_->close(drain_for);
  } catch (const std::exception&) { // requests have said why
  }
  collector_.join();
  {
    const std::lock_guard lock(retired_mutex_);
    ends_ = true;
  }
  has_retired_.notify_all();
  remover_.join();
}

// Models and tenants --------------------------------------------------------------------------

served_ptr service::load(const model_plan& m) {
  auto made = std::make_unique<served>();
  made->plan = m;
  made->id = server_->add_model({}, [&] { return simulated_model::make(m); });
  made->alone = server_->model(made->id).facts.expected;
  for (const tensor_spec& t : m.outputs) made->zeros.emplace_back(t.bytes(), '\0');
  return {made.release(), [this](const served* old) { retire(old); }};
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
    try {
      server_->remove_model(old->id); // waits for requests of the channel
    } catch (const gsched::error&) {  // the server was closed, or its device has failed
    }
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
    } else { // a client of the server keeps its weight
      t = std::make_shared<tenant>();
      t->name = name;
      t->client = server_->add_client(limits.weight);
      t->tokens = limits.burst;
      t->filled = clock::now();
    }
    const std::lock_guard lock(t->mutex);
    t->limits = limits;
    next.emplace(name, std::move(t));
  }
  const std::unique_lock lock(mutex_);
  tenants_ = std::move(next);
}

std::shared_ptr<service::tenant> service::tenant_of(const std::string& name) const {
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
  if (host_) {
    for (const auto& [name, m] : models_)
      if (const auto at = next.find(name); at == next.end() || at->second != m)
        host_->withdraw(m->id);
    for (const auto& [name, m] : next)
      if (const auto at = models_.find(name); at == models_.end() || at->second != m)
        host_->offer(m->id, name, m->plan.profile.input.count(), m->plan.profile.output.count());
  }
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
                         .line = fmt::format("{} requests are in service, expected fewer", most),
                         .retry_after = metrics_.between_ends()});
  const std::lock_guard lock(by.mutex);
  if (what.with.real_time && !by.limits.real_time)
    throw refusal(outcome::denied, fmt::format("tenant {}: asks for real time, expected best "
                                               "effort",
                                               shown()));
  if (by.limits.requests != 0 && by.active.load(std::memory_order_relaxed) > by.limits.requests)
    throw refusal(answer{.what = outcome::exhausted,
                         .line = fmt::format("tenant {}: {} requests are in service, expected "
                                             "fewer",
                                             shown(), by.limits.requests),
                         .retry_after = metrics_.between_ends()});
  if (const gsched::duration wait = by.take_token(); wait > gsched::duration::zero())
    throw refusal(answer{.what = outcome::exhausted,
                         .line = fmt::format("tenant {}: more than {} requests a second, expected "
                                             "fewer",
                                             shown(), by.limits.rate),
                         .retry_after = wait});
}

gsched::ticket service::infer(service_request&& what, on_end ended) {
  const std::shared_ptr<tenant> by = tenant_of(what.with.tenant);
  const served_ptr model = what.model;
  // Counted before it is looked at, so that wait_idle waits for all that are let in.
  unanswered_.fetch_add(1, std::memory_order_seq_cst);
  active_.fetch_add(1, std::memory_order_relaxed);
  by->active.fetch_add(1, std::memory_order_relaxed);
  answer refused;
  try {
    admit(what, *by);
    auto made = std::make_unique<request>(server_->state());
    gsched::server_request r;
    r.model = model->id;
    r.client = by->client;
    r.service =
        what.with.real_time ? gsched::service_class::real_time : gsched::service_class::best_effort;
    r.deadline = what.with.deadline.value_or(gsched::duration::zero());
    server_->check(r);
    request* const posted = made.get();
    made->what = std::move(what);
    made->by = by;
    made->ended = ended;
    made->hold();
    server_->submit_as(std::move(made), r, true, {});
    return gsched::ticket(posted);
  } catch (const refusal& e) {
    refused = e.says;
  } catch (const gsched::error& e) {
    refused = {
        .what = outcome::unavailable, .line = e.what(), .retry_after = std::chrono::seconds{1}};
  } catch (const std::bad_alloc&) {
    refused = {.what = outcome::failed, .line = "out of memory, expected a smaller request"};
  }
  active_.fetch_sub(1, std::memory_order_relaxed);
  by->active.fetch_sub(1, std::memory_order_relaxed);
  metrics_.ended(model->plan.name, by->name, refused);
  ended(refused);
  if (unanswered_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    const std::lock_guard lock(idle_mutex_);
    idle_.notify_all();
  }
  return {};
}

void service::collect() {
  std::array<gsched::request_record*, 64> ended;
  try {
    for (;;) {
      const std::uint32_t n =
          server_->collect(ended.data(), static_cast<std::uint32_t>(ended.size()));
      for (std::uint32_t i = 0; i < n; ++i) finish(static_cast<request&>(*ended[i]));
    }
  } catch (const gsched::error&) { // the server is closed, and all were collected
  }
}

void service::finish(request& r) {
  using gsched::request_status;
  answer a;
  a.latency = gsched::duration{r.end_ns - r.arrival_ns};
  a.waited = gsched::duration{(r.start_ns != 0 ? r.start_ns : r.end_ns) - r.arrival_ns};
  a.line = r.error;
  switch (r.status) {
  case request_status::finished: a.missed_deadline = r.end_ns > r.deadline_ns; break;
  case request_status::rejected: a.what = outcome::late; break; // all other limits are admit's
  case request_status::cancelled:
    a.what = r.code == gsched::errc::closed ? outcome::unavailable : outcome::cancelled;
    break;
  default:
    a.what = r.code == gsched::errc::device_failed ? outcome::unavailable : outcome::failed;
    break;
  }
  if (a.what == outcome::unavailable) a.retry_after = std::chrono::seconds{1};
  // Places are free before the client learns of the end, so that it may use them again.
  active_.fetch_sub(1, std::memory_order_relaxed);
  r.by->active.fetch_sub(1, std::memory_order_relaxed);
  metrics_.ended(r.what.model->plan.name, r.by->name, a);
  const on_end ended = std::move(r.ended);
  r.what = {}; // the server's thread may release it last, and must not remove a model
  r.release();
  ended(a);
  if (unanswered_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    const std::lock_guard lock(idle_mutex_);
    idle_.notify_all();
  }
}

bool service::wait_idle(gsched::duration timeout) {
  std::unique_lock lock(idle_mutex_);
  return idle_.wait_for(lock, timeout,
                        [&] { return unanswered_.load(std::memory_order_seq_cst) == 0; });
}

load_figures service::load() const {
  const gsched::server_load now = server_->was_load();
  return {.ready = ready(),
          .failed = now.failed,
          .active = std::max<std::uint64_t>(active_.load(std::memory_order_relaxed), now.active),
          .most = most_requests_.load(std::memory_order_relaxed),
          .queued = now.queued};
}

std::string service::metrics() {
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
  const gsched::server_statistics s = server_->statistics();
  out.metric("gsched_segments_total", "counter", "Pieces of requests that the device was given.");
  out.sample("", "", static_cast<double>(s.requests.segments));
  out.metric("gsched_host_seconds_total", "counter", "Time of the dispatching thread at work.");
  out.sample("", "", gsched::to_s(s.host_time));
  if (host_) {
    const gsched::channel::host_statistics h = host_->statistics();
    out.metric("gsched_channel_clients", "gauge", "Clients through shared memory.");
    out.sample("", "", static_cast<double>(h.connected));
  }
  return out.text();
}

} // namespace gsched_server
