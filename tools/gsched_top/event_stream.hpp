// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/address.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace gsched_top {

/// The snapshots that a gsched_server sends at /events.
///
/// Errors   run_error, one line, for what cannot be reached, or is no such server.
/// Threads  one owner.
class event_stream {
public:
  explicit event_stream(const gsched_server::address& of);
  ~event_stream();
  event_stream(const event_stream&) = delete;
  event_stream& operator=(const event_stream&) = delete;

  /// The next one, which it waits for; nothing once the server has ended.
  [[nodiscard]] std::optional<std::string> next();

private:
  [[noreturn]] void fail(const std::string& why) const;
  /// A line without its end; nothing at the end of the stream.
  [[nodiscard]] std::optional<std::string> line();

  std::string at_;
  int socket_ = -1;
  std::string read_; ///< and not yet taken
};

} // namespace gsched_top
