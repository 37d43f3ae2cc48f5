// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include "refusal.hpp"

#include <gsched/core/time.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace gsched::abi {

static_assert(detail::server_state::most_models == GSCHED_MOST_MODELS);

namespace {

/// A timeout of the ABI; below zero it never ends.
[[nodiscard]] duration timeout_of(std::int64_t us) noexcept {
  return us < 0 || us > duration::max().count() / 1000 ? duration::max() : duration{us * 1000};
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

server::server(std::unique_ptr<gsched::server> serves, look_at_memory look, mark_stream mark)
    : serves_(std::move(serves)), look_(std::move(look)), mark_(std::move(mark)) {}

server::server(std::unique_ptr<plan_server> serves, mark_stream mark, plan_notes notes)
    : server(
          std::unique_ptr<gsched::server>(), [](const void*) { return memory_kind::device; },
          std::move(mark)) {
  plan_ = serves.get();
  notes_ = std::move(notes);
  serves_ = std::move(serves);
}

server::data_shape server::shape_of(model_id which) const {
  const served_model& of = serves_->model(which);
  if (plan_ != nullptr) {
    const auto& m = static_cast<const planned_model&>(of);
    return {m.inputs, m.outputs};
  }
  const instance_buffers& like = static_cast<const model&>(of).buffers.front();
  data_shape s;
  for (const buffer& b : like.inputs) s.inputs.push_back(b.bytes);
  for (const buffer& b : like.outputs) s.outputs.push_back(b.bytes);
  return s;
}

void server::close(gsched_close_how how, std::int64_t timeout_us) {
  serves_->close(how == GSCHED_DRAIN ? timeout_of(timeout_us) : duration::zero());
}

std::uint32_t server::add_client(double weight) { return index(serves_->add_client(weight)); }

std::uint32_t server::add_model(std::span<const std::uint32_t> excludes,
                                const std::function<std::unique_ptr<model>()>& make) {
  if (plan_ != nullptr)
    throw refusal(GSCHED_BAD_ARGUMENT, "gsched_add_model: to a server of a plan, which has the "
                                       "models that it was opened with");
  std::vector<model_id> others;
  for (const std::uint32_t each : excludes) others.push_back(model_id{each});
  return index(
      serves_->add_model(others, [&]() -> std::unique_ptr<served_model> { return make(); }));
}

void server::remove_model(std::uint32_t model, std::int64_t timeout_us) {
  serves_->remove_model(model_id{model}, timeout_of(timeout_us));
}

gsched_model_facts server::facts(std::uint32_t which) const {
  if (plan_ != nullptr)
    throw refusal(GSCHED_BAD_ARGUMENT, "facts: of a server of a plan, expected another server");
  const auto& m = static_cast<const model&>(serves_->model(model_id{which}));
  gsched_model_facts out{};
  out.instances = m.facts.instances;
  out.operations = m.facts.operations;
  out.segments = m.facts.segments;
  out.device_bytes = m.facts.device_bytes;
  out.graphs = m.facts.graphs;
  out.nodes = m.facts.nodes;
  out.measure_ms = m.measure_ms;
  out.build_ms = to_us(m.facts.build_time) * 1e-3;
  out.expected_us = to_us(m.facts.expected);
  out.graph_replay_us = m.graph_replay_us;
  return out;
}

std::unique_ptr<channel::host> server::listen(channel::host_options how) {
  return std::make_unique<channel::host>(*serves_, std::move(how));
}

void server::offer(channel::host& to, std::uint32_t which, const std::string& name) const {
  const data_shape s = shape_of(model_id{which});
  const auto sum = [](const std::vector<std::uint64_t>& all) {
    return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  };
  to.offer(model_id{which}, name.empty() ? serves_->model(model_id{which}).name : name,
           sum(s.inputs), sum(s.outputs));
}

void server::submit(const gsched_request& r, ticket** out) {
  if (r.real_time > 1 || r.collected > 1)
    throw refusal(GSCHED_BAD_ARGUMENT, "real_time, collected: expected 0 or 1");
  if (!(r.deadline_us <= 1e15) || r.arrival_ns > INT64_MAX / 2)
    throw refusal(GSCHED_BAD_ARGUMENT, "arrival_ns, deadline_us: expected times of this century");
  if (plan_ != nullptr && (r.deadline_us != 0 || r.after != nullptr))
    throw refusal(GSCHED_BAD_ARGUMENT, "deadline_us, after: of a request to a server of a plan, "
                                       "expected none: its model's goal counts");
  server_request q;
  q.model = model_id{r.model};
  q.client = client_id{r.client};
  q.service = r.real_time != 0 ? service_class::real_time : service_class::best_effort;
  if (r.arrival_ns != 0)
    q.arrival = std::chrono::steady_clock::time_point{
        std::chrono::nanoseconds{static_cast<std::int64_t>(r.arrival_ns)}};
  if (r.deadline_us != 0) q.deadline = from_us(std::max(r.deadline_us, 0.0));
  if (r.done != nullptr)
    q.done = [done = r.done, user = r.user](request_record& s) {
      done(user, static_cast<ticket*>(&s));
    };
  q.user = r.user;
  q.wait_event = r.wait_event;
  q.signal_event = r.signal_event;
  q.after = r.after;
  serves_->check(q);
  auto t = std::make_unique<ticket>(serves_->state());
  const data_shape shape = shape_of(q.model);
  t->inputs = transfers_of(r.inputs, shape.inputs.size(), look_);
  t->outputs = transfers_of(r.outputs, shape.outputs.size(), look_);
  if (r.wait_stream != nullptr) {
    if (r.wait_event != nullptr)
      throw refusal(GSCHED_BAD_ARGUMENT, "wait_event, wait_stream: expected one of them");
    if (!mark_) throw refusal(GSCHED_BAD_ARGUMENT, "wait_stream: this server has no streams");
    t->marked = mark_(r.wait_stream);
    q.wait_event = t->marked.get();
  }
  std::function<void(request_record*)> taken;
  if (out != nullptr) taken = [out](request_record* made) { *out = static_cast<ticket*>(made); };
  serves_->submit_as(std::move(t), q, r.collected != 0, taken);
}

gsched_statistics server::statistics() {
  const server_statistics s = serves_->statistics();
  gsched_statistics out{};
  out.submitted = s.requests.submitted;
  out.active = s.requests.active;
  out.finished = s.requests.finished;
  out.failed = s.requests.failed;
  out.rejected = s.requests.rejected;
  out.cancelled = s.requests.cancelled;
  out.decisions = s.requests.decisions;
  out.segments = s.requests.segments;
  out.operations = s.requests.operations;
  out.host_ns = static_cast<std::uint64_t>(s.host_time.count());
  out.sleeps = s.sleeps;
  const preemption_statistics& p = s.preemption;
  out.reserved_segments = p.reserved_segments;
  out.preemptions = p.preemptions.count;
  out.restores = p.restores.count;
  out.preempt_p50_us = to_us(p.preemptions.latency.percentile(0.5));
  out.preempt_p99_us = to_us(p.preemptions.latency.percentile(0.99));
  out.restore_p50_us = to_us(p.restores.latency.percentile(0.5));
  out.restore_p99_us = to_us(p.restores.latency.percentile(0.99));
  out.graph_launches = s.graph_launches;
  out.built_late = s.built_late;
  out.driver_ns = s.driver_ns;
  out.expired_leases = s.expired_leases;
  out.opened = s.opened;
  out.found_to_need_sms = s.found_to_need_sms;
  out.hanging = s.hangs ? 1u : 0u;
  const neighbour_statistics& n = s.requests.neighbours;
  out.kept_apart = n.refused;
  out.apart_wait_ns = static_cast<std::uint64_t>(n.waited.count());
  return out;
}

gsched::plan_report server::report_of_plan() {
  if (plan_ == nullptr)
    throw refusal(GSCHED_BAD_ARGUMENT,
                  "server: one that dispatches requests, expected one of gsched_plan_open");
  return plan_->report();
}

gsched_plan_report server::plan_report() {
  const gsched::plan_report r = report_of_plan();
  gsched_plan_report out{};
  out.partitions = static_cast<std::uint32_t>(r.plan.gpulets.size());
  out.sms = sms_of(r.plan);
  out.factor = r.factor;
  out.batches = r.batches;
  out.switches = r.switches;
  out.failed_plans = r.failed_plans;
  out.idle_sms = r.sms - std::min(r.sms, out.sms);
  if (r.reason != replan_reason::none) name_of(r.reason).copy(out.reason, sizeof out.reason - 1);
  r.last_failure.copy(out.last_failure, sizeof out.last_failure - 1);
  notes_.warning.copy(out.warning, sizeof out.warning - 1);
  if (notes_.beyond_fit) notes_.beyond_fit(r.plan).copy(out.beyond_fit, sizeof out.beyond_fit - 1);
  return out;
}

gsched_plan_model_report server::plan_model_report(std::uint32_t which) {
  const gsched::plan_report r = report_of_plan();
  if (which >= r.models.size())
    throw refusal(GSCHED_BAD_ARGUMENT, "model " + std::to_string(which) +
                                           ": unknown, the server has " +
                                           std::to_string(r.models.size()));
  const model_outcome& m = r.models[which];
  gsched_plan_model_report out{};
  out.arrived = m.counts.arrived;
  out.in_time = m.counts.in_time;
  out.late = m.counts.late;
  out.dropped = m.counts.dropped;
  out.cancelled = m.counts.cancelled;
  out.waiting = m.counts.waiting;
  out.running = m.counts.running;
  out.batches = m.batches;
  out.rate = r.rates[which];
  out.p50_us = to_us(m.latency.percentile(0.5));
  out.p99_us = to_us(m.latency.percentile(0.99));
  if (m.expected > duration::zero()) out.slow_down = to_us(m.took) / to_us(m.expected);
  out.host_part = m.host_part();
  const learned_interference learned =
      r.learned.empty() ? learned_interference{} : r.learned[which];
  out.sensitivity = learned.factors.sensitivity;
  out.pressure = learned.factors.pressure;
  out.learned_from = learned.watched;
  out.sensitivity_error = learned.unsure.sensitivity;
  out.pressure_error = learned.unsure.pressure;
  const learned_times& times = r.times[which];
  out.time_factor = times.time_factor;
  out.rate_factor = times.rate_factor;
  out.too_slow = times.is_too_slow ? 1u : 0u;
  for (const gpulet& g : r.plan.gpulets)
    if (std::any_of(g.portions.begin(), g.portions.end(),
                    [&](const portion& p) { return p.model == which; })) {
      ++out.partitions;
      out.sms += g.sms.count();
    }
  return out;
}

gsched_report server::status(const ticket& t) {
  refuse_in_child(*t.server);
  gsched_report r{};
  r.instance = UINT32_MAX;
  r.arrival_ns = static_cast<std::uint64_t>(t.arrival_ns);
  r.user = t.user;
  r.error = "";
  r.code = GSCHED_OK;
  if (!t.has_ended()) return r;
  r.state = static_cast<gsched_state>(t.status);
  r.start_ns = static_cast<std::uint64_t>(t.start_ns);
  r.end_ns = static_cast<std::uint64_t>(t.end_ns);
  r.segments = t.segments;
  r.instance = t.instance;
  r.error = t.error.c_str();
  r.code = code_of(t.code);
  return r;
}

void server::release(ticket& t) noexcept {
  if (::getpid() == t.gsched::request_record::server->process) t.gsched::request_record::release();
}

bool server::wait(ticket& t, std::int64_t timeout_us) {
  if (timeout_us != 0) refuse_on_thread(*t.server, "gsched_wait");
  return gsched::wait_until(t, gsched::server::end_of_wait(timeout_of(timeout_us)));
}

std::uint32_t server::collect(ticket** out, std::uint32_t most, std::int64_t timeout_us) {
  std::array<request_record*, 256> taken;
  const std::uint32_t n =
      serves_->collect(taken.data(), std::min(most, static_cast<std::uint32_t>(taken.size())),
                       timeout_of(timeout_us));
  if (n == 0) throw refusal(GSCHED_TIMED_OUT, "no request has ended in time");
  for (std::uint32_t i = 0; i < n; ++i) out[i] = static_cast<ticket*>(taken[i]);
  return n;
}

} // namespace gsched::abi
