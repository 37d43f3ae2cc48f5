// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/devices/adapted.hpp"
#include "gsched_server/devices/serving_device.hpp"
#include "gsched_server/devices/start_server.hpp"

#include "common/cli/run_error.hpp"
#include "common/cuda/cuda_backend.hpp"
#include "common/cuda/stand_in_inference.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/host_memory.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/task.hpp>

#include <gsched/server/request_record.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched_server {

namespace {

/// Stand-ins of a profile's kernels, with copies of as many bytes. It computes nothing.
class stand_in_model final : public placed_model {
public:
  [[nodiscard]] static std::unique_ptr<stand_in_model> make(const model_plan& m,
                                                            queued_time& queued) {
    const auto runs = std::make_shared<common::stand_in_inference>(
        m.profile, gsched::preemptibility::never, m.instances);
    std::vector<gsched::model_instance> all;
    for (std::uint32_t i = 0; i < m.instances; ++i) all.push_back({&runs->program(i), runs});
    return std::make_unique<stand_in_model>(m, std::move(all), *runs, queued);
  }
  stand_in_model(const model_plan& m, std::vector<gsched::model_instance> all,
                 common::stand_in_inference& runs, queued_time& queued)
      : placed_model(m.name, std::move(all), queued), runs_(runs),
        in_bytes_(m.profile.input.count()), out_bytes_(m.profile.output.count()) {}

  gsched::task run(gsched::job_context& job, gsched::request_record& r) override {
    const queued_time::share held = counted(r);
    co_await runs_(job);
    if (r.user != nullptr) co_return;
    job.almost_finished();
    co_await job.synchronize(); // until then it counts
  }
  void deliver(gsched::request_record& r) noexcept override {
    if (r.payload.size() == in_bytes_ + out_bytes_)
      std::ranges::fill(r.payload.subspan(in_bytes_), std::byte{0});
  }

private:
  common::stand_in_inference& runs_; ///< of the instances
  std::size_t in_bytes_, out_bytes_;
};

class cuda_device final : public serving_device {
public:
  explicit cuda_device(const common::device_choice& which)
      : name_(which.device), gpu_(common::open_gpu(which).ordinal) {}

  std::unique_ptr<gsched::server> open(const settings& how, std::uint32_t number) override {
    const gsched::server_options s = server_options_of(how, number);
    gsched::cuda::device_options o;
    o.gpu = gpu_;
    o.max_segments = s.dispatch.max_segments;
    o.grain = s.dispatch.quantum;
    const auto longest = static_cast<std::uint64_t>(s.dispatch.most_quantum / s.dispatch.quantum);
    o.levels = std::clamp(static_cast<unsigned>(std::bit_width(longest)), 1U, 16U);
    o.whole = how.real_time_lanes > 0; // real-time requests run whole
    return start_server([o] { return gsched::cuda::device(o); }, how, number);
  }
  std::unique_ptr<gsched::served_model> make_model(const model_plan& m,
                                                   queued_time& queued) override {
    gsched::cuda::check(cudaSetDevice(gpu_), "GPU"); // of this thread
    if (m.adaptor.library) return make_adapted(m, queued, name_, gpu_);
    return stand_in_model::make(m, queued);
  }
  void pin(std::span<std::byte> memory) override { gsched::cuda::pin_memory(gpu_, memory); }
  void unpin(std::span<std::byte> memory) noexcept override {
    gsched::cuda::unpin_memory(gpu_, memory);
  }

private:
  std::string name_;
  int gpu_;
};

} // namespace

std::unique_ptr<serving_device> cuda_device_of(const common::device_choice& which) {
  return std::make_unique<cuda_device>(which);
}

gsched::architecture_limits cuda_sm_of(const common::device_choice& which) {
  try {
    return common::open_gpu(which).sm;
  } catch (const gsched::error& e) { // of this machine, and not of the command line
    throw common::run_error(gsched::errc::no_device, e.what());
  }
}

} // namespace gsched_server
