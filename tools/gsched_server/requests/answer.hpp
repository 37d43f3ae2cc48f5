// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched_server {

/// How a request ends for its client, in terms that both protocols have a status for.
enum class outcome : std::uint8_t {
  ok,
  invalid,     ///< it breaks the protocol, or does not fit its model
  not_found,   ///< no such model
  denied,      ///< its tenant may not ask for that
  exhausted,   ///< over a limit: try again after answer::retry_after
  late,        ///< its deadline cannot be met; it was not served
  cancelled,   ///< by its client
  unavailable, ///< the server shuts down, or its device has failed
  failed
};
inline constexpr std::array<std::string_view, 9> outcome_names{
    "ok",   "invalid",   "not_found",   "denied", "exhausted",
    "late", "cancelled", "unavailable", "failed"};

[[nodiscard]] constexpr std::string_view to_string(outcome o) noexcept {
  return outcome_names[static_cast<std::size_t>(o)];
}

/// Why a request was not served, where that was its own or the server's state's fault.
enum class refused_for : std::uint8_t {
  nothing,
  protocol, ///< it breaks the protocol, or does not fit its model
  unknown_model,
  real_time,       ///< its tenant may not ask for that
  deadline,        ///< cannot be met
  server_limit,    ///< limits/requests
  tenant_requests, ///< the tenant's
  tenant_rate,
  shutdown,
  device_failed,
  memory
};
inline constexpr std::array<std::string_view, 11> reason_names{
    "nothing",         "protocol",    "unknown_model", "real_time",     "deadline", "server_limit",
    "tenant_requests", "tenant_rate", "shutdown",      "device_failed", "memory"};

/// The reason that an outcome alone says.
[[nodiscard]] constexpr refused_for reason_of(outcome o) noexcept {
  switch (o) {
  case outcome::invalid: return refused_for::protocol;
  case outcome::not_found: return refused_for::unknown_model;
  case outcome::denied: return refused_for::real_time;
  case outcome::exhausted: return refused_for::server_limit;
  case outcome::late: return refused_for::deadline;
  case outcome::unavailable: return refused_for::shutdown;
  default: return refused_for::nothing;
  }
}

/// The end of a request.
struct answer {
  outcome what = outcome::ok;
  refused_for reason = refused_for::nothing;
  std::string line{};             ///< one line, unless ok
  gsched::duration retry_after{}; ///< exhausted and unavailable: when it may fare better
  gsched::duration waited{};      ///< from its arrival to its start
  gsched::duration latency{};     ///< from its arrival to its end
  bool missed_deadline = false;   ///< served, but too late
  /// The bytes of each output, of a model that computes them; otherwise they are served::zeros.
  std::vector<std::string> outputs{};
  std::string id{}; ///< the request's, as its client gave it or the server made it
};

/// Ends a request before it is submitted.
class refusal : public std::exception {
public:
  explicit refusal(answer a) : says(std::move(a)) {}
  refusal(outcome what, std::string line)
      : says{.what = what, .reason = reason_of(what), .line = std::move(line)} {}
  [[nodiscard]] const char* what() const noexcept override { return says.line.c_str(); }

  answer says;
};

} // namespace gsched_server
