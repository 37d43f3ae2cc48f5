// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refusal.hpp"

#include <gsched/gsched_c.h>

#include <gsched/channel/host.hpp>
#include <gsched/channel/limits.hpp>

#include <string>

namespace gsched::abi {

[[nodiscard]] inline gsched_channel_options default_channel_options() {
  const channel::host_options host;
  const channel::client_limits each;
  gsched_channel_options o{};
  o.mode = host.mode;
  o.most_clients = host.most_clients;
  o.in_flight = each.in_flight;
  o.bytes = each.bytes;
  o.rate = each.rate;
  o.burst = each.burst;
  o.weight = each.weight;
  return o;
}

/// Throws for options out of range.
[[nodiscard]] inline channel::host_options host_options_of(const gsched_channel_options& o,
                                                           const std::string& socket) {
  if (o.mode > 0777) throw refusal(GSCHED_BAD_ARGUMENT, "mode: expected at most 0777");
  if (o.most_clients == 0) throw refusal(GSCHED_BAD_ARGUMENT, "most_clients: expected at least 1");
  channel::client_limits each;
  each.weight = o.weight;
  each.in_flight = o.in_flight;
  each.bytes = o.bytes;
  each.rate = o.rate;
  each.burst = o.burst;
  static_cast<void>(each.checked());
  channel::host_options how;
  how.socket = socket;
  how.mode = o.mode;
  how.most_clients = o.most_clients;
  how.limits = [each](const channel::peer&) { return each; };
  return how;
}

} // namespace gsched::abi
