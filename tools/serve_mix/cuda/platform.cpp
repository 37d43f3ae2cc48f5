// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/configuration.hpp"
#include "serve_mix/serve_under.hpp"

#include "common/cuda/platform.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

namespace serve_mix {

namespace {

/// Streams that requests take in turn where nothing schedules them.
constexpr std::uint32_t unscheduled_lanes = 64;

configuration configuration_on_gpu(const std::string& policy, const options& from) {
  configuration m = configuration_of(policy, from);
  if (!m.scheduled) m.dispatch.lanes = std::min(m.dispatch.lanes, unscheduled_lanes);
  m.copies = std::min(m.dispatch.lanes, 64u); // any job's piece can be on every lane
  return m;
}

} // namespace

std::unique_ptr<platform> open_cuda(const options& from) {
  return common::make_real<run_request>(
      from, 11, [](const run_request& run, common::cuda_backend& on) {
        serve_on(configuration_on_gpu(run.policy, run.from), run, on);
      });
}

} // namespace serve_mix
