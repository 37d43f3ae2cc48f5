// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partition/partition_instance.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gsched::cuda {

using instance_pointer = std::shared_ptr<partition_instance>;

/// Decides on plans and builds their partitions on a thread of its own, for partition_batches.
///
/// Threads  one owner. Between prepare and a try_prepared that returns true, the owner may only
///          call is_done.
class partition_maker {
public:
  /// Options must have been checked. `o` and `source` must outlive this object.
  partition_maker(const partition_batches_options& o, const program_source& source);
  ~partition_maker();
  partition_maker(const partition_maker&) = delete;
  partition_maker& operator=(const partition_maker&) = delete;

  void prepare(plan_chooser decide);
  [[nodiscard]] bool is_done() const noexcept {
    return sync::atomic_ref<std::uint32_t>(is_done_).load(sync::acquire) != 0; // [D1] <- work
  }
  [[nodiscard]] bool try_prepared();
  /// An instance and its region in the plan.
  struct ready_partition {
    instance_pointer instance{};
    std::uint32_t region = 0;
  };
  /// The instances of the last plan.
  [[nodiscard]] const std::vector<ready_partition>& ready() const noexcept { return ready_; }
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& group_sizes() const noexcept {
    return sizes_;
  }
  [[nodiscard]] const partition_batches_statistics& statistics() const noexcept { return told_; }

private:
  /// A partition of a plan.
  struct place {
    std::uint32_t gpu = 0;
    std::uint32_t region = 0;
    partition_placement what{};
  };

  void work();
  void make(const partition_plan& plan);
  void make_streams_on(std::uint32_t gpu, const std::vector<place>& wanted,
                       std::vector<ready_partition>& made);
  [[nodiscard]] int priority_of(const partition_placement& where) const noexcept;
  void make_on(std::uint32_t gpu, const std::vector<place>& wanted,
               std::vector<ready_partition>& made);
  /// Those of the last plan, and spare ones.
  [[nodiscard]] std::vector<instance_pointer> all_instances() const;
  [[nodiscard]] static bool is_in(const std::vector<ready_partition>& all,
                                  const instance_pointer& s);
  [[nodiscard]] std::vector<place> places_of(const partition_plan& plan) const;
  [[nodiscard]] instance_pointer make_instance(std::uint32_t gpu, const partition_placement& where);
  /// Destroys the oldest unused spare partition; false if there is none.
  bool let_go();

  const partition_batches_options& options_;
  const program_source& source_;
  staging_pool staging_;                          ///< outlives the instances
  std::vector<std::vector<std::uint32_t>> sizes_; ///< of groups, by GPU
  partition_batches_statistics told_;             ///< the owner's copy of counted_

  // Owned by the thread from prepare until is_done, else by the owner.
  std::vector<ready_partition> ready_;
  std::vector<instance_pointer> spare_; ///< newest first
  partition_batches_statistics counted_;
  std::exception_ptr wrong_;
  mutable std::uint32_t is_done_ = 0;

  std::mutex guard_; // of the members below
  std::condition_variable wakes_;
  plan_chooser asked_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace gsched::cuda
