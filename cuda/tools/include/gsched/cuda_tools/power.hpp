// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gsched::cuda {

/// What the driver said of a GPU over some time: means, unless said otherwise.
struct power_readings {
  std::size_t count = 0; ///< of samples
  double sm_mhz = 0, least_sm_mhz = 0;
  double memory_mhz = 0;
  double watts = 0;        ///< of the energy counter, or of the power readings where there is none
  double most_watts = 0;   ///< of the power readings, which are means over about a second
  double limit_watts = 0;  ///< that the driver enforces
  double celsius = 0;      ///< the last reading
  double busy_percent = 0; ///< NVML's utilisation: time with a kernel, on however few SMs
  double memory_percent = 0;        ///< time in which memory was read or written
  std::uint64_t throttled = 0;      ///< NVML's reasons for lower clocks, of all samples
  std::vector<std::string> reasons; ///< their names
};

/// Samples clocks and power of a GPU by NVML, on a thread of its own, between start and stop.
///
/// Source   NVIDIA Management Library; its library is loaded when the first object is made, so
///          that nothing is linked with it.
/// Units    watts, MHz, percent; what NVML does not tell is 0.
/// Errors   constructor: no_device if libnvidia-ml.so.1 or a function of it is not there;
///          device_failed with NVML's words.
/// Cost     some 50 us of a CPU a sample; nothing on the GPU.
/// Threads  one owner.
class power_sampler {
public:
  explicit power_sampler(int gpu, duration every = std::chrono::milliseconds{10});
  ~power_sampler();
  power_sampler(const power_sampler&) = delete;
  power_sampler& operator=(const power_sampler&) = delete;

  void start();
  /// The readings since start.
  /// Errors   device_failed with NVML's words if it could not be asked.
  [[nodiscard]] power_readings stop();

private:
  struct state;
  std::unique_ptr<state> state_;
};

/// The names of NVML's reasons for clocks below the highest: "power limit, idle".
[[nodiscard]] std::vector<std::string> throttle_reasons(std::uint64_t bits);

} // namespace gsched::cuda
