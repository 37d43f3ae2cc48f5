// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/devices/serving_device.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/task.hpp>

#include <memory>
#include <vector>

namespace gsched_server {

/// Copies the inputs in, runs the profile, copies the outputs out. It computes nothing.
class simulated_model final : public placed_model {
public:
  [[nodiscard]] static std::unique_ptr<simulated_model> make(const model_plan& m,
                                                             queued_time& queued);
  simulated_model(const model_plan& m, std::vector<gsched::model_instance> all,
                  queued_time& queued);

  gsched::task run(gsched::job_context& ctx, gsched::request_record& r) override;
  /// Zeros for clients of the channel, whose outputs are behind their inputs.
  void deliver(gsched::request_record& r) noexcept override;

private:
  gsched::byte_count in_, out_;
};

} // namespace gsched_server
