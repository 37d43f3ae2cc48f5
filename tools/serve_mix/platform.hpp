// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"
#include "serve_mix/report.hpp"

#include "common/run/platform.hpp"
#include "common/timeline.hpp"

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/workload/arrival.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace serve_mix {

using common::timeline; // and not gsched's

/// The requests of a run: any gsched::arrival_source.
class request_source {
public:
  virtual ~request_source() = default;
  [[nodiscard]] virtual std::optional<gsched::arrival> next() = 0;
  virtual void on_reply(gsched::client_id client, gsched::time_point now) = 0;
};
template <gsched::arrival_source A>
class source_of final : public request_source {
public:
  explicit source_of(A from) : from_(std::move(from)) {}
  [[nodiscard]] std::optional<gsched::arrival> next() override { return from_.next(); }
  void on_reply(gsched::client_id client, gsched::time_point now) override {
    from_.on_reply(client, now);
  }

private:
  A from_;
};

/// One policy's run: the workload, and where its results go.
struct run_request {
  const std::string& policy;
  const options& from;
  std::uint64_t requests;
  request_source& source;
  std::span<const gsched::profile> models;
  timeline* record; ///< null for none
  run_result& result;
  std::span<const gsched::duration> solo; ///< of each model alone; where deadlines are of these
  std::function<void(std::uint64_t)> progress;       ///< is given the requests that have ended
  std::shared_ptr<const gsched::corun_rule> apart{}; ///< null: all models run side by side
};

using platform = common::platform<run_request>;

/// As --device says.
/// Errors   no_device for a GPU that is not there or cannot be used; those of load_preset.
[[nodiscard]] std::unique_ptr<platform> open_platform(const options& from);

[[nodiscard]] std::unique_ptr<platform> open_simulated(const options& from);
/// In builds with CUDA alone.
[[nodiscard]] std::unique_ptr<platform> open_cuda(const options& from);

} // namespace serve_mix
