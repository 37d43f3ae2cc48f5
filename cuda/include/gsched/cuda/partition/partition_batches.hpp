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
#include <utility>
#include <vector>

namespace gsched::cuda {

/// A program that a partition needs.
struct batch_program {
  std::uint32_t gpu = 0; ///< index of the plan; this GPU is current while the source is called
  std::size_t model = 0;
  std::uint32_t batch = 0;
  sm_count sms{};
};

/// Device memory that a program reads inputs from, or writes outputs to: those of a batch's
/// requests, one behind the other.
struct batch_buffer {
  void* device = nullptr;
  std::uint64_t bytes = 0; ///< of a request
};

/// Exclusive use of a program until the last copy of the pointer is destroyed: two partitions that
/// run one model at the same time must not share its memory. If the source returns null or throws,
/// the program is not available. Without buffers its batches move no data.
struct program_lease {
  program_lease() = default;
  program_lease(std::nullptr_t) noexcept {}
  program_lease(std::shared_ptr<program> p, std::vector<batch_buffer> in = {},
                std::vector<batch_buffer> out = {}) noexcept
      : leased(std::move(p)), inputs(std::move(in)), outputs(std::move(out)) {}

  std::shared_ptr<program> leased{};
  std::vector<batch_buffer> inputs{}; ///< of batch_program::batch requests each
  std::vector<batch_buffer> outputs{};
};
using program_source = std::function<program_lease(const batch_program&)>;

/// Options of partition_batches.
struct partition_batches_options {
  std::vector<int> gpus{0}; ///< the runtime's device numbers, by index of the plan
  /// By model: the batch sizes for which programs exist, rising. A batch runs as the next larger
  /// one.
  std::vector<std::vector<std::uint32_t>> batches{};
  std::size_t spare = 32; ///< partitions of earlier plans that are kept, the newest ones
  duration watchdog = std::chrono::seconds{10}; ///< device_options::watchdog
  /// No partitions: each one of a plan is a stream on all SMs, so its sizes need not fit side by
  /// side. For comparisons.
  bool overlap = false;
  std::vector<int> priorities{}; ///< with overlap: by model, of its stream; empty: 0
  bool traces = false; ///< events around each batch, so that times_of_last answers; some 3 us each
};

/// Counters of partition_batches.
struct partition_batches_statistics {
  std::uint64_t made = 0;    ///< partitions built, with their graphs
  std::uint64_t kept = 0;    ///< partitions that a plan reused
  std::uint64_t let_go = 0;  ///< spare partitions destroyed to make room
  duration deciding{};       ///< host time of all decisions
  duration making{};         ///< host time of building partitions
  duration longest_making{}; ///< for one plan
  duration beginning{};      ///< the owner's time in all calls of begin
  duration longest_begin{};
  duration longest_pause{}; ///< between two polls for ends while a batch ran
};

/// Runs batches on partitions of real GPUs: a model of gsched::batch_runner.
///
/// A partition is a gsched::cuda::device with one lane on the groups that assign_groups chose, and
/// the graphs of its models for all batch sizes. Partitions of a region have the same groups. A
/// thread of this class decides on plans and builds their partitions while the owner's thread
/// serves. A switch of plans therefore only changes the lanes on which batches are launched.
/// Batches of the previous plan run to their end, and no other batch starts on their SMs before, so
/// that they are not slowed.
///
/// Data is copied on the partition's lane, before and behind the graph of the batch. What is in
/// pinned or device memory the GPU copies by itself, and addresses that follow each other in one
/// allocation by one copy. What is in pageable memory the owner's thread copies, through pinned
/// memory as large as the largest batch for each partition; all partitions wait for that.
///
/// Source   Choi et al., USENIX ATC 2022, section 5, which reorganises partitions in 10 to 15 s.
/// Differs  overlapping green contexts, built ahead of the switch.
/// Errors   constructor: no_device, and bad_option for no GPU or a model without batches.
///          try_prepared: the exceptions of the source, the planner and the driver; if memory or
///          programs are short, spare partitions are destroyed first. begin, try_end:
///          device_failed, one line that names the partition, with CUDA's message. A kernel that
///          hangs or fails ends the service. begin: bad_option for data of another number of
///          buffers than the program's.
/// Cost     begin: one graph launch, and for data in one direction another, two questions to the
///          driver an address and a call for each copy. try_end: one load for each running batch.
///          wait: spins while batches run or the deadline is near, else sleeps for about 50 us at a
///          time.
/// Threads  one owner. The decision and the source are called on this class's thread. The
///          destructor waits for running batches, at most for the watchdog's time.
class partition_batches {
public:
  partition_batches(partition_batches_options o, program_source source);
  ~partition_batches();
  partition_batches(const partition_batches&) = delete;
  partition_batches& operator=(const partition_batches&) = delete;

  void prepare(plan_chooser decide);
  [[nodiscard]] bool try_prepared();
  void activate(std::span<const served_partition> partitions);
  [[nodiscard]] bool is_available(std::uint32_t partition) const noexcept;
  void begin(const batch_run& r);
  [[nodiscard]] std::optional<std::uint32_t> try_end();
  void wait(time_point t);
  [[nodiscard]] time_point now() const noexcept;

  /// From the return of the launch to the last look at which the batch still ran.
  [[nodiscard]] duration least_time_of_last(std::uint32_t partition) const noexcept;

  /// With `traces`: when the parts of the last batch that ended there took place. GPU times are
  /// those of events on the partition's stream, from a common event at its set-up on: they drift
  /// from the host's clock by some 10 us in a second.
  [[nodiscard]] std::optional<batch_times> times_of_last(std::uint32_t partition) const;

  /// The partition counters are those of the last successful try_prepared.
  [[nodiscard]] partition_batches_statistics statistics() const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

static_assert(tracing_batch_runner<partition_batches>);

} // namespace gsched::cuda
