// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/serving/batch_runner.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gsched::cuda {

/// What a partition will run.
struct batch_program {
  std::uint32_t gpu = 0; ///< as the plan counts them; current while it is asked for
  std::size_t model = 0;
  std::uint32_t batch = 0;
  sm_count sms{};
};

/// A program that nobody else runs until the last copy of the pointer is gone: two partitions that
/// have a model at one time must not share its memory. Null or a throw: there is none.
using program_lease = std::shared_ptr<program>;
using program_source = std::function<program_lease(const batch_program&)>;

struct partition_batches_options {
  std::vector<int> gpus{0}; ///< the runtime's numbers, by the plan's
  /// By model: the batches that have programs, rising. A batch runs as the next larger one.
  std::vector<std::vector<std::uint32_t>> batches{};
  std::size_t spare = 32; ///< partitions of former plans that stay ready, the newest of them
  duration watchdog = std::chrono::seconds{10}; ///< of device_options
};

struct partition_batches_statistics {
  std::uint64_t made = 0;    ///< partitions, with their graphs
  std::uint64_t kept = 0;    ///< that a plan found ready
  std::uint64_t let_go = 0;  ///< spare ones whose place was needed
  duration deciding{};       ///< host time in all decisions
  duration making{};         ///< ... and in making partitions
  duration longest_making{}; ///< of one plan's
  duration beginning{};      ///< the owner's time in all calls of begin
  duration longest_begin{};
  duration longest_pause{}; ///< between two looks for ends, while a batch ran
};

/// Runs batches on partitions of real GPUs: a model of gsched::batch_runner.
///
/// Each partition is a device of its own (gsched::cuda::device) with one lane on the groups that
/// deal_groups chose, and the graphs of its models for all batches. A thread of this class decides
/// on plans and makes their partitions, while the owner's goes on serving: a switch then launches
/// on other lanes, and no more. Batches of the plan before run to their ends, and nothing else
/// begins on their SMs until then, so that they are not slowed.
///
/// Source   Choi et al., USENIX ATC 2022, section 5, reorganises partitions in 10 to 15 s.
/// Differs  green contexts that lie over one another, made ahead.
/// Errors   the constructor: no_device, and bad_option for no GPU or a model without batches.
///          try_prepared: what the source, the planner or the driver threw; where memory or
///          programs are short, spare partitions are given up first. begin, try_end: device_failed,
///          one line that names the partition, with CUDA's words: a kernel that hangs or fails ends
///          the service.
/// Cost     begin: one graph launch. try_end: a load for each batch that runs. wait spins while
///          batches run or the time is near, and else sleeps some 50 us at a time.
/// Threads  one owner; decide and the source are called on this class's thread. The destructor
///          waits for what runs, up to the watchdog's time.
class partition_batches {
public:
  partition_batches(partition_batches_options o, program_source source);
  ~partition_batches();
  partition_batches(const partition_batches&) = delete;
  partition_batches& operator=(const partition_batches&) = delete;

  void prepare(plan_decision decide);
  [[nodiscard]] bool try_prepared();
  void take_up(std::span<const served_partition> partitions);
  [[nodiscard]] bool has_room(std::uint32_t partition) const noexcept;
  void begin(const batch_run& r);
  [[nodiscard]] std::optional<std::uint32_t> try_end();
  void wait(time_point t);
  [[nodiscard]] time_point now() const noexcept;

  /// Of partitions: as of the last try_prepared that was true.
  [[nodiscard]] partition_batches_statistics statistics() const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

static_assert(batch_runner<partition_batches>);

} // namespace gsched::cuda
