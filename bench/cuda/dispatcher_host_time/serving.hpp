// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "run.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/names.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace host_time {

/// Host time of one run, in nanoseconds a segment.
struct figures {
  double busy_ns = 0;      ///< in the dispatcher's steps and in submitting jobs, in total
  double driver_ns = 0;    ///< of that, in the driver's calls
  double fruitless_ns = 0; ///< of that, in steps without work: part of waiting
  double segments_per_job = 0;
  double segments_per_second = 0;

  [[nodiscard]] double beyond_driver_ns() const { return busy_ns - driver_ns; }
  [[nodiscard]] double useful_ns() const { return beyond_driver_ns() - fruitless_ns; }
};

/// A full dispatcher of deficit_over<srpt> on a GPU that serves one model, with that many jobs
/// always active: each that ends is followed by another.
class serving {
public:
  serving(const gsched::profile& model, const run_options& how, unsigned jobs);
  [[nodiscard]] figures run(std::uint64_t segments);
  /// Ends the active jobs. Throws if anything was lost.
  void stop();
  [[nodiscard]] std::uint64_t built_late() const { return device_.statistics().built_late; }
  [[nodiscard]] const gsched::cuda::gpu& gpu() const { return device_.facts(); }

private:
  using policy_type = gsched::deficit_over<gsched::srpt>;
  void refill();

  unsigned jobs_;
  gsched::cuda::program program_;
  gsched::cuda::device device_;
  gsched::aggregate_accountant account_;
  policy_type order_;
  gsched::silent_listener hears_;
  struct body {
    gsched::program* graph = nullptr;
    gsched::task operator()(gsched::job_context& ctx) const {
      ctx.launch(*graph);
      co_return;
    }
  } body_;
  gsched::dispatcher<policy_type, gsched::cuda::device, gsched::aggregate_accountant> dispatch_;
  gsched::model_id model_{};
  std::vector<gsched::client*> clients_;
  std::size_t turn_ = 0;
};

} // namespace host_time
