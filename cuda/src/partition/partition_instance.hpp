// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partition/batch_copies.hpp"
#include "partition/staging_pool.hpp"

#include "owners.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>
#include <gsched/serving/group_assignment.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched::cuda {

/// A partition that is ready to run batches: a device with one lane on the partition's groups, and
/// the graphs of its models.
class partition_instance {
public:
  using host_time = std::chrono::steady_clock::time_point;

  /// `batches`: by model of the table. A placement without groups is on all SMs.
  /// Errors   those of the source and the device.
  partition_instance(std::uint32_t gpu, int ordinal, const partition_placement& where,
                     const std::vector<std::vector<std::uint32_t>>& batches,
                     const program_source& source, duration watchdog, staging_pool& staging,
                     int priority, bool traces);

  [[nodiscard]] std::uint32_t gpu() const noexcept { return gpu_; }
  [[nodiscard]] const partition_placement& where() const noexcept { return where_; }
  /// What the data of its largest batch takes.
  [[nodiscard]] std::uint64_t data_bytes() const noexcept;
  /// Starts a batch; one at a time.
  /// Errors   device_failed; bad_option for data that does not fit; those of staging_pool.
  void begin(const batch_run& r);
  /// Whether the batch has ended; its data is copied out then.
  /// Errors   device_failed.
  [[nodiscard]] bool try_end();
  [[nodiscard]] bool is_idle() const noexcept { return left_ == 0; }
  /// The begin and the end of the last batch on the GPU, by the host's clock; empty without traces.
  [[nodiscard]] std::optional<std::pair<host_time, host_time>> gpu_times() const;

private:
  /// Events around each batch, and one at a known time.
  struct batch_trace {
    int ordinal;
    event_owner known, begin, end;
    host_time known_at;
  };
  struct ready_program {
    std::size_t model;
    std::uint32_t batch;
    program_lease program;
    program_id id; ///< on this instance's device
  };
  /// The GPU's copies of a batch in one direction, in place while they are in flight.
  struct copy_segment {
    std::vector<copy_action> actions;
    std::vector<operation> operations;
    std::vector<const operation*> in_order;
  };

  void submit_copies(copy_segment& with, const std::vector<planned_copy>& copies,
                     copy_direction direction);
  void submit(const segment& s);
  [[nodiscard]] segment next_segment() noexcept;

  [[nodiscard]] std::string name() const;
  [[noreturn]] void fail_with(std::error_code e) const;

  std::uint32_t gpu_;
  int ordinal_;
  partition_placement where_;
  std::vector<ready_program> programs_; ///< sorted by model and batch; must outlive the device
  device device_;
  lane_id lane_{};
  std::uint32_t begun_ = 0; ///< segments
  std::uint32_t left_ = 0;  ///< segments of the batch that have not ended
  staging_pool& staging_;
  std::shared_ptr<std::byte> staged_; ///< of the batch that runs, if it is needed
  copy_segment in_, out_;
  std::vector<planned_copy> at_end_; ///< by the host
  std::optional<batch_trace> trace_;
};

} // namespace gsched::cuda
