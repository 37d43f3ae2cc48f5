// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/cuda/action.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/task.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace common {

/// What runs as a job for one model on a GPU: the input copied in, stand-ins of the model's
/// kernels, the output copied out.
///
/// Differs  all jobs copy from and to the same memory, whose contents are not used.
class stand_in_inference {
public:
  /// With a program of preemptible_profile for each instance (gsched::job_context).
  stand_in_inference(const gsched::profile& of, gsched::preemptibility leaves,
                     std::uint32_t instances);

  [[nodiscard]] gsched::program& program(std::uint32_t instance) noexcept {
    return graphs_[instance].host();
  }
  gsched::task operator()(gsched::job_context& ctx);

private:
  /// Pinned and device memory for one way, and the copy between them; in place when its owner
  /// moves.
  struct way {
    way(gsched::copy_direction direction, gsched::byte_count bytes);
    ~way();
    way(const way&) = delete;
    way& operator=(const way&) = delete;

    void* pinned = nullptr;
    void* device = nullptr;
    gsched::cuda::copy_action action{nullptr, nullptr};
    gsched::operation work{};
  };

  std::vector<gsched::cuda::program> graphs_;
  std::unique_ptr<way> in_; ///< null for nothing to copy
  std::unique_ptr<way> out_;
};

} // namespace common
