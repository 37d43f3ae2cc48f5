// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/tls_files.hpp"

#include <cstddef>
#include <memory>

struct ssl_ctx_st; // OpenSSL's
struct ssl_st;

namespace gsched_server {

/// The server's side of TLS 1.2 and 1.3, for connections over REST. gRPC has its own.
///
/// Threads  any.
class tls_context {
public:
  /// Errors   gsched::error (io) with one line: a file that cannot be read or has a wrong format, a
  ///          key that is not the certificate's.
  explicit tls_context(const tls_files& files);

private:
  friend class tls_session;
  struct freed {
    void operator()(ssl_ctx_st* c) const noexcept;
  };
  std::unique_ptr<ssl_ctx_st, freed> context_;
};

/// TLS on one connected socket, which is set not to block.
///
/// Threads  one.
class tls_session {
public:
  /// Errors   std::bad_alloc
  tls_session(const tls_context& of, int socket);
  /// Says to the client that nothing more comes, if it can at once.
  ~tls_session();
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  /// How a call has gone. After one that waits, call it again once the socket is readable, or
  /// writable.
  enum class step { done, wait_read, wait_write, over };
  [[nodiscard]] step handshake() noexcept;
  /// `n`: the bytes that were read or written.
  [[nodiscard]] step read(char* to, std::size_t size, std::size_t& n) noexcept;
  [[nodiscard]] step write(const char* from, std::size_t size, std::size_t& n) noexcept;
  /// Whether the client has ended its side; reads nothing that it has sent.
  [[nodiscard]] bool was_ended() noexcept;
  /// Whether bytes were received and not read, so that the socket is not readable for them.
  [[nodiscard]] bool has_bytes() const noexcept;

private:
  [[nodiscard]] step step_of(int result) noexcept;
  struct freed {
    void operator()(ssl_st* s) const noexcept;
  };
  std::unique_ptr<ssl_st, freed> session_;
  bool failed_ = false;
};

} // namespace gsched_server
