// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gsched_server {

/// A page for browsers and the headers that it comes with.
struct status_page {
  std::string html;
  /// Its own script and style alone may run, and it may only ask this server.
  std::string content_security_policy;
};

/// operations/status_page.html, which shows this snapshot, and then those of /events.
[[nodiscard]] status_page make_status_page(std::string_view snapshot_json);

} // namespace gsched_server
