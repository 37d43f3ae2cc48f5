// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/cuda/stand_in_inference.hpp"
#include "serve_mix/serve_under.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace serve_mix {

namespace {

using namespace gsched;

/// Streams that requests take in turn where nothing schedules them.
constexpr std::uint32_t unscheduled_lanes = 64;

manner manner_on_gpu(const std::string& policy, const options& from) {
  manner m = manner_of(policy, from);
  if (!m.scheduled) m.dispatch.lanes = std::min(m.dispatch.lanes, unscheduled_lanes);
  return m;
}

struct cuda_stage {
  using device = cuda::device;
  using body = stand_in_inference;

  int gpu;
  timeline* record;
  std::uint64_t in_flight = 0;
  time_point since{}; ///< since when something is in flight
  duration worked{};

  [[nodiscard]] device make_device(const manner& how) const {
    cuda::device_options o;
    o.gpu = gpu;
    o.max_segments = how.dispatch.max_segments;
    o.copies = std::min(how.dispatch.lanes, 64u); // any job's piece can be on every lane
    if (how.scheduled) {
      o.grain = how.dispatch.quantum;
      const auto longest =
          static_cast<std::uint64_t>(how.dispatch.most_quantum / how.dispatch.quantum);
      o.levels = std::clamp(static_cast<unsigned>(std::bit_width(longest)), 1u, 16u);
    } else {
      o.grain = std::chrono::hours{1}; // whole graphs
      o.levels = 1;
    }
    return device(o);
  }
  [[nodiscard]] static body make_body(const profile& p) { return body(p); }
  static void spend(const device& d, duration t) noexcept {
    for (const time_point until = d.now() + t; d.now() < until;) {
    }
  }
  void submitted(const job& j, const segment& s, time_point now) noexcept {
    if (in_flight++ == 0) since = now;
    if (record != nullptr) record->submitted(j, s, now);
  }
  void landed(segment_id id, time_point now) noexcept {
    if (--in_flight == 0) worked += now - since;
    if (record != nullptr) record->landed(id, now);
  }
  [[nodiscard]] duration busy(const device&) const noexcept { return worked; }
  /// A device that has failed serves nobody: requests that have not come yet are not waited for.
  [[nodiscard]] static bool ended(const device& d) noexcept { return d.failure().has_value(); }
  static void finish(const device& d, const dispatch_statistics& s) {
    if (!d.failure()) return;
    throw error(errc::device_failed, *d.failure() + "; of " + std::to_string(s.submitted) +
                                         " requests " + std::to_string(s.finished) +
                                         " finished and " +
                                         std::to_string(s.submitted - s.finished) + " did not");
  }
};

class real_gpu final : public platform {
public:
  explicit real_gpu(const options& from) : gpu_(find(from)) {
    cuda::check(cudaSetDevice(gpu_.ordinal), "GPU"); // stand-ins are made for the one in use
  }

  [[nodiscard]] architecture_limits sm() const override { return gpu_.sm; }
  [[nodiscard]] std::string name() const override { return gpu_.name; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return 11; }
  void serve(const run_order& run) override {
    cuda_stage on{gpu_.ordinal, run.record};
    serve_on(manner_on_gpu(run.policy, run.from), run, on);
  }

private:
  [[nodiscard]] static cuda::gpu find(const options& from) {
    // The driver reads it once, when it starts; nothing has called it before.
    if (from.queues) setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(*from.queues).c_str(), 1);
    return cuda::find_gpu(from.gpu.value());
  }

  cuda::gpu gpu_;
};

} // namespace

std::unique_ptr<platform> open_cuda(const options& from) {
  return std::make_unique<real_gpu>(from);
}

} // namespace serve_mix
