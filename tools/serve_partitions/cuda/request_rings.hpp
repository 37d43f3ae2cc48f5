// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/serving/batch_runner.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace serve_partitions {

/// The bytes of a request of a model in each input and output of its graphs.
struct request_buffers {
  std::vector<std::uint64_t> inputs;
  std::vector<std::uint64_t> outputs;
};

/// Pinned memory for the requests of each model: a ring of `requests_in_ring`, each with memory of
/// its own that touches no other's, so that each is copied by itself. What is in it does not
/// matter, and results are not looked at. Destroying it waits for the GPU.
///
/// Errors   constructor: out_of_memory, one line.
class request_rings {
public:
  static constexpr std::size_t requests_in_ring = 256;

  /// `models`: by model; empty: requests carry no data.
  explicit request_rings(std::span<const request_buffers> models);

  /// The memory of the next requests of a model; valid until the next call.
  [[nodiscard]] gsched::batch_data next(std::size_t model, std::uint32_t batch);

private:
  struct freer {
    void operator()(std::byte* p) const noexcept;
  };
  struct ring {
    std::unique_ptr<std::byte, freer> memory;
    std::vector<std::byte*> inputs, outputs; ///< of all its requests
    std::size_t next = 0;                    ///< request
  };

  std::vector<ring> rings_; ///< by model
  std::vector<const void*> from_;
  std::vector<void*> to_;
};

} // namespace serve_partitions
