// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/served_partition.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

namespace gsched {

/// Where the data of a batch's requests is: for each request, in the order of the batch, an address
/// for each input of the model, and one for each output. Null: it is not copied. Without addresses
/// the batch moves no data.
struct batch_data {
  std::span<const void* const> inputs{};
  std::span<void* const> outputs{};
};

/// A batch that starts on a partition.
struct batch_run {
  std::uint32_t gpu = 0;
  std::uint32_t partition = 0; ///< index in the frontend's list of partitions
  sm_count sms{};
  std::size_t model = 0;
  std::uint32_t batch = 0;
  batch_data data{};        ///< in place until the batch has ended
  std::uint32_t region = 0; ///< of the partition, as gpulet has it
};

/// When the parts of a batch took place, as the runner tells time.
struct batch_times {
  time_point launching{};      ///< the call that launches it began
  time_point launched{};       ///< ... and returned
  time_point started{};        ///< on the GPU: its stream reached it
  time_point ended{};          ///< on the GPU
  time_point seen{};           ///< by the host
  duration longest_pause{};    ///< while it ran: between two polls for ends
  duration longest_launch{};   ///< while it ran: of another batch's launch
  std::uint64_t preempted = 0; ///< times that the host's thread lost its core while it ran
};

/// Chooses a plan when it is called; null: the current plan stays.
using plan_chooser = std::function<const partition_plan*()>;

/// Runs batches on partitions and creates the partitions of plans. It is the only part of serving
/// that knows the time. A model also keeps:
///  B1 ends       try_end reports each batch once, after its end.
///  B2 time       now() never falls; wait(t) returns at the first event or at t.
///  B3 prepare    prepare(choose) calls choose once, on any thread, and creates the partitions of
///                the plan that it returns; batches run meanwhile. When all is done try_prepared
///                returns true once, or throws what choose or the creation threw.
///  B4 activate   activate(partitions) switches to the last prepared plan: later batches start on
///                its partitions; batches that run stay where they are.
///  B5 available  is_available(partition) is false while a batch of another plan runs on the
///                partition's SMs, and becomes true at the end of a batch. Batches of partitions of
///                one region run at the same time.
///  B6 data       a batch reads its requests' inputs between begin and its end, and at its end the
///                outputs of each request are complete: those of its own inputs.
///  B7 least      least_time_of_last(partition) is about the batch whose end try_end reported last
///                there, until the next one begins: at most how long it took without what the
///                host's thread added by a late launch or a late look; at least 0.
/// The caller owes: one batch at a time on a partition, and only if it is available; no prepare
/// before the former one is done; activate with the partitions of the last prepared plan.
template <class R>
concept batch_runner =
    requires(R r, const R c, const batch_run& b, time_point t, std::uint32_t partition,
             plan_chooser decide, std::span<const served_partition> partitions) {
      { r.prepare(std::move(decide)) } -> std::same_as<void>;
      { r.try_prepared() } -> std::same_as<bool>;
      { r.activate(partitions) } -> std::same_as<void>;
      { c.is_available(partition) } -> std::same_as<bool>;
      { r.begin(b) } -> std::same_as<void>;
      { r.try_end() } -> std::same_as<std::optional<std::uint32_t>>;
      { r.wait(t) } -> std::same_as<void>;
      { c.now() } -> std::same_as<time_point>;
      { c.least_time_of_last(partition) } -> std::same_as<duration>;
    };

/// A batch_runner that can tell when the parts of a batch took place: times_of_last(partition) is
/// about the batch whose end try_end reported last there; empty if it was not traced.
template <class R>
concept tracing_batch_runner = batch_runner<R> && requires(R r, std::uint32_t partition) {
  { r.times_of_last(partition) } -> std::same_as<std::optional<batch_times>>;
};

} // namespace gsched
