// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dispatch/shared/any_dispatcher.hpp"

#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/sim/device.hpp>

#include <sanitized.hpp>

#include <concepts>

namespace gsched::test {

/// A list of policies.
template <policy... Ps>
struct natives {
  template <class P>
  static constexpr bool has = (std::same_as<P, Ps> || ...);
};
/// The policies whose own dispatchers on the simulated GPU are compiled in native_dispatchers*.cpp,
/// so that each policy is compiled with a dispatcher as in a program. A sanitizer's build has one:
/// compiling all takes it minutes, and any_policy runs the code of the others.
#ifdef GSCHED_SANITIZED
using native_policies = natives<srpt>;
#else
using native_policies =
    natives<fifo, round_robin, gamma_boost, sjf, srpt, edf, deficit, deficit_over<srpt>,
            priority<edf, deficit_over<srpt>>, named_policy>;
#endif

/// As shared_dispatcher, but P's own dispatcher where that is compiled.
template <policy P, listener Listener>
[[nodiscard]] shared_dispatcher native_dispatcher(sim::device& on, P& order,
                                                  aggregate_accountant& account, Listener& hears,
                                                  const dispatch_options& how = {}) {
  if constexpr (native_policies::has<P>)
    return {natively, on, order, account, hears, how};
  else
    return {on, order, account, hears, how};
}

} // namespace gsched::test
