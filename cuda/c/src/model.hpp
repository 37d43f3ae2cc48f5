// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ticket.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/program.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
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

/// Keeps it until the process ends: to free the memory of a device that has failed can mean to wait
/// for a kernel that never ends.
inline void leave(std::vector<std::shared_ptr<void>> memory) {
  static std::mutex one_at_a_time;
  static auto& all = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(one_at_a_time);
  for (std::shared_ptr<void>& each : memory) all.push_back(std::move(each));
}

/// A captured graph with memory of its own.
struct instance {
  gsched::program* graph = nullptr;
  std::shared_ptr<void> keep; ///< what the graph is a part of
  std::vector<buffer> inputs; ///< the same sizes in all instances of a model
  std::vector<buffer> outputs;
};

/// A model of a server, and what runs as a job for it: copy the inputs in, infer, copy the outputs
/// out, on the instance that the job was given.
struct model_record {
  std::string name;
  std::vector<instance> instances;
  std::vector<std::uint32_t> excludes; ///< models of the server
  bool exclusive = false;
  model_id id{};
  bool closed = false;  ///< to be removed: what is taken up now was posted too late
  bool removed = false; ///< the dispatcher does not know it any more
  gsched_model_facts facts{};

  /// What its graphs and requests used. Nothing of it will be used again.
  [[nodiscard]] std::vector<std::shared_ptr<void>> take_memory() {
    std::vector<std::shared_ptr<void>> all;
    const auto take = [&](std::shared_ptr<void>& p) {
      if (p != nullptr) all.push_back(std::exchange(p, nullptr));
    };
    for (instance& i : instances) {
      take(i.keep);
      for (buffer& b : i.inputs) take(b.staging);
      for (buffer& b : i.outputs) take(b.staging);
    }
    return all;
  }

  task operator()(job_context& ctx) {
    ticket& t = *static_cast<ticket*>(ctx.user);
    t.instance = ctx.instance;
    instance& with = instances[ctx.instance];
    const stream_id s = ctx.default_stream();
    for (transfer& each : t.inputs) {
      const buffer& in = with.inputs[each.buffer];
      if (in.stages(each)) std::memcpy(in.staging.get(), each.outside, in.bytes);
      each.action.to = in.at;
      each.action.from = in.stages(each) ? in.staging.get() : each.outside;
      copy(ctx, s, each, copy_direction::host_to_device, in.bytes);
    }
    ctx.launch(s, *with.graph);
    for (transfer& each : t.outputs) {
      const buffer& out = with.outputs[each.buffer];
      each.action.to = out.stages(each) ? out.staging.get() : each.outside;
      each.action.from = out.at;
      copy(ctx, s, each, copy_direction::device_to_host, out.bytes);
    }
    co_return;
  }

  /// After the job, before anybody hears of its end: what its outputs left in pinned memory.
  void deliver(const ticket& t) const noexcept {
    for (const transfer& each : t.outputs) {
      const buffer& out = instances[t.instance].outputs[each.buffer];
      if (out.stages(each)) std::memcpy(each.outside, out.staging.get(), out.bytes);
    }
  }

private:
  static void copy(job_context& ctx, stream_id s, const transfer& what, copy_direction direction,
                   std::uint64_t bytes) {
    if (what.kind == memory_kind::device) direction = copy_direction::device_to_device;
    // A guess at the bus, to begin with; it only says how much is queued.
    const duration expected{
        2000 + static_cast<duration::rep>(bytes / (what.kind == memory_kind::device ? 1000 : 20))};
    ctx.launch(s, what.action.as_operation(direction, bytes, expected));
  }
};

} // namespace gsched::abi
