// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/address.hpp"

#include <cstdint>
#include <memory>

namespace gsched_server {

class service;
class tls_context;

/// The protocol over REST, and metrics. Errors are JSON with one line.
///
/// Threads  one owner; requests come on threads of its own, one for a connection.
class rest_front {
public:
  /// Listens, on TCP with TLS unless that is null. The service and TLS outlive it.
  /// Errors   run_error for an address that cannot be used.
  rest_front(service& to, const address& at, std::uint64_t request_bytes, std::uint32_t threads,
             const tls_context* tls = nullptr);
  /// As shut_down().
  ~rest_front();
  rest_front(const rest_front&) = delete;
  rest_front& operator=(const rest_front&) = delete;

  /// Where it listens, with the port that it has.
  [[nodiscard]] const address& listens_at() const noexcept;
  /// No more requests; waits for those under way.
  void shut_down();

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched_server
