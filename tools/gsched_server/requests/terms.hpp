// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace gsched_server {

/// A parameter's value, as both protocols have it.
using parameter = std::variant<bool, std::int64_t, double, std::string_view>;

/// What a request asks for beside its tensors.
struct terms {
  std::string id{};     ///< of logs; empty: the service makes one
  std::string tenant{}; ///< empty: the default one
  bool real_time = false;
  std::optional<gsched::duration> deadline{}; ///< after its arrival

  /// Takes `tenant`, `priority` ("real_time" or "best_effort"), `real_time` and `deadline_ms`, and
  /// ignores other names, which other servers may know.
  /// Errors   refusal (invalid), one line.
  void set(std::string_view name, const parameter& value);
  /// The same of a header or of metadata, all text: "gsched-tenant", "gsched-priority",
  /// "gsched-real-time" and "gsched-deadline-ms", by lower-case names; and the request's id.
  void set_header(std::string_view name, std::string_view value);
  /// The nearer one of two deadlines counts.
  void limit(gsched::duration within) {
    if (!deadline || within < *deadline) deadline = within;
  }
};

} // namespace gsched_server
