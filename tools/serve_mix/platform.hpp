// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"
#include "serve_mix/report.hpp"

#include "common/run/platform.hpp"
#include "common/timeline.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/workload/arrivals.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace serve_mix {

using common::timeline; // and not gsched's

/// One policy's run: the workload, and where its results go.
struct run_request {
  const std::string& policy;
  const options& from;
  std::uint64_t requests;
  gsched::any_arrival_source& source;
  std::span<const gsched::profile> models;
  timeline* record; ///< null for none
  run_result& result;
  std::span<const gsched::duration> solo; ///< of each model alone; where deadlines are of these
  std::function<void(std::uint64_t)> progress; ///< is given the requests that have ended
};

using platform = common::platform<run_request>;

/// As --device says.
/// Errors   no_device for a GPU that is not there or cannot be used; those of load_preset.
[[nodiscard]] std::unique_ptr<platform> open_platform(const options& from);

[[nodiscard]] std::unique_ptr<platform> open_simulated(const options& from);
/// In builds with CUDA alone.
[[nodiscard]] std::unique_ptr<platform> open_cuda(const options& from);

} // namespace serve_mix
