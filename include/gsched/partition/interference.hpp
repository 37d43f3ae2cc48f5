// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/plan.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace gsched {

/// Predicts the slow-down of a batch: interference(all, which, model) is the latency of a batch of
/// `model` on partition `which`, over its latency alone. `all` are the partitions of that GPU. A
/// model also keeps:
///  I1 bound        the slow-down is never below 1.
///  I2 alone        it is 1 if the partition is the only one on the GPU.
///  I3 determinism  equal arguments give equal answers.
///  I4 least        it is never below the slow-down beside one idle partition of one group, for any
///                  other portions of `which` and any work of the other partitions.
template <class I>
concept interference_model =
    requires(const I& i, std::span<const gpulet> all, std::size_t which, std::size_t model) {
      { i(all, which, model) } -> std::convertible_to<double>;
    };

/// An interference_model by which partitions on SMs of their own add up. use(model, batch, sms) is
/// what a batch takes of the GPU; a model of slow-downs also keeps:
///  S1 sum       where each partition has a model once, i(all, which, model) is
///               slowdown(own, others): own is the use of the model's batch on that partition, and
///               others the sum, over the other partitions, of the largest use of each kind (l2,
///               dram, starts) of their portions, each as_neighbour().
///  S2 monotone  slowdown never falls with a use of the others.
template <class I>
concept summed_interference =
    interference_model<I> && requires(const I& i, std::size_t model, std::uint32_t batch,
                                      sm_count sms, const mean_use& own, const mean_use& others) {
      { i.use(model, batch, sms) } -> std::same_as<mean_use>;
      { i.slowdown(own, others) } -> std::convertible_to<double>;
    };

/// No interference: every slow-down is 1.
struct no_interference {
  [[nodiscard]] double operator()(std::span<const gpulet>, std::size_t,
                                  std::size_t) const noexcept {
    return 1;
  }
};

static_assert(interference_model<no_interference>);

/// An interference_model that may also know slow-downs of partitions on the same SMs:
/// predicts_shared_sms(model) tells for which models. A plan in which other models share SMs is not
/// valid.
template <class I>
concept shared_sm_interference = interference_model<I> && requires(const I& i, std::size_t model) {
  { i.predicts_shared_sms(model) } -> std::convertible_to<bool>;
};

/// Whether an interference_model knows the slow-downs of a model on shared SMs.
template <interference_model I>
[[nodiscard]] bool predicts_shared_sms(const I& i, std::size_t model) {
  if constexpr (shared_sm_interference<I>)
    return i.predicts_shared_sms(model);
  else
    return false;
}

/// An interference_model chosen at run time; empty: no interference.
using interference_function =
    std::function<double(std::span<const gpulet>, std::size_t, std::size_t)>;

} // namespace gsched
