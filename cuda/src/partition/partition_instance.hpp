// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>
#include <gsched/serving/group_assignment.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace gsched::cuda {

/// A partition that is ready to run batches: a device with one lane on the partition's groups, and
/// the graphs of its models.
class partition_instance {
public:
  /// `batches`: by model of the table.
  /// Errors   those of the source and the device.
  partition_instance(std::uint32_t gpu, int ordinal, const partition_placement& where,
                     const std::vector<std::vector<std::uint32_t>>& batches,
                     const program_source& source, duration watchdog);

  [[nodiscard]] std::uint32_t gpu() const noexcept { return gpu_; }
  [[nodiscard]] const partition_placement& where() const noexcept { return where_; }
  /// Starts a batch; one at a time.
  /// Errors   device_failed.
  void begin(std::size_t model, std::uint32_t batch);
  /// Whether the batch has ended.
  /// Errors   device_failed.
  [[nodiscard]] bool try_end();
  [[nodiscard]] bool is_idle() const noexcept { return !running_; }

private:
  struct ready_program {
    std::size_t model;
    std::uint32_t batch;
    program_lease program;
    program_id id; ///< on this instance's device
  };

  [[nodiscard]] std::string name() const;
  [[noreturn]] void fail_with(std::error_code e) const;

  std::uint32_t gpu_;
  partition_placement where_;
  std::vector<ready_program> programs_; ///< sorted by model and batch; must outlive the device
  device device_;
  lane_id lane_{};
  std::uint32_t begun_ = 0;
  bool running_ = false;
};

} // namespace gsched::cuda
