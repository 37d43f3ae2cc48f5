// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ticket.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/program.hpp>
#include <gsched/server/model.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched::abi {

/// Device memory of an instance.
struct buffer {
  void* at = nullptr;
  std::uint64_t bytes = 0;
  /// Pinned memory of the same size. What goes to and from pageable memory goes through it, since a
  /// driver that copies from pageable memory itself makes its caller wait for the lane.
  std::shared_ptr<void> staging{};

  [[nodiscard]] bool stages(const transfer& t) const noexcept {
    return t.kind == memory_kind::pageable && staging != nullptr;
  }
};

/// The inputs and outputs of an instance.
struct instance_buffers {
  std::vector<buffer> inputs; ///< the same sizes in all instances of a model
  std::vector<buffer> outputs;
  /// Of the one request that the instance has, where its payload is in pinned memory.
  std::vector<cuda::copy_action> in_place{};
};

/// A model of the C library: copies the inputs in, infers, and copies the outputs out, on the
/// instance that the request was given.
class model : public served_model {
public:
  using served_model::served_model;

  std::vector<instance_buffers> buffers; ///< by instance
  double measure_ms = 0;
  double graph_replay_us = 0;

  [[nodiscard]] std::vector<std::shared_ptr<void>> take_memory() override {
    std::vector<std::shared_ptr<void>> all = served_model::take_memory();
    const auto take = [&](std::shared_ptr<void>& p) {
      if (p != nullptr) all.push_back(std::exchange(p, nullptr));
    };
    for (instance_buffers& i : buffers) {
      for (buffer& b : i.inputs) take(b.staging);
      for (buffer& b : i.outputs) take(b.staging);
    }
    return all;
  }

  task run(job_context& ctx, request_record& of) override {
    if (of.payload.data() != nullptr) return run_in_place(ctx, of);
    return run_copies(ctx, static_cast<ticket&>(of));
  }

  /// What the inputs, or the outputs, take in a payload.
  [[nodiscard]] static std::uint64_t bytes_of(const std::vector<buffer>& all) noexcept {
    std::uint64_t sum = 0;
    for (const buffer& b : all) sum += b.bytes;
    return sum;
  }

  /// Copies what the outputs left in pinned memory to the caller's.
  void deliver(request_record& of) noexcept override {
    if (of.payload.data() != nullptr) return; // the GPU has written there
    const auto& t = static_cast<const ticket&>(of);
    for (const transfer& each : t.outputs) {
      const buffer& out = buffers[t.instance].outputs[each.buffer];
      if (out.stages(each)) std::memcpy(each.outside, out.staging.get(), out.bytes);
    }
  }

private:
  /// A request of the channel: its client's memory is pinned, and no ticket is behind it.
  task run_in_place(job_context& ctx, request_record& of) {
    instance_buffers& with = buffers[ctx.instance];
    const stream_id s = ctx.default_stream();
    std::byte* at = of.payload.data();
    with.in_place.clear();
    with.in_place.reserve(with.inputs.size() + with.outputs.size()); // they stay where they are
    for (const buffer& in : with.inputs) {
      with.in_place.emplace_back(in.at, at);
      launch_copy(ctx, s, with.in_place.back(), copy_direction::host_to_device, in.bytes);
      at += in.bytes;
    }
    ctx.launch(s, *instances[ctx.instance].program);
    for (const buffer& out : with.outputs) {
      with.in_place.emplace_back(at, out.at);
      launch_copy(ctx, s, with.in_place.back(), copy_direction::device_to_host, out.bytes);
      at += out.bytes;
    }
    co_return;
  }

  task run_copies(job_context& ctx, ticket& t) {
    const instance_buffers& with = buffers[ctx.instance];
    const stream_id s = ctx.default_stream();
    for (transfer& each : t.inputs) {
      const buffer& in = with.inputs[each.buffer];
      if (in.stages(each)) std::memcpy(in.staging.get(), each.outside, in.bytes);
      each.action.to = in.at;
      each.action.from = in.stages(each) ? in.staging.get() : each.outside;
      copy(ctx, s, each, copy_direction::host_to_device, in.bytes);
    }
    ctx.launch(s, *instances[ctx.instance].program);
    for (transfer& each : t.outputs) {
      const buffer& out = with.outputs[each.buffer];
      each.action.to = out.stages(each) ? out.staging.get() : each.outside;
      each.action.from = out.at;
      copy(ctx, s, each, copy_direction::device_to_host, out.bytes);
    }
    co_return;
  }

  static void copy(job_context& ctx, stream_id s, const transfer& what, copy_direction direction,
                   std::uint64_t bytes) {
    if (what.kind == memory_kind::device) direction = copy_direction::device_to_device;
    launch_copy(ctx, s, what.action, direction, bytes);
  }
  static void launch_copy(job_context& ctx, stream_id s, const cuda::copy_action& what,
                          copy_direction direction, std::uint64_t bytes) {
    // A guess at the bus, to begin with; it only says how much is queued.
    const bool on_device = direction == copy_direction::device_to_device;
    const duration expected{2000 + static_cast<duration::rep>(bytes / (on_device ? 1000 : 20))};
    ctx.launch(s, what.as_operation(direction, bytes, expected));
  }
};

} // namespace gsched::abi
