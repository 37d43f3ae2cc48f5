// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace gsched {

/// One request of a workload: a client asks for one inference of a model.
struct arrival {
  time_point at{};
  std::uint32_t model = 0; ///< index into the workload's list of models
  client_id client{};

  bool operator==(const arrival&) const noexcept = default;
};

/// Generates the requests of a workload. A model also keeps:
///  W1 order        arrival times never fall.
///  W2 repeatable   equal arguments and equal calls give equal requests.
///  W3 open loop    a source whose on_reply does nothing never waits for a reply.
/// next() returns an empty optional at the end of the workload, and while the next request depends
/// on a reply that has not come.
template <class A>
concept arrival_source = requires(A a, client_id client, time_point now) {
  { a.next() } -> std::same_as<std::optional<arrival>>;
  { a.on_reply(client, now) } -> std::same_as<void>;
};

} // namespace gsched
