// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/request_tensors.hpp"

#include <cstdint>

namespace gsched_server {

void request_tensors::prepare(std::span<const std::span<const std::byte>> given,
                              std::span<const tensor_spec> in, std::span<const tensor_spec> out) {
  inputs_.assign(given.begin(), given.end());
  for (std::size_t i = 0; i < in.size(); ++i)
    if (reinterpret_cast<std::uintptr_t>(given[i].data()) % in[i].type->bytes != 0)
      inputs_[i] = copies_.emplace_back(given[i].begin(), given[i].end());
  // Never within the string itself, where it would not be aligned for all types.
  constexpr std::size_t own_memory = 64;
  outputs_.resize(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    outputs_[i].reserve(own_memory);
    outputs_[i].resize(out[i].bytes());
    spans_.push_back(std::as_writable_bytes(std::span(outputs_[i])));
  }
}

} // namespace gsched_server
