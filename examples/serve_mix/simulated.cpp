// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/serve_under.hpp"

#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/sim/preset_json.hpp>

#include <memory>
#include <utility>

namespace serve_mix {

namespace {

using namespace gsched;

/// What runs as a job for one model: copy the input in, infer, copy the output out.
class inference {
public:
  explicit inference(const profile& of) : graph_(to_program(of)), in_(of.input), out_(of.output) {}

  [[nodiscard]] gsched::program& program() noexcept { return graph_; }

  task operator()(job_context& ctx) {
    const stream_id s = ctx.default_stream();
    if (in_.count() > 0) ctx.copy_async(s, copy_direction::host_to_device, in_);
    ctx.launch(s, graph_);
    if (out_.count() > 0) ctx.copy_async(s, copy_direction::device_to_host, out_);
    co_return;
  }

private:
  gsched::program graph_;
  byte_count in_;
  byte_count out_;
};

struct simulated_stage {
  using device = sim::device;
  using body = inference;

  const sim::preset& preset;
  timeline* record;

  [[nodiscard]] device make_device(const manner&) const {
    return device(preset, {}, record != nullptr ? record->device_observer() : sim::observer{});
  }
  [[nodiscard]] static body make_body(const profile& p) { return body(p); }
  static void spend(device& d, duration t) noexcept { d.spend(t); }
  static void submitted(const job&, const segment&, time_point) noexcept {}
  static void landed(segment_id, time_point) noexcept {}
  [[nodiscard]] static duration busy(device& d) { return d.busy_time(); }
  [[nodiscard]] static bool ended(const device&) noexcept { return false; }
  static void finish(const device&, const dispatch_statistics&) noexcept {}
};

class simulated final : public platform {
public:
  explicit simulated(const options& from) {
    if (from.preset.empty()) {
      preset_ = sim::preset_by_name(from.device);
    } else {
      sim::preset_provenance measured_on;
      preset_ = sim::read_preset(from.preset, &measured_on);
      name_ = measured_on.gpu;
    }
    if (from.queues) preset_.hardware_queues = *from.queues;
  }

  [[nodiscard]] architecture_limits sm() const override { return preset_.sm; }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return 1; }
  void serve(const run_order& run) override {
    simulated_stage on{preset_, run.record};
    serve_on(manner_of(run.policy, run.from), run, on);
  }

private:
  sim::preset preset_;
  std::string name_;
};

} // namespace

std::unique_ptr<platform> open_simulated(const options& from) {
  return std::make_unique<simulated>(from);
}

} // namespace serve_mix
