// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/arrivals.hpp"
#include "realtime/options.hpp"
#include "realtime/result.hpp"

#include "common/run/configuration.hpp"
#include "common/run/platform.hpp"
#include "common/timeline.hpp"

#include <gsched/interference/contention_law.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace realtime {

/// How real-time programs are padded.
struct padding_choice {
  gsched::level_rule rule = gsched::level_rule::needed;
  std::size_t places = 0; ///< of a best-effort program, from which others carry it, at most
  /// Predicts slow-downs of kernels, which stay below `most_slow_down`; none: the rule alone.
  std::optional<gsched::contention_law> law{};
  double most_slow_down = 0; ///< 0.05 allows 5%
};

/// One run: the workload, the settings, and where its results go.
struct run_request {
  const configuration& how;
  bool whole;                        ///< serve requests one at a time
  gsched::preemptibility leaves;     ///< of best-effort kernels
  std::optional<padding_choice> pad; ///< if real-time programs are padded
  std::span<const client_spec> clients;
  std::span<const gsched::profile> models; ///< one a client
  sources& from;                           ///< of requests, by client; its clock starts at zero
  std::optional<gsched::duration> length;
  std::optional<std::uint64_t> requests; ///< real-time ones
  common::timeline* record;              ///< null for none
  run_result& result;
  std::function<void(std::uint64_t)> progress; ///< called with the progress of the run
};

using platform = common::platform<run_request>;

/// As --device says.
/// Errors   no_device for a GPU that is not there or cannot be used; those of load_preset.
[[nodiscard]] std::unique_ptr<platform> open_platform(const options& from);

[[nodiscard]] std::unique_ptr<platform> open_simulated(const options& from);
/// In builds with CUDA alone.
[[nodiscard]] std::unique_ptr<platform> open_cuda(const options& from);

} // namespace realtime
