// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/settings.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/server/options.hpp>
#include <gsched/server/server.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace gsched_server {

/// Of the device with this number.
[[nodiscard]] inline gsched::server_options server_options_of(const settings& s,
                                                              std::uint32_t number) {
  gsched::server_options how;
  how.dispatch.preemption.real_time_lanes = s.real_time_lanes;
  how.spin = s.spin;
  if (!s.apart.empty()) how.dispatch.corun.rule = s.apart.at(number);
  return how;
}

/// A server on the device that `make` returns, as the settings have it for this number.
template <class Make>
[[nodiscard]] std::unique_ptr<gsched::server> start_server(Make make, const settings& s,
                                                           std::uint32_t number) {
  const gsched::server_options how = server_options_of(s, number);
  return std::make_unique<gsched::server>(
      std::move(make),
      [name = s.policy] {
        return gsched::priority<gsched::edf, gsched::named_policy>(
            [] { return gsched::edf(); }, [&] { return gsched::make_policy(name); });
      },
      how);
}

} // namespace gsched_server
