// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"
#include "serve_mix/report.hpp"

#include "common/timeline.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/workload/arrivals.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace serve_mix {

using common::timeline; // and not gsched's

/// One policy's run: what is asked for, and where its results go.
struct run_order {
  const std::string& policy;
  const options& from;
  std::uint64_t requests;
  gsched::sim::arrivals& source;
  std::span<const gsched::profile> models;
  timeline* record; ///< null for none
  run_result& result;
  std::span<const gsched::duration> solo; ///< of each model alone; where deadlines are of these
  std::function<void(std::uint64_t)> progress; ///< is given the requests that have ended
};

/// What models run on: a simulated GPU, or a real one.
class platform {
public:
  virtual ~platform() = default;

  [[nodiscard]] virtual gsched::architecture_limits sm() const = 0;
  /// Of the GPU; empty for the one that ships with the library.
  [[nodiscard]] virtual std::string name() const = 0;
  /// How many requests tell how long a model takes alone: more than one where times differ.
  [[nodiscard]] virtual std::uint64_t solo_requests() const noexcept = 0;
  /// Whether several threads may serve at a time, and no run notices the others.
  [[nodiscard]] virtual bool serves_side_by_side() const noexcept = 0;
  /// On a device of its own.
  /// Errors   gsched::error: a malformed line of a trace file, or a device that failed.
  virtual void serve(const run_order& run) = 0;
};

/// As --device says. Errors   no_device for a GPU that is not there or cannot be used; those of
/// read_preset.
[[nodiscard]] std::unique_ptr<platform> open_platform(const options& from);

[[nodiscard]] std::unique_ptr<platform> open_simulated(const options& from);
/// In builds with CUDA alone.
[[nodiscard]] std::unique_ptr<platform> open_cuda(const options& from);

} // namespace serve_mix
