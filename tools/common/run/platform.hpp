// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/device_option.hpp"
#include "common/run/simulated_backend.hpp"

#include <gsched/occupancy/limits.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace common {

/// The device that --device names, on which a program serves its runs: a simulated GPU or a real
/// one. Run describes one run and where its results go.
template <class Run>
class platform {
public:
  virtual ~platform() = default;

  [[nodiscard]] virtual gsched::architecture_limits sm() const = 0;
  /// The name of the GPU; empty for the simulated one that ships with the library.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Requests that measure the time of a model alone: more where times vary.
  [[nodiscard]] virtual std::uint64_t solo_requests() const noexcept = 0;
  /// Whether several threads may call serve at a time, with the same results.
  [[nodiscard]] virtual bool runs_in_parallel() const noexcept = 0;
  /// Serves a run on a device of its own.
  /// Errors   gsched::error: a malformed line of a trace file, or a device that failed.
  virtual void serve(const Run& run) = 0;
};

/// Serve: void(const Run&, simulated_backend&).
template <class Run, class Serve>
class simulated_platform final : public platform<Run> {
public:
  simulated_platform(const device_choice& which, std::uint64_t solo_requests, Serve serve)
      : gpu_(simulated_gpu_of(which)), solo_requests_(solo_requests), serve_(serve) {}

  [[nodiscard]] gsched::architecture_limits sm() const override { return gpu_.preset.sm; }
  [[nodiscard]] std::string name() const override { return gpu_.name; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return solo_requests_; }
  [[nodiscard]] bool runs_in_parallel() const noexcept override { return true; }
  void serve(const Run& run) override {
    simulated_backend on{gpu_.preset, run.record};
    serve_(run, on);
  }

private:
  simulated_gpu gpu_;
  std::uint64_t solo_requests_;
  Serve serve_;
};

/// Errors   those of load_preset.
template <class Run, class Serve>
[[nodiscard]] std::unique_ptr<platform<Run>>
make_simulated(const device_choice& which, std::uint64_t solo_requests, Serve serve) {
  return std::make_unique<simulated_platform<Run, Serve>>(which, solo_requests, serve);
}

} // namespace common
