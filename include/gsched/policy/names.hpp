// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/policy/chosen_policy.hpp>
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
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gsched {

/// A list of policies, with their names.
template <policy... Ps>
struct policy_list {
  static constexpr std::array<std::string_view, sizeof...(Ps)> names{Ps::name...};
  using chosen = chosen_policy<Ps...>;
};

/// The policies that users can select by name.
using selectable_policies =
    policy_list<fifo, round_robin, sjf, srpt, edf, deficit, deficit_over<srpt>, gamma_boost>;

/// One of them, selected at run time. make_policy(name) makes it.
using named_policy = selectable_policies::chosen;

/// What a user needs to know of a policy to choose it, and which of its parameters have an effect.
struct policy_description {
  std::string_view name;
  std::string_view summary;    ///< for a help text: half a line
  bool preempts = false;       ///< a waiting job can be preferred to a running one
  bool uses_weights = false;   ///< client::weight
  bool uses_threshold = false; ///< policy_parameters
  bool uses_slice = false;
  bool uses_factor = false; ///< may be asked for as NAME:FACTOR
};

/// One for each of selectable_policies, in their order.
inline constexpr std::array<policy_description, 8> policy_descriptions{{
    {.name = fifo::name, .summary = "first come, first served"},
    {.name = round_robin::name,
     .summary = "a slice of device time each, in turn",
     .uses_slice = true},
    {.name = sjf::name, .summary = "shortest job first, by its whole time"},
    {.name = srpt::name,
     .summary = "shortest remaining time first: least mean latency",
     .preempts = true},
    {.name = edf::name,
     .summary = "earliest deadline first; refuses requests that would be late",
     .preempts = true},
    {.name = deficit::name,
     .summary = "equal device time for each client, by weight",
     .uses_weights = true},
    {.name = deficit_over<srpt>::name,
     .summary = "srpt, until a client is owed more than a threshold",
     .preempts = true,
     .uses_weights = true,
     .uses_threshold = true},
    {.name = gamma_boost::name,
     .summary = "by arrival, less a boost for short requests: low mean and tail",
     .preempts = true,
     .uses_factor = true},
}};

/// Ways of serving without a scheduler, which programs offer beside the policies for comparison.
inline constexpr std::array<policy_description, 2> unscheduled_descriptions{{
    {.name = "direct", .summary = "no scheduling: requests go to the GPU at once, on many streams"},
    {.name = "single", .summary = "no scheduling: requests go to the GPU at once, on one stream"},
}};

namespace detail {
constexpr bool describes_all_policies() {
  for (std::size_t i = 0; i < policy_descriptions.size(); ++i)
    if (policy_descriptions[i].name != selectable_policies::names[i]) return false;
  return policy_descriptions.size() == selectable_policies::names.size();
}
static_assert(describes_all_policies());
} // namespace detail

/// The name without its factor: "boost" of "boost:1".
[[nodiscard]] constexpr std::string_view name_without_factor(std::string_view name) noexcept {
  return name.substr(0, name.find(':'));
}

/// The description of a policy, with or without a factor, or of a way without a scheduler; null for
/// an unknown name.
[[nodiscard]] constexpr const policy_description* find_policy(std::string_view name) noexcept {
  const std::string_view base = name_without_factor(name);
  for (const policy_description& d : policy_descriptions)
    if (d.name == base && (d.uses_factor || base.size() == name.size())) return &d;
  for (const policy_description& d : unscheduled_descriptions)
    if (d.name == name) return &d;
  return nullptr;
}

/// The factor of "boost:1", or the default if the name has none.
///
/// Errors   bad_option: not a number, or out of range.
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

/// Parameters of the selectable policies. A policy takes those that it has.
struct policy_parameters {
  duration threshold = deficit_over<srpt>::default_threshold; ///< device time a client may be owed
  duration slice = round_robin::default_slice;                ///< device time of one turn
  double factor = gamma_boost::default_factor;                ///< weight of the boost
};

/// The parameters with the factor of the name, if it has one.
///
/// Errors   those of factor_of().
[[nodiscard]] inline policy_parameters parameters_of(std::string_view name,
                                                     policy_parameters p = {}) {
  if (name_without_factor(name).size() != name.size()) p.factor = factor_of(name);
  return p;
}

/// A policy with those of the parameters that it has. For a combinator, call it for each part.
template <policy P>
[[nodiscard]] P make_policy(const policy_parameters& with) {
  if constexpr (requires { &P::set_threshold; })
    return P(with.threshold);
  else if constexpr (std::same_as<P, round_robin>)
    return P(with.slice);
  else if constexpr (std::same_as<P, gamma_boost>)
    return P(with.factor);
  else
    return P();
}

/// The policy with that name, with those of the parameters that it has. A factor in the name counts
/// before that of the parameters.
///
/// Errors   unknown_name, with the list of known names; and those of factor_of().
[[nodiscard]] inline named_policy make_policy(std::string_view name,
                                              const policy_parameters& with = {}) {
  const std::string_view base = name_without_factor(name);
  std::optional<named_policy> made;
  if (find_policy(name) != nullptr)
    [&]<policy... Ps>(policy_list<Ps...>) {
      const policy_parameters own = parameters_of(name, with);
      static_cast<void>(((base == Ps::name && (made.emplace(make_policy<Ps>(own)), true)) || ...));
    }(selectable_policies{});
  if (made) return *std::move(made);
  std::string known;
  for (const std::string_view each : selectable_policies::names)
    known.append(known.empty() ? "" : ", ").append(each);
  throw error(errc::unknown_name,
              "policy '" + std::string(name) + "': unknown, expected one of " + known);
}

} // namespace gsched
