// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/policy/deficit.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/sjf.hpp>
#include <gsched/policy/srpt.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gsched {

template <policy... Ps>
struct policy_list {
  static constexpr std::array<std::string_view, sizeof...(Ps)> names{Ps::name...};
};

/// The policies that a user can ask for by name.
using selectable_policies =
    policy_list<fifo, round_robin, sjf, srpt, edf, deficit, deficit_over<srpt>>;

/// Calls f(std::type_identity<P>{}) for the policy P of that name.
/// Errors   unknown_name, with the known ones in its line.
template <class F>
void visit_policy(std::string_view name, F&& f) {
  const auto visit = [&]<class... Ps>(policy_list<Ps...>) {
    return ((name == Ps::name && (static_cast<void>(f(std::type_identity<Ps>{})), true)) || ...);
  };
  if (visit(selectable_policies{})) return;
  std::string known;
  for (const std::string_view each : selectable_policies::names)
    known.append(known.empty() ? "" : ", ").append(each);
  throw error(errc::unknown_name,
              "policy '" + std::string(name) + "': unknown, expected one of " + known);
}

} // namespace gsched
