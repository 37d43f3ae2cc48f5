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

/// The end of a request.
struct answer {
  outcome what = outcome::ok;
  std::string line{};             ///< one line, unless ok
  gsched::duration retry_after{}; ///< exhausted and unavailable: when it may fare better
  gsched::duration waited{};      ///< from its arrival to its start
  gsched::duration latency{};     ///< from its arrival to its end
  bool missed_deadline = false;   ///< served, but too late
  /// The bytes of each output, of a model that computes them; otherwise they are served::zeros.
  std::vector<std::string> outputs{};
};

/// Ends a request before it is submitted.
class refusal : public std::exception {
public:
  explicit refusal(answer a) : says(std::move(a)) {}
  refusal(outcome what, std::string line) : says{.what = what, .line = std::move(line)} {}
  [[nodiscard]] const char* what() const noexcept override { return says.line.c_str(); }

  answer says;
};

} // namespace gsched_server
