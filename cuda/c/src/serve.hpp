// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "settings.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/server.hpp>

#include <memory>
#include <type_traits>

namespace gsched::abi {

/// A server with the policy that is asked for, which orders the best-effort requests; real-time
/// ones go before them, by deadline.
template <class MakeDevice, class MakeEvents = no_events>
[[nodiscard]] std::unique_ptr<gsched::server> serve(const settings& how, MakeDevice make_device,
                                                    MakeEvents make_events = {}) {
  std::unique_ptr<gsched::server> made;
  visit_policy(how.policy, [&]<class Best>(std::type_identity<Best>) {
    const auto make = [with = parameters_of(how.policy, {how.threshold, how.slice})] {
      return priority<edf, Best>([] { return edf(); }, [&] { return make_policy<Best>(with); });
    };
    made = std::make_unique<gsched::server>(make_device, make, how, make_events);
  });
  return made;
}

} // namespace gsched::abi
