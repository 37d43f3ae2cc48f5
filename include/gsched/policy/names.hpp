// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/policy/deficit.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/gamma_boost.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/sjf.hpp>
#include <gsched/policy/srpt.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gsched {

template <policy... Ps>
struct policy_list {
  static constexpr std::array<std::string_view, sizeof...(Ps)> names{Ps::name...};
};

/// The policies that a user can ask for by name.
using selectable_policies =
    policy_list<fifo, round_robin, sjf, srpt, edf, deficit, deficit_over<srpt>, gamma_boost>;

/// A policy's name without the factor that may follow it: "boost" of "boost:1".
[[nodiscard]] constexpr std::string_view name_without_factor(std::string_view name) noexcept {
  return name.substr(0, name.find(':'));
}

/// The factor of "boost:1", or the default where none is given.
/// Errors   bad_option for one that is no number, or out of range.
[[nodiscard]] inline double factor_of(std::string_view name) {
  const std::string_view base = name_without_factor(name);
  if (base.size() == name.size()) return gamma_boost::default_factor;
  const std::string_view digits = name.substr(base.size() + 1);
  double factor = 0;
  const auto [stop, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), factor);
  if (ec != std::errc{} || stop != digits.data() + digits.size() || !gamma_boost::is_factor(factor))
    throw error(errc::bad_option, "policy '" + std::string(name) + "': factor '" +
                                      std::string(digits) + "', expected 1e-6 to 1e6");
  return factor;
}

/// Calls f(std::type_identity<P>{}) for the policy P of that name, whose factor factor_of() gives.
/// Errors   unknown_name, with the known ones in its line; as factor_of.
template <class F>
void visit_policy(std::string_view name, F&& f) {
  const std::string_view base = name_without_factor(name);
  const bool has_factor = base.size() != name.size();
  if (has_factor && base == gamma_boost::name) static_cast<void>(factor_of(name));
  const auto visit = [&]<class... Ps>(policy_list<Ps...>) {
    return ((base == Ps::name && (!has_factor || std::is_same_v<Ps, gamma_boost>)&&(
                                     static_cast<void>(f(std::type_identity<Ps>{})), true)) ||
            ...);
  };
  if (visit(selectable_policies{})) return;
  std::string known;
  for (const std::string_view each : selectable_policies::names)
    known.append(known.empty() ? "" : ", ").append(each);
  throw error(errc::unknown_name,
              "policy '" + std::string(name) + "': unknown, expected one of " + known);
}

} // namespace gsched
