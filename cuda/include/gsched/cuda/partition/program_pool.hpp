// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/partition/partition_batches.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace gsched::cuda {

/// Programs of captured graphs, each leased to one partition at a time: a program_source for models
/// whose graphs exist before the service begins. Leases may outlive the pool.
///
/// Errors   lease: too_small, one line that names the model, if all programs of a batch size are
///          leased.
/// Cost     O(log sizes).
/// Threads  any.
class program_pool {
public:
  /// Adds a program with memory of its own. `name` names its model in errors.
  void add(std::uint32_t gpu, std::size_t model, std::uint32_t batch, const std::string& name,
           program_lease one);
  [[nodiscard]] program_lease lease(const batch_program& which);

private:
  using key = std::tuple<std::uint32_t, std::size_t, std::uint32_t>; ///< GPU, model, batch
  struct state {
    std::mutex guard;
    std::map<key, std::vector<program_lease>> free;
    std::map<std::size_t, std::string> names; ///< by model
  };
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace gsched::cuda
