// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/policy/chosen_policy.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/detail/deadline_order.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/policy/priority.hpp>

#include <concepts>
#include <cstddef>
#include <utility>

namespace gsched {

/// The policy that orders jobs before they start, if P orders the jobs that have started: P with
/// the same options, without its admission, because these jobs are admitted already.
template <policy P>
struct start_policy {
  using type = P;
  [[nodiscard]] static type like(const P& p) noexcept {
    if constexpr (requires {
                    { p.fresh() } -> std::same_as<P>;
                  })
      return p.fresh();
    else
      return P();
  }
};
template <>
struct start_policy<edf> {
  using type = deadline_order;
  [[nodiscard]] static type like(const edf&) noexcept { return {}; }
};
template <policy P>
struct start_policy<deficit_over<P>> {
  using type = deficit_over<typename start_policy<P>::type>;
  [[nodiscard]] static type like(const deficit_over<P>& p) noexcept { return type(p.threshold()); }
};
template <policy A, policy B>
struct start_policy<priority<A, B>> {
  using type = priority<typename start_policy<A>::type, typename start_policy<B>::type>;
  [[nodiscard]] static type like(const priority<A, B>& p) noexcept {
    return type([&] { return start_policy<A>::like(p.first()); },
                [&] { return start_policy<B>::like(p.second()); });
  }
};
template <policy... Ps>
struct start_policy<chosen_policy<Ps...>> {
  using type = chosen_policy<typename start_policy<Ps>::type...>;
  [[nodiscard]] static type like(const chosen_policy<Ps...>& p) noexcept {
    return p.visit([]<std::size_t I, policy P>(std::in_place_index_t<I> i, const P& of) {
      return type(i, start_policy<P>::like(of));
    });
  }
};

} // namespace gsched
