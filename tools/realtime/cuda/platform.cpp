// SPDX-License-Identifier: Apache-2.0
#include "realtime/serve.hpp"

#include "common/cuda/stage.hpp"

#include <memory>

namespace realtime {

namespace {

class real_gpu final : public platform {
public:
  explicit real_gpu(const options& from) : gpu_(find_real(from)) {}

  [[nodiscard]] gsched::architecture_limits sm() const override { return gpu_.sm; }
  [[nodiscard]] std::string name() const override { return gpu_.name; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return 200; }
  [[nodiscard]] bool serves_side_by_side() const noexcept override { return false; }
  void serve(const run_order& run) override {
    cuda_stage on{gpu_.ordinal, run.record};
    serve_on(on, run);
  }

private:
  gsched::cuda::gpu gpu_;
};

} // namespace

std::unique_ptr<platform> open_cuda(const options& from) {
  return std::make_unique<real_gpu>(from);
}

} // namespace realtime
