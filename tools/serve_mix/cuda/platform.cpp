// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/manner.hpp"
#include "serve_mix/serve_under.hpp"

#include "common/cuda/stage.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

namespace serve_mix {

namespace {

/// Streams that requests take in turn where nothing schedules them.
constexpr std::uint32_t unscheduled_lanes = 64;

manner manner_on_gpu(const std::string& policy, const options& from) {
  manner m = manner_of(policy, from);
  if (!m.scheduled) m.dispatch.lanes = std::min(m.dispatch.lanes, unscheduled_lanes);
  m.copies = std::min(m.dispatch.lanes, 64u); // any job's piece can be on every lane
  return m;
}

class real_gpu final : public platform {
public:
  explicit real_gpu(const options& from) : gpu_(find_real(from)) {}

  [[nodiscard]] gsched::architecture_limits sm() const override { return gpu_.sm; }
  [[nodiscard]] std::string name() const override { return gpu_.name; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return 11; }
  [[nodiscard]] bool serves_side_by_side() const noexcept override { return false; }
  void serve(const run_order& run) override {
    cuda_stage on{gpu_.ordinal, run.record};
    serve_on(manner_on_gpu(run.policy, run.from), run, on);
  }

private:
  gsched::cuda::gpu gpu_;
};

} // namespace

std::unique_ptr<platform> open_cuda(const options& from) {
  return std::make_unique<real_gpu>(from);
}

} // namespace serve_mix
