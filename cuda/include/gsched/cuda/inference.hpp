// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/cuda/action.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/task.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

/// The memory from which a captured graph reads an input, or to which it writes an output.
struct bound_memory {
  void* device = nullptr;
  byte_count bytes{};
};

/// A program with the memory of its inputs and outputs.
struct bound_program {
  program* graph = nullptr;
  std::vector<bound_memory> inputs{};
  std::vector<bound_memory> outputs{};
};

/// The inputs and outputs of one job of an `inference`, in memory of the caller.
///
/// There is one pointer for each input and each output of the model, of the same size. The memory
/// may be pinned, pageable or on the device; a copy from pageable memory blocks the host.
/// job_request::user points to this object, which must stay in place until the job has ended. It
/// can be reused then.
///
/// Cost     constructor: one query of the driver for each pointer.
class inference_request {
public:
  inference_request(std::span<const void* const> inputs, std::span<void* const> outputs) {
    for (const void* p : inputs) {
      in_.emplace_back(nullptr, p);
      in_direction_.push_back(is_device(p) ? copy_direction::device_to_device
                                           : copy_direction::host_to_device);
    }
    for (void* p : outputs) {
      out_.emplace_back(p, nullptr);
      out_direction_.push_back(is_device(p) ? copy_direction::device_to_device
                                            : copy_direction::device_to_host);
    }
  }
  inference_request(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs)
      : inference_request(std::span(inputs.begin(), inputs.size()),
                          std::span(outputs.begin(), outputs.size())) {}

private:
  friend class inference;
  [[nodiscard]] static bool is_device(const void* p) noexcept {
    cudaPointerAttributes a{};
    if (cudaPointerGetAttributes(&a, p) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    return a.type == cudaMemoryTypeDevice;
  }

  std::vector<copy_action>
      in_{}; ///< the job fills in the destination, which depends on its instance
  std::vector<copy_action> out_{};
  std::vector<copy_direction> in_direction_{};
  std::vector<copy_direction> out_direction_{};
};

/// The body of a job that runs a captured model: copies the inputs, runs the program, copies the
/// outputs.
///
/// A captured graph has fixed addresses. A model that serves N jobs at once is therefore captured N
/// times, and each job runs the instance that job_context names. Load each program, then register
/// the model with add_model(name, body, body.expected(), body.instances()). The object must outlive
/// the dispatcher.
///
/// Errors   constructor: bad_option for no instances, or for instances whose memory differs in
///          number or size. A request with another number of inputs or outputs ends its job as
///          failed.
class inference {
public:
  explicit inference(std::vector<bound_program> instances) : instances_(std::move(instances)) {
    if (instances_.empty()) throw error(errc::bad_option, "inference: no instances, expected some");
    const bound_program& like = instances_.front();
    for (const bound_program& b : instances_)
      if (b.graph == nullptr || !same_sizes(b.inputs, like.inputs) ||
          !same_sizes(b.outputs, like.outputs))
        throw error(errc::bad_option, "inference: instance " +
                                          std::to_string(&b - instances_.data()) +
                                          ", expected a program with memory as instance 0 has it");
  }

  task operator()(job_context& ctx) {
    inference_request& r = *static_cast<inference_request*>(ctx.user);
    if (ctx.instance >= instances_.size())
      throw error(errc::bad_option, "inference: instance " + std::to_string(ctx.instance) +
                                        ", expected fewer than " + std::to_string(instances()));
    bound_program& model = instances_[ctx.instance];
    if (r.in_.size() != model.inputs.size() || r.out_.size() != model.outputs.size())
      throw error(errc::bad_option, model.graph->host().name() + ": " +
                                        std::to_string(r.in_.size()) + " inputs and " +
                                        std::to_string(r.out_.size()) + " outputs, expected " +
                                        std::to_string(model.inputs.size()) + " and " +
                                        std::to_string(model.outputs.size()));
    const stream_id s = ctx.default_stream();
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
      r.in_[i].to = model.inputs[i].device;
      ctx.launch(s, r.in_[i].as_operation(r.in_direction_[i], model.inputs[i].bytes.count()));
    }
    ctx.launch(s, model.graph->host());
    for (std::size_t i = 0; i < model.outputs.size(); ++i) {
      r.out_[i].from = model.outputs[i].device;
      ctx.launch(s, r.out_[i].as_operation(r.out_direction_[i], model.outputs[i].bytes.count()));
    }
    co_return;
  }

  [[nodiscard]] std::uint32_t instances() const noexcept {
    return static_cast<std::uint32_t>(instances_.size());
  }
  [[nodiscard]] std::span<const bound_program> programs() const noexcept { return instances_; }
  /// The program that a dispatcher expects each job to run.
  [[nodiscard]] const gsched::program* expected() const noexcept {
    return &instances_.front().graph->host();
  }

private:
  [[nodiscard]] static bool same_sizes(const std::vector<bound_memory>& a,
                                       const std::vector<bound_memory>& b) noexcept {
    bool same = a.size() == b.size();
    for (std::size_t i = 0; same && i < a.size(); ++i) same = a[i].bytes == b[i].bytes;
    return same;
  }

  std::vector<bound_program> instances_;
};

} // namespace gsched::cuda
