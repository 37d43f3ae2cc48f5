// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/cuda/partition/program_pool.hpp>

#include <utility>

namespace gsched::cuda {

void program_pool::add(std::uint32_t gpu, std::size_t model, std::uint32_t batch,
                       const std::string& name, program_lease one) {
  const std::lock_guard lock(state_->guard);
  state_->names[model] = name;
  state_->free[{gpu, model, batch}].push_back(std::move(one));
}

program_lease program_pool::lease(const batch_program& which) {
  const key of{which.gpu, which.model, which.batch};
  program_lease one;
  {
    const std::lock_guard lock(state_->guard);
    std::vector<program_lease>& free = state_->free[of];
    if (free.empty())
      throw error(errc::too_small, state_->names[which.model] + ", batch of " +
                                       std::to_string(which.batch) +
                                       ": all graphs are in use, expected one more of each batch");
    one = std::move(free.back());
    free.pop_back();
  }
  program_lease out = one;
  out.leased = {one.leased.get(), [at = state_, of, one](program*) mutable {
                  const std::lock_guard lock(at->guard);
                  at->free[of].push_back(std::move(one));
                }};
  return out;
}

} // namespace gsched::cuda
