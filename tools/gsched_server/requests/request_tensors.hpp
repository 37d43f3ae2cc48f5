// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/requests/tensor.hpp"

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched_server {

/// The memory of a request of the service, for a model that computes: request_record::user is this.
///
/// Threads  one at a time.
class request_tensors {
public:
  /// Inputs where they lie, unless they are not aligned for their elements: then copies of them.
  /// Outputs are zeros.
  void prepare(std::span<const std::span<const std::byte>> given, std::span<const tensor_spec> in,
               std::span<const tensor_spec> out);

  [[nodiscard]] std::span<const std::span<const std::byte>> inputs() const noexcept {
    return inputs_;
  }
  [[nodiscard]] std::span<const std::span<std::byte>> outputs() const noexcept { return spans_; }
  [[nodiscard]] std::vector<std::string> take_outputs() noexcept { return std::move(outputs_); }

private:
  std::vector<std::span<const std::byte>> inputs_;
  std::deque<std::vector<std::byte>> copies_;
  std::vector<std::string> outputs_;
  std::vector<std::span<std::byte>> spans_;
};

} // namespace gsched_server
