// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "settings.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/server.hpp>

#include <memory>

namespace gsched::abi {

/// A server with the policy that is asked for, which orders the best-effort requests; real-time
/// ones go before them, by deadline.
template <class MakeDevice, class MakeEvents = no_events>
[[nodiscard]] std::unique_ptr<gsched::server> serve(const settings& how, MakeDevice make_device,
                                                    MakeEvents make_events = {}) {
  const auto order = [name = how.policy, with = policy_parameters{how.threshold, how.slice}] {
    return priority<edf, named_policy>([] { return edf(); },
                                       [&] { return make_policy(name, with); });
  };
  return std::make_unique<gsched::server>(make_device, order, how, make_events);
}

} // namespace gsched::abi
