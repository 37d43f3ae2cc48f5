// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/server/model.hpp>
#include <gsched/server/request_record.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// A model of a plan_server: how much data a request has in each of its inputs and outputs. Derive
/// from it for requests whose data is elsewhere than in their payload.
///
/// Threads  as served_model.
class planned_model : public served_model {
public:
  /// Bytes of a request.
  planned_model(std::string called, std::vector<std::uint64_t> of_inputs,
                std::vector<std::uint64_t> of_outputs)
      : served_model(std::move(called), {}), inputs(std::move(of_inputs)),
        outputs(std::move(of_outputs)) {
    for (const std::uint64_t b : inputs) bytes_ += b;
    for (const std::uint64_t b : outputs) bytes_ += b;
  }

  /// Why a request cannot be served; empty: it can.
  [[nodiscard]] virtual std::string why_not(const request_record& r) const {
    if (r.payload.empty() || r.payload.size() == bytes_) return {};
    return name + ": payload of " + std::to_string(r.payload.size()) + " bytes, expected " +
           std::to_string(bytes_) + " of inputs and outputs, or none";
  }
  /// Writes the address of each input and output of a request whose batch starts; all are null
  /// before. By default they are in the payload, the outputs behind the inputs, without gaps.
  virtual void locate(request_record& r, std::span<const void*> in, std::span<void*> out) noexcept {
    if (r.payload.empty()) return;
    std::byte* at = r.payload.data();
    for (std::size_t i = 0; i < inputs.size(); at += inputs[i++]) in[i] = at;
    for (std::size_t i = 0; i < outputs.size(); at += outputs[i++]) out[i] = at;
  }

  const std::vector<std::uint64_t> inputs; ///< bytes of a request in each
  const std::vector<std::uint64_t> outputs;

private:
  std::uint64_t bytes_ = 0;
};

} // namespace gsched
