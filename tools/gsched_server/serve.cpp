// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/serve.hpp"

#include "gsched_server/network/grpc_front.hpp"
#include "gsched_server/network/rest_front.hpp"
#include "gsched_server/network/tls.hpp"
#include "gsched_server/operations/agent.hpp"
#include "gsched_server/operations/request_log.hpp"
#include "gsched_server/requests/service.hpp"
#include "gsched_server/settings/neighbour_rules.hpp"

#include "common/cli/main.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace gsched_server {

namespace {

/// The signals that end or change the server, which no thread handles: main waits for them.
sigset_t handled_signals() {
  sigset_t s;
  sigemptyset(&s);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&s, each);
  return s;
}

/// Calls `look` now and then.
template <class Look>
int wait_signal(const sigset_t& all, Look look) {
  constexpr timespec every{.tv_sec = 1, .tv_nsec = 0};
  for (;;) {
    if (const int which = sigtimedwait(&all, nullptr, &every); which > 0) return which;
    look();
  }
}

/// Whether one more signal asks for the end.
bool is_asked_again() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

/// Says a line on standard output, at once, and in the log. If that is standard output too, a line
/// of the log it is.
void say(request_log* log, const std::string& line) {
  if (log != nullptr) log->note(line);
  if (log != nullptr && log->is_standard_output()) return;
  fmt::print("{}\n", line);
  common::flush_standard_output();
}

/// Reads the same command line again.
void reload(service& s, settings& now, request_log* log, int argc, const char* const* argv) {
  try {
    std::optional<settings> next = read_settings(argc, argv);
    if (const std::string fixed = now.fixed_difference(*next); !fixed.empty())
      throw gsched::error(gsched::errc::bad_option,
                          fixed + ": differs, expected a new start for that");
    s.reload(*next);
    now = *std::move(next);
    say(log, fmt::format("reloaded: {} models, {} tenants", now.models.size(), now.tenants.size()));
  } catch (const gsched::error& e) {
    fmt::print(stderr, "gsched_server: not reloaded: {}\n", e.what());
  }
}

} // namespace

void block_signals() {
  const sigset_t signals = handled_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int serve(settings s, int argc, const char* const* argv) {
  s.apart = neighbour_rules(s);
  if (s.check) {
    say(nullptr,
        fmt::format("{} models, {} tenants: as they should be", s.models.size(), s.tenants.size()));
    return 0;
  }
  const sigset_t signals = handled_signals();
  signal(SIGPIPE, SIG_IGN);
  umask(0077); // sockets are this user's
  if (s.in_folder) make_socket_folder();
  std::optional<request_log> file;
  if (!s.log.empty()) file.emplace(s.log);
  request_log* const log = file ? &*file : nullptr;
  service to(s, device_of, log);
  std::optional<tls_context> tls; // outlives the connections over REST
  if (s.tls) tls.emplace(*s.tls);
  std::optional<grpc_front> grpc;
  std::optional<rest_front> rest;
  std::string where;
  if (s.grpc.what != address::kind::none) {
    grpc.emplace(to, s.grpc, s.request_bytes, s.tls, s.memory_bytes);
    where += " grpc=" + grpc->listens_at().text();
  }
  if (s.http.what != address::kind::none) {
    rest.emplace(to, s.http, s.request_bytes, s.http_threads, tls ? &*tls : nullptr);
    where += " http=" + rest->listens_at().text();
  }
  for (std::uint32_t i = 0; i < s.devices.size() && !s.socket.empty(); ++i)
    where += " socket=" + s.socket_of(i);
  std::optional<agent> checks;
  if (s.agent.what != address::kind::none) {
    checks.emplace(to, s.agent);
    where += " agent=" + checks->listens_at().text();
  }
  if (s.tls) where += " tls=" + s.tls->certificate;
  say(log, fmt::format("serving {} models on {}, {}:{}", s.models.size(), s.device_names(),
                       s.policy, where));
  const auto look = [&] {
    if (grpc && !to.ready()) grpc->not_ready(); // no device is left
  };
  while (wait_signal(signals, look) == SIGHUP) {
    if (log != nullptr) log->reopen(); // whether or not the configuration is right
    reload(to, s, log, argc, argv);
  }

  to.announce_end();
  if (grpc) grpc->not_ready();
  for (const auto until = std::chrono::steady_clock::now() + s.notice;
       !is_asked_again() && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  to.stop_accepting();
  bool idle = false;
  const auto until = std::chrono::steady_clock::now() + s.drain;
  while (!(idle = to.wait_idle(std::chrono::milliseconds{20})) &&
         std::chrono::steady_clock::now() < until)
    if (is_asked_again()) break;
  if (!idle) to.close(gsched::duration::zero()); // what is left ends as unavailable
  if (rest) rest->shut_down();
  if (grpc) grpc->shut_down(std::chrono::seconds{5});
  to.close(gsched::duration::zero());
  say(log, idle ? "drained: every request was served" : "ended: what was left was cancelled");
  return 0;
}

} // namespace gsched_server
