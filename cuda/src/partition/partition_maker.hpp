// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partition/partition_seat.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/cuda/partition_batches.hpp>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gsched::cuda {

using seat_pointer = std::shared_ptr<partition_seat>;

/// Decides on plans and makes their partitions, on a thread of its own: for partition_batches.
///
/// Threads  one owner, who touches no more than is_done between prepare and a try_prepared that is
///          true.
class partition_maker {
public:
  /// Options that were checked; source and options outlive it.
  partition_maker(const partition_batches_options& o, const program_source& source);
  ~partition_maker();
  partition_maker(const partition_maker&) = delete;
  partition_maker& operator=(const partition_maker&) = delete;

  void prepare(plan_decision decide);
  [[nodiscard]] bool is_done() const noexcept {
    return sync::atomic_ref<std::uint32_t>(is_done_).load(sync::acquire) != 0;
  }
  [[nodiscard]] bool try_prepared();
  /// Of the last plan.
  [[nodiscard]] const std::vector<seat_pointer>& ready() const noexcept { return ready_; }
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& group_sizes() const noexcept {
    return sizes_;
  }
  [[nodiscard]] const partition_batches_statistics& statistics() const noexcept { return told_; }

private:
  /// A partition as the plan has it.
  struct place {
    std::uint32_t gpu = 0;
    seat what{};
  };

  void work();
  void make(const partition_plan& plan);
  void make_on(std::uint32_t gpu, const std::vector<place>& wanted,
               std::vector<seat_pointer>& made);
  [[nodiscard]] std::vector<place> places_of(const partition_plan& plan) const;
  [[nodiscard]] seat_pointer make_seat(std::uint32_t gpu, const seat& where);
  /// Gives up the oldest spare partition that nobody uses.
  bool let_go();

  const partition_batches_options& options_;
  const program_source& source_;
  std::vector<std::vector<std::uint32_t>> sizes_; ///< of groups, by GPU
  partition_batches_statistics told_;

  // The thread's from prepare until is_done, else the owner's.
  std::vector<seat_pointer> ready_;
  std::vector<seat_pointer> spare_; ///< newest first
  partition_batches_statistics counted_;
  std::exception_ptr wrong_;
  mutable std::uint32_t is_done_ = 0;

  std::mutex guard_; // of what follows
  std::condition_variable wakes_;
  plan_decision asked_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace gsched::cuda
