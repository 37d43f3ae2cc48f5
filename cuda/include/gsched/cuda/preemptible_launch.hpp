// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/call.hpp>
#include <gsched/cuda/preemption_slots.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace gsched::cuda {

/// Work that is preempted together: a flag in memory of the GPU that is current, and a stream of
/// the highest priority through which it is written. Preempting one tenant leaves others alone.
///
/// Errors   device_failed with CUDA's words.
/// Cost     to preempt is one call of the driver, which waits for nothing; to let go on, three.
/// Threads  one owner.
class tenant {
public:
  tenant();
  ~tenant();
  tenant(const tenant&) = delete;
  tenant& operator=(const tenant&) = delete;

  /// Its kernels leave.
  std::error_code preempt() noexcept;
  /// What is launched into that stream from now on runs. Nothing of the tenant may be under way: as
  /// soon as that is so is the best time, as it takes the GPU some microseconds.
  std::error_code let_run(CUstream then) noexcept;
  /// In device memory.
  [[nodiscard]] const std::uint32_t* flag() const noexcept { return flag_; }

private:
  std::uint32_t* flag_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t written_ = nullptr;
};

/// One kernel that leaves, launched and resumed by hand, without a device or a dispatcher:
///
///   tenant background;
///   auto sum = make_preemptible(background, "sum", {.grid = 528, .block = 256}, kernel,
///                               preemption::at_checkpoints(), x, n, sums);
///   sum.start(stream);
///   background.preempt();                                   // at any time
///   if (sum.wait().what == preemption_end::kind::left) {
///     background.let_run(stream);
///     ...                                                   // what is urgent
///     sum.resume(stream);                                   // and wait again
///   }
///
/// Each launch is a graph: the kernel and a marker. Kernels launched without one, on several
/// streams, would slow every graph of the process (docs/cliff.md).
///
/// Errors   bad_graph for a kernel without a preemption that leaves, or one that cannot be resumed
///          block by block (a cooperative launch, clusters); device_failed with CUDA's words.
/// Threads  one owner. At most one launch is under way.
class preemptible_launch {
public:
  /// A graph of that one kernel, which may be destroyed afterwards.
  preemptible_launch(const tenant& of, const std::string& name, CUgraph one_kernel);
  ~preemptible_launch();
  preemptible_launch(preemptible_launch&&) noexcept;
  preemptible_launch& operator=(preemptible_launch&&) noexcept;

  /// All blocks. Nothing may be left of an earlier launch, or it is forgotten with reset().
  std::error_code start(CUstream stream) noexcept;
  /// The blocks that are left.
  std::error_code resume(CUstream stream) noexcept;
  /// Of the last launch. With acquire: of one that has ended, all it wrote can be read.
  [[nodiscard]] preemption_end poll() const noexcept;
  /// Until it has ended or left, or CUDA fails.
  [[nodiscard]] preemption_end wait() const;
  /// Forgets what is left; nothing may be under way. As preemption_slots::reset.
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
