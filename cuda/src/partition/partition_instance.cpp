// SPDX-License-Identifier: Apache-2.0
#include "partition/partition_instance.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <algorithm>
#include <array>
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
  return o;
}

} // namespace

partition_instance::partition_instance(std::uint32_t gpu, int ordinal,
                                       const partition_placement& where,
                                       const std::vector<std::vector<std::uint32_t>>& batches,
                                       const program_source& source, duration watchdog)
    : gpu_(gpu), where_(where), device_(options_for(ordinal, watchdog)) {
  const current_gpu here(ordinal);
  lane_ = device_.open_lane({}, where.groups);
  for (const std::size_t model : where.models)
    for (const std::uint32_t batch : batches[model]) {
      program_lease p = source({gpu, model, batch, where.sms});
      if (p == nullptr)
        throw error(errc::too_small, name() + ": no program of model " + std::to_string(model) +
                                         " for batches of " + std::to_string(batch) +
                                         " is free, expected one more");
      gsched::program& host = p->host();
      host.keep_whole();
      device_.load(host);
      device_.prepare(host, lane_);
      programs_.push_back({model, batch, std::move(p), host.id()});
    }
}

std::string partition_instance::name() const {
  return "GPU " + std::to_string(gpu_) + ", partition of " + std::to_string(where_.sms.count()) +
         " SMs";
}

void partition_instance::fail_with(std::error_code e) const {
  throw error(errc::device_failed, name() + ": " + device_.failure().value_or(e.message()));
}

void partition_instance::begin(std::size_t model, std::uint32_t batch) {
  const auto at = std::find_if(programs_.begin(), programs_.end(), [&](const ready_program& p) {
    return p.model == model && p.batch >= batch;
  });
  if (at == programs_.end())
    throw error(errc::bad_option, name() + ": batch of " + std::to_string(batch) + " of model " +
                                      std::to_string(model) + ", expected one that has a program");
  const gsched::program& p = at->program->host();
  segment s;
  s.id = segment_id{begun_++};
  s.lane = lane_;
  s.program = at->id;
  s.operations = p.range(0, p.size());
  if (const std::error_code e = device_.submit(s)) fail_with(e);
  running_ = true;
}

bool partition_instance::try_end() {
  std::array<device_event, 4> out;
  const std::size_t n = device_.poll(out);
  for (std::size_t i = 0; i < n; ++i) {
    if (out[i].what == device_event::kind::segment_failed)
      fail_with(make_error_code(errc::device_failed));
    if (out[i].what != device_event::kind::segment_done) continue;
    running_ = false;
    return true;
  }
  return false;
}

} // namespace gsched::cuda
