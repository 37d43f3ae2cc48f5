// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace gsched_server {

/// Where a front end listens: unix:PATH, HOST:PORT, [IPV6]:PORT, or none.
struct address {
  enum class kind : std::uint8_t { none, unix_socket, tcp } what = kind::none;
  std::string path; ///< of a Unix socket
  std::string host;
  std::uint16_t port = 0; ///< 0: one that is free

  bool operator==(const address&) const = default;
  /// As it is written.
  [[nodiscard]] std::string text() const;
};

/// Errors   gsched::error (bad_option) with one line that names the option.
[[nodiscard]] address to_address(std::string_view option, const std::string& text);

/// The folder of sockets that no option names: $XDG_RUNTIME_DIR/gsched, or /tmp/gsched-UID.
[[nodiscard]] std::filesystem::path socket_folder();
/// Makes it, for this user alone, if it is not there.
/// Errors   run_error for a folder of another user, or one that others can write to.
void make_socket_folder();

/// Makes the path of a Unix socket free: removes one that nothing listens on any more.
/// Errors   run_error for one in use, or a file of another kind.
void claim(const address& at);

} // namespace gsched_server
