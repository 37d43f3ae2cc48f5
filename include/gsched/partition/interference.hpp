// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/plan.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <span>

namespace gsched {

/// Says how many times as long a batch of a model takes on one partition of a GPU beside the
/// others: interference(all, which, model), where `all` are that GPU's. A model also keeps:
///  I1 slower       it is never below 1.
///  I2 alone        a partition that has the GPU for itself is not slowed: 1.
///  I3 determinism  the same answer to the same question.
///  I4 least        it is never below what it is beside one partition of one group that runs
///                  nothing, whatever takes turns with the model, and whatever the others run.
template <class I>
concept interference_model = requires(const I& i, std::span<const gpulet> all, std::size_t which,
                                      std::size_t model) {
  { i(all, which, model) } -> std::convertible_to<double>;
};

/// Partitions that do nothing to each other.
struct no_interference {
  [[nodiscard]] double operator()(std::span<const gpulet>, std::size_t,
                                  std::size_t) const noexcept {
    return 1;
  }
};

static_assert(interference_model<no_interference>);

/// Any interference_model, chosen while running; empty: batches do nothing to each other.
using interference_function =
    std::function<double(std::span<const gpulet>, std::size_t, std::size_t)>;

} // namespace gsched
