// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/address.hpp"
#include "gsched_server/settings/tls_files.hpp"

#include <gsched/core/time.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gsched_server {

class service;

/// The protocol over gRPC. Errors of requests are statuses with one line; `exhausted` and
/// `unavailable` have google.rpc.RetryInfo in their details.
///
/// Threads  one owner; its requests come on threads of gRPC.
class grpc_front {
public:
  /// Listens, on TCP with TLS where there are files for it. The service outlives it.
  /// Errors   run_error for an address that cannot be used; gsched::error for files that cannot be
  ///          read. A wrong content of them is found by tls_context.
  /// `memory_bytes` is for what gRPC buffers; beyond it it ends calls, and connections without one.
  grpc_front(service& to, const address& at, std::uint64_t request_bytes,
             const std::optional<tls_files>& tls = {},
             std::uint64_t memory_bytes = std::uint64_t{1} << 30);
  /// Shuts down at once.
  ~grpc_front();
  grpc_front(const grpc_front&) = delete;
  grpc_front& operator=(const grpc_front&) = delete;

  /// Where it listens, with the port that it has.
  [[nodiscard]] const address& listens_at() const noexcept;
  /// Health checks fail from now on.
  void not_ready() noexcept;
  /// No more calls; waits so long for those under way, then cancels them.
  void shut_down(gsched::duration wait);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched_server
