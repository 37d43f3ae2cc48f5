// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/manner.hpp"
#include "serve_mix/serve_under.hpp"

#include "common/simulated.hpp"

#include <memory>

namespace serve_mix {

namespace {

class simulated final : public platform {
public:
  explicit simulated(const options& from) : gpu_(find_simulated(from)) {}

  [[nodiscard]] gsched::architecture_limits sm() const override { return gpu_.preset.sm; }
  [[nodiscard]] std::string name() const override { return gpu_.name; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return 1; }
  [[nodiscard]] bool serves_side_by_side() const noexcept override { return true; }
  void serve(const run_order& run) override {
    simulated_stage on{gpu_.preset, run.record};
    serve_on(manner_of(run.policy, run.from), run, on);
  }

private:
  simulated_gpu gpu_;
};

} // namespace

std::unique_ptr<platform> open_simulated(const options& from) {
  return std::make_unique<simulated>(from);
}

} // namespace serve_mix
