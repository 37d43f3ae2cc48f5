// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/metrics.hpp"

#include <fmt/format.h>

namespace gsched_server {

void metrics_text::metric(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void metrics_text::sample(std::string_view suffix, std::string_view labels, double value) {
  text_ += labels.empty() ? fmt::format("{}{} {}\n", name_, suffix, value)
                          : fmt::format("{}{}{{{}}} {}\n", name_, suffix, labels, value);
}

std::string metrics_text::label(std::string_view name, std::string_view value) {
  std::string s = fmt::format("{}=\"", name);
  for (const char c : value) {
    if (c == '\\' || c == '"') s += '\\';
    if (c == '\n')
      s += "\\n";
    else
      s += c;
  }
  return s + '"';
}

} // namespace gsched_server
