// SPDX-License-Identifier: Apache-2.0
#include "partition/partition_instance.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace gsched::cuda {

namespace {

device_options options_for(int ordinal, duration watchdog) {
  device_options o;
  o.gpu = ordinal;
  o.max_segments = 4;
  o.ring_slots = 64; // no kernel reports
  o.watchdog = watchdog;
  o.few_streams = true;
  return o;
}

} // namespace

partition_instance::partition_instance(std::uint32_t gpu, int ordinal,
                                       const partition_placement& where,
                                       const std::vector<std::vector<std::uint32_t>>& batches,
                                       const program_source& source, duration watchdog,
                                       staging_pool& staging, int priority, bool traces)
    : gpu_(gpu), ordinal_(ordinal), where_(where), device_(options_for(ordinal, watchdog)),
      staging_(staging) {
  const current_gpu here(ordinal);
  lane_options how;
  how.priority = priority;
  lane_ = where.groups.empty() ? device_.open_lane(how) : device_.open_lane(how, where.groups);
  for (const std::size_t model : where.models)
    for (const std::uint32_t batch : batches[model]) {
      program_lease p = source({gpu, model, batch, where.sms});
      if (p.leased == nullptr)
        throw error(errc::too_small, name() + ": no program of model " + std::to_string(model) +
                                         " for batches of " + std::to_string(batch) +
                                         " is free, expected one more");
      gsched::program& host = p.leased->host();
      host.keep_whole();
      device_.load(host);
      device_.prepare(host, lane_);
      programs_.push_back({model, batch, std::move(p), host.id()});
    }
  if (!traces) return;
  trace_.emplace(batch_trace{ordinal,
                             make_event("a known time"),
                             make_event("begin of a batch"),
                             make_event("end of a batch"),
                             {}});
  const CUstream stream = device_.stream_of(lane_);
  for (int warm = 0; warm < 2; ++warm) { // the first record may load something
    check(driver().cuEventRecord(trace_->known.get(), stream), "event of a partition");
    check(cudaEventSynchronize(trace_->known.get()), "event of a partition");
    trace_->known_at = std::chrono::steady_clock::now();
  }
}

std::optional<std::pair<partition_instance::host_time, partition_instance::host_time>>
partition_instance::gpu_times() const {
  if (!trace_) return std::nullopt;
  const current_gpu here(trace_->ordinal);
  const auto at = [&](const event_owner& e) {
    float ms = 0;
    // The end word of a graph can be seen before the event behind the graph.
    check(cudaEventSynchronize(e.get()), "event of a batch");
    check(cudaEventElapsedTime(&ms, trace_->known.get(), e.get()), "time of a batch");
    return trace_->known_at + std::chrono::duration_cast<host_time::duration>(
                                  std::chrono::duration<double, std::milli>(ms));
  };
  return std::pair(at(trace_->begin), at(trace_->end));
}

std::string partition_instance::name() const {
  return "GPU " + std::to_string(gpu_) + ", partition of " + std::to_string(where_.sms.count()) +
         " SMs";
}

void partition_instance::fail_with(std::error_code e) const {
  throw error(errc::device_failed, name() + ": " + device_.failure().value_or(e.message()));
}

std::uint64_t partition_instance::data_bytes() const noexcept {
  std::uint64_t most = 0;
  for (const ready_program& p : programs_)
    most =
        std::max(most, bytes_of(p.program.inputs, p.batch) + bytes_of(p.program.outputs, p.batch));
  return most;
}

segment partition_instance::next_segment() noexcept {
  segment s;
  s.id = segment_id{begun_++};
  s.lane = lane_;
  return s;
}

void partition_instance::submit(const segment& s) {
  if (const std::error_code e = device_.submit(s)) fail_with(e);
  ++left_;
}

void partition_instance::submit_copies(copy_segment& with, const std::vector<planned_copy>& copies,
                                       copy_direction direction) {
  if (copies.empty()) return;
  with = {};
  with.actions.reserve(copies.size());
  with.operations.reserve(copies.size());
  for (const planned_copy& c : copies) {
    // A guess at the bus, which only says how much is queued.
    const duration expected{2000 + static_cast<duration::rep>(c.bytes / 20)};
    with.actions.emplace_back(c.to, c.from);
    with.operations.push_back(with.actions.back().as_operation(direction, c.bytes, expected));
    with.in_order.push_back(&with.operations.back());
  }
  segment s = next_segment();
  s.operations = with.in_order;
  submit(s);
}

void partition_instance::begin(const batch_run& r) {
  const auto at = std::find_if(programs_.begin(), programs_.end(), [&](const ready_program& p) {
    return p.model == r.model && p.batch >= r.batch;
  });
  const auto refuse = [&](const std::string& expected) {
    throw error(errc::bad_option, name() + ": batch of " + std::to_string(r.batch) + " of model " +
                                      std::to_string(r.model) + ", expected " + expected);
  };
  if (at == programs_.end()) refuse("one that has a program");
  const program_lease& of = at->program;
  const auto fits = [&](std::size_t addresses, std::size_t buffers) {
    return addresses == 0 || addresses == buffers * r.batch;
  };
  if (!fits(r.data.inputs.size(), of.inputs.size()) ||
      !fits(r.data.outputs.size(), of.outputs.size()))
    refuse("data of " + std::to_string(of.inputs.size()) + " inputs and " +
           std::to_string(of.outputs.size()) + " outputs for each request");

  const std::uint64_t in_bytes = bytes_of(of.inputs, r.batch);
  const current_gpu asked(ordinal_); // for questions about addresses
  const auto staging_at = [&](std::uint64_t offset) {
    if (staged_ == nullptr) staged_ = staging_.take(in_bytes + bytes_of(of.outputs, r.batch));
    return staged_.get() + offset;
  };
  copy_list in, out;
  if (!r.data.inputs.empty())
    in = copy_planner::in(of.inputs, r.data.inputs, r.batch, driver_memory{},
                          [&] { return staging_at(0); });
  if (!r.data.outputs.empty())
    out = copy_planner::out(of.outputs, r.data.outputs, r.batch, driver_memory{},
                            [&] { return staging_at(in_bytes); });
  for (const planned_copy& c : in.by_host) std::memcpy(c.to, c.from, c.bytes);
  at_end_ = std::move(out.by_host);

  const auto record = [&](const event_owner& e) {
    const current_gpu here(trace_->ordinal);
    check(driver().cuEventRecord(e.get(), device_.stream_of(lane_)), "event of a batch");
  };
  if (trace_) record(trace_->begin);
  submit_copies(in_, in.by_gpu, copy_direction::host_to_device);
  const gsched::program& p = of.leased->host();
  segment s = next_segment();
  s.program = at->id;
  s.operations = p.range(0, p.size());
  submit(s);
  submit_copies(out_, out.by_gpu, copy_direction::device_to_host);
  if (trace_) record(trace_->end);
}

bool partition_instance::try_end() {
  std::array<device_event, 4> events;
  const std::size_t n = device_.poll(events);
  for (std::size_t i = 0; i < n; ++i) {
    if (events[i].what == device_event::kind::segment_failed)
      fail_with(make_error_code(errc::device_failed));
    if (events[i].what != device_event::kind::segment_done || --left_ > 0) continue;
    for (const planned_copy& c : at_end_) std::memcpy(c.to, c.from, c.bytes);
    staged_.reset();
    return true;
  }
  return false;
}

} // namespace gsched::cuda
