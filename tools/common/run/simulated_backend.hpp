// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/device_option.hpp"
#include "common/run/configuration.hpp"
#include "common/timeline.hpp"

#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/task.hpp>
#include <gsched/preempt/colocate/rules.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/sim/program_padder.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace common {

/// A preset, and the GPU that it was measured on: empty for the one that ships with the library.
struct simulated_gpu {
  gsched::sim::preset preset;
  std::string name;
};
/// Errors   those of load_preset.
[[nodiscard]] simulated_gpu simulated_gpu_of(const device_choice& which);

/// The job of a model: copy the input in, infer, copy the output out.
class simulated_inference {
public:
  /// With a program of preemptible_profile for each instance (gsched::job_context).
  simulated_inference(const gsched::profile& of, gsched::preemptibility leaves,
                      std::uint32_t instances);

  [[nodiscard]] gsched::program& program(std::uint32_t instance) noexcept {
    return graphs_[instance];
  }

  gsched::task operator()(gsched::job_context& ctx) {
    const gsched::stream_id s = ctx.default_stream();
    if (in_.count() > 0) ctx.copy_async(s, gsched::copy_direction::host_to_device, in_);
    ctx.launch(s, graphs_[ctx.instance]);
    if (out_.count() > 0) ctx.copy_async(s, gsched::copy_direction::device_to_host, out_);
    co_return;
  }

private:
  std::vector<gsched::program> graphs_;
  gsched::byte_count in_;
  gsched::byte_count out_;
};

/// A backend in virtual time.
struct simulated_backend {
  using device = gsched::sim::device;
  using body = simulated_inference;
  using padder = gsched::sim::program_padder;
  using padded = gsched::program;

  const gsched::sim::preset& preset;
  timeline* record;

  [[nodiscard]] device make_device(const configuration&) const {
    return device(preset, {},
                  record != nullptr ? record->device_observer() : gsched::sim::observer{});
  }
  [[nodiscard]] static body make_body(const gsched::profile& p, gsched::preemptibility leaves,
                                      std::uint32_t instances) {
    return body(p, leaves, instances);
  }
  [[nodiscard]] padder make_padder(gsched::level_rule rule) const { return padder(preset, rule); }
  [[nodiscard]] static std::size_t add(padder& to, const gsched::profile&,
                                       const gsched::program& p) {
    return to.add(p);
  }
  [[nodiscard]] static gsched::program& host_of(padded& p) noexcept { return p; }
  static void prepare(device&, const gsched::program&, std::size_t, std::size_t) noexcept {}
  static void spend(device& d, gsched::duration t) noexcept { d.spend(t); }
  static void submitted(const gsched::job&, const gsched::segment&, gsched::time_point) noexcept {}
  static void landed(gsched::segment_id, gsched::time_point) noexcept {}
  [[nodiscard]] static gsched::duration busy(device& d) { return d.busy_time(); }
  [[nodiscard]] static std::optional<std::uint64_t> rerun(const device& d) noexcept {
    return d.rerun_blocks();
  }
  [[nodiscard]] static bool ended(const device&) noexcept { return false; }
  static void finish(const device&, const gsched::dispatch_statistics&) noexcept {}
};

} // namespace common
