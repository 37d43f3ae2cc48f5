// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/call.hpp>
#include <gsched/cuda/preempt/preemption_slots.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace gsched::cuda {

/// A group of kernels that are preempted together: a flag in memory of the current GPU, and a
/// stream of the highest priority through which the flag is written. Preempting one tenant does not
/// affect others.
///
/// Errors   device_failed with CUDA's message.
/// Cost     preempt: one call of the driver, which does not wait. let_run: three calls.
/// Threads  one owner.
class tenant {
public:
  tenant();
  ~tenant();
  tenant(const tenant&) = delete;
  tenant& operator=(const tenant&) = delete;

  /// Sets the flag: the tenant's kernels exit early.
  std::error_code preempt() noexcept;
  /// Clears the flag for work that is launched into `then` from now on. No work of the tenant may
  /// be in flight. Call it as soon as that is true, because the GPU needs some microseconds for it.
  std::error_code let_run(CUstream then) noexcept;
  /// A device pointer.
  [[nodiscard]] const std::uint32_t* flag() const noexcept { return flag_; }

private:
  std::uint32_t* flag_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t written_ = nullptr;
};

/// One preemptible kernel, launched and resumed by hand, without a device or a dispatcher:
///
///   tenant background;
///   auto sum = make_preemptible(background, "sum", {.grid = 528, .block = 256}, kernel,
///                               preemption::at_checkpoints(), x, n, sums);
///   sum.start(stream);
///   background.preempt();                                   // at any time
///   if (sum.wait().what == preemption_end::kind::preempted) {
///     background.let_run(stream);
///     ...                                                   // what is urgent
///     sum.resume(stream);                                   // and wait again
///   }
///
/// Each launch is a graph of the kernel and a marker. Direct kernel launches on several streams
/// would slow every graph of the process (docs/research/cliff.md).
///
/// Errors   bad_graph for a kernel without an enabled preemption parameter, or one that cannot be
///          resumed block by block (a cooperative launch, clusters); device_failed with CUDA's
///          message.
/// Threads  one owner. At most one launch is in flight.
class preemptible_launch {
public:
  /// `one_kernel` may be destroyed afterwards.
  preemptible_launch(const tenant& of, const std::string& name, CUgraph one_kernel);
  ~preemptible_launch();
  preemptible_launch(preemptible_launch&&) noexcept;
  preemptible_launch& operator=(preemptible_launch&&) noexcept;

  /// Launches all blocks. Call reset() first if an earlier launch was preempted and not resumed.
  std::error_code start(CUstream stream) noexcept;
  /// Launches the remaining blocks.
  std::error_code resume(CUstream stream) noexcept;
  /// The state of the last launch, read with acquire: the results of a launch that has ended can be
  /// read.
  [[nodiscard]] preemption_end poll() const noexcept;
  /// Waits until the launch has ended or was preempted. Throws if CUDA fails.
  [[nodiscard]] preemption_end wait() const;
  /// Discards the remaining blocks; nothing may be in flight. As preemption_slots::reset.
  std::uint64_t reset();

private:
  struct state;
  std::unique_ptr<state> state_;
};

template <class... Parameters, class... Arguments>
[[nodiscard]] preemptible_launch
make_preemptible(const tenant& of, const std::string& name, const call_shape& shape,
                 void (*kernel)(Parameters...), Arguments&&... arguments) {
  return detail::with_call_graph(
      name, shape, [&](CUgraph graph) { return preemptible_launch(of, name, graph); }, kernel,
      std::forward<Arguments>(arguments)...);
}

} // namespace gsched::cuda
