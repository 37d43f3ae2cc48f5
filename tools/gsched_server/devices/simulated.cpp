// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/devices/adapted.hpp"
#include "gsched_server/devices/serving_device.hpp"
#include "gsched_server/devices/simulated_model.hpp"
#include "gsched_server/devices/start_server.hpp"

#include "common/run/simulated_backend.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>
#include <gsched/sim/paced_device.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gsched_server {

std::unique_ptr<simulated_model> simulated_model::make(const model_plan& m, queued_time& queued) {
  const auto keep = std::make_shared<std::vector<gsched::program>>();
  for (std::uint32_t i = 0; i < m.instances; ++i) keep->push_back(gsched::to_program(m.profile));
  std::vector<gsched::model_instance> all;
  for (gsched::program& p : *keep) all.push_back({&p, keep});
  return std::make_unique<simulated_model>(m, std::move(all), queued);
}

simulated_model::simulated_model(const model_plan& m, std::vector<gsched::model_instance> all,
                                 queued_time& queued)
    : placed_model(m.name, std::move(all), queued), in_(m.profile.input), out_(m.profile.output) {}

gsched::task simulated_model::run(gsched::job_context& ctx, gsched::request_record& r) {
  const queued_time::share held = counted(r);
  const gsched::stream_id s = ctx.default_stream();
  if (in_.count() > 0) ctx.copy_async(s, gsched::copy_direction::host_to_device, in_);
  ctx.launch(s, *instances[ctx.instance].program);
  if (out_.count() > 0) ctx.copy_async(s, gsched::copy_direction::device_to_host, out_);
  if (r.user != nullptr) co_return;
  ctx.almost_finished();
  co_await ctx.synchronize(); // until then it counts
}

void simulated_model::deliver(gsched::request_record& r) noexcept {
  if (r.payload.size() == in_.count() + out_.count())
    std::ranges::fill(r.payload.subspan(in_.count()), std::byte{0});
}

namespace {

/// A simulated GPU, paced by the real clock.
class simulated_device final : public serving_device {
public:
  explicit simulated_device(const common::device_choice& which)
      : name_(which.device), gpu_(common::simulated_gpu_of(which)) {}

  std::unique_ptr<gsched::server> open(const settings& how, std::uint32_t number) override {
    return start_server([gpu = gpu_.preset] { return gsched::sim::paced_device(gpu); }, how,
                        number);
  }
  std::unique_ptr<gsched::served_model> make_model(const model_plan& m,
                                                   queued_time& queued) override {
    if (m.adaptor.library) return make_adapted(m, queued, name_, std::nullopt);
    return simulated_model::make(m, queued);
  }

private:
  std::string name_;
  common::simulated_gpu gpu_;
};

} // namespace

#ifndef GSCHED_TOOLS_CUDA
std::unique_ptr<serving_device> cuda_device_of(const common::device_choice& which) {
  common::no_cuda(which);
}
gsched::architecture_limits cuda_sm_of(const common::device_choice& which) {
  common::no_cuda(which);
}
#endif

std::unique_ptr<serving_device> device_of(const common::device_choice& which) {
  if (which.gpu) return cuda_device_of(which);
  return std::make_unique<simulated_device>(which);
}

gsched::architecture_limits sm_of(const common::device_choice& which) {
  return which.gpu ? cuda_sm_of(which) : common::simulated_gpu_of(which).preset.sm;
}

} // namespace gsched_server
