// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/arrivals.hpp"
#include "realtime/options.hpp"
#include "realtime/result.hpp"

#include "common/manner.hpp"
#include "common/timeline.hpp"

#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace realtime {

/// One run: what is asked for and how it is scheduled, and where its results go.
struct run_order {
  const manner& how;
  bool whole;                            ///< requests, one at a time
  gsched::leaving leaves;                ///< of best-effort kernels
  std::optional<gsched::level_rule> pad; ///< how real-time programs are padded, if they are
  std::size_t pad_places; ///< of a best-effort program, from which others carry it, at most
  std::span<const client_spec> clients;
  std::span<const gsched::profile> models; ///< one a client
  sources& from;                           ///< of requests, by client; its clock starts at zero
  std::optional<gsched::duration> length;
  std::optional<std::uint64_t> requests; ///< real-time ones
  common::timeline* record;              ///< null for none
  run_result& result;
  std::function<void(std::uint64_t)> progress; ///< is given what has been done of the run
};

/// What models run on: a simulated GPU, or a real one.
class platform {
public:
  virtual ~platform() = default;

  [[nodiscard]] virtual gsched::architecture_limits sm() const = 0;
  /// Of the GPU; empty for the one that ships with the library.
  [[nodiscard]] virtual std::string name() const = 0;
  /// How many requests tell how long a model takes alone, after one that warms up.
  [[nodiscard]] virtual std::uint64_t solo_requests() const noexcept = 0;
  /// Whether several threads may serve at a time, and no run notices the others.
  [[nodiscard]] virtual bool serves_side_by_side() const noexcept = 0;
  /// On a device of its own.
  /// Errors   gsched::error for a device that failed.
  virtual void serve(const run_order& run) = 0;
};

/// As --device says. Errors   no_device for a GPU that is not there or cannot be used; those of
/// read_preset.
[[nodiscard]] std::unique_ptr<platform> open_platform(const options& from);

[[nodiscard]] std::unique_ptr<platform> open_simulated(const options& from);
/// In builds with CUDA alone.
[[nodiscard]] std::unique_ptr<platform> open_cuda(const options& from);

} // namespace realtime
