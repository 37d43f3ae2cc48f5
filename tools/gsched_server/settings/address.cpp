// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/settings/address.hpp"

#include "common/cli/option_values.hpp"
#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace fs = std::filesystem;

namespace gsched_server {

using common::in_quotes;
using common::refuse;
using common::run_error;

namespace {

constexpr const char* forms = "unix:PATH, HOST:PORT or none";
constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;

} // namespace

std::string address::text() const {
  switch (what) {
  case kind::none: return "none";
  case kind::unix_socket: return "unix:" + path;
  case kind::tcp: break;
  }
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

address to_address(std::string_view option, const std::string& text) {
  address a;
  if (text == "none") return a;
  if (text.starts_with("unix:")) {
    a.what = address::kind::unix_socket;
    a.path = text.substr(5);
    if (a.path.empty() || a.path.size() > longest_path || a.path.find('\0') != std::string::npos ||
        a.path.front() == '@')
      refuse(option, in_quotes(text),
             "unix: and a path of 1 to " + std::to_string(longest_path) + " bytes");
    return a;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse(option, in_quotes(text), forms);
  a.what = address::kind::tcp;
  a.host = text.substr(0, colon);
  if (a.host.size() > 2 && a.host.front() == '[' && a.host.back() == ']')
    a.host = a.host.substr(1, a.host.size() - 2);
  else if (a.host.find_first_of(":[]") != std::string::npos)
    refuse(option, in_quotes(text), "an IPv6 address in brackets, as [::1]:8001");
  if (a.host.empty() || a.host.size() > 255 ||
      a.host.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:%_") !=
          std::string::npos)
    refuse(option, in_quotes(text), forms);
  a.port = static_cast<std::uint16_t>(common::to_count(option, text.substr(colon + 1), 0, 65535));
  return a;
}

fs::path socket_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && *runtime == '/'
             ? fs::path(runtime) / "gsched"
             : fs::path("/tmp/gsched-" + std::to_string(::getuid()));
}

void make_socket_folder() {
  const fs::path folder = socket_folder();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw run_error(gsched::errc::io, folder.string() + ": " + std::strerror(errno) +
                                          ", expected a folder for sockets");
  struct stat s {};
  if (::lstat(folder.c_str(), &s) != 0 || !S_ISDIR(s.st_mode) || s.st_uid != ::getuid() ||
      (s.st_mode & 022) != 0)
    throw run_error(gsched::errc::io, folder.string() +
                                          ": not a folder that this user alone can write to, "
                                          "expected one for sockets");
}

void claim(const address& at) {
  if (at.what != address::kind::unix_socket) return;
  struct stat s {};
  if (::lstat(at.path.c_str(), &s) != 0) return; // binding says what else is wrong
  if (!S_ISSOCK(s.st_mode))
    throw run_error(gsched::errc::io, at.text() + ": a file, expected a free path or a socket");
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  at.path.copy(to.sun_path, longest_path);
  const bool used =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EAGAIN;
  ::close(probe);
  if (used) throw run_error(gsched::errc::io, at.text() + ": in use, expected a free address");
  ::unlink(at.path.c_str());
}

} // namespace gsched_server
