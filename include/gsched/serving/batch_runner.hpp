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

/// A batch that begins on a partition.
struct batch_run {
  std::uint32_t gpu = 0;
  std::uint32_t partition = 0; ///< as the frontend counts them
  sm_count sms{};
  std::size_t model = 0;
  std::uint32_t batch = 0;
};

/// Decides on a plan; null: the one before goes on.
using plan_decision = std::function<const partition_plan*()>;

/// Runs batches on partitions, makes the partitions of plans, and is the one part of serving that
/// knows the time. A model also keeps:
///  B1 ends      each batch that has begun is told by try_end once, after it has ended.
///  B2 time      now() never falls; wait(t) returns at the first thing to tell, or at t.
///  B3 plans     prepare(decide) calls decide once, on any thread, and makes the partitions of the
///               plan that it says; batches run meanwhile. When all is done try_prepared is true,
///               once; it throws what decide or the making threw.
///  B4 take up   take_up(partitions) goes over to the last plan that was prepared: batches that
///               begin from now on run on its partitions, those that run go on where they are.
///  B5 room      has_room(partition) is false while a batch of another plan runs on its SMs; it
///               becomes true with the end of one.
/// The caller owes: one batch at a time on a partition, and only where there is room; no prepare
/// before the last one is done; take_up with partitions of the last plan that was prepared.
// Version 14 of the formatter takes compound requirements apart.
// clang-format off
template <class R>
concept batch_runner = requires(R r, const R c, const batch_run& b, time_point t,
                                std::uint32_t partition, plan_decision decide,
                                std::span<const served_partition> partitions) {
  { r.prepare(std::move(decide)) } -> std::same_as<void>;
  { r.try_prepared() } -> std::same_as<bool>;
  { r.take_up(partitions) } -> std::same_as<void>;
  { c.has_room(partition) } -> std::same_as<bool>;
  { r.begin(b) } -> std::same_as<void>;
  { r.try_end() } -> std::same_as<std::optional<std::uint32_t>>;
  { r.wait(t) } -> std::same_as<void>;
  { c.now() } -> std::same_as<time_point>;
};
// clang-format on

} // namespace gsched
