// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gsched_server {

/// Text in the exposition format of Prometheus.
class metrics_text {
public:
  /// The metric that the samples after it belong to.
  void metric(std::string_view name, std::string_view type, std::string_view help);
  /// `labels` are "model=\"x\"", as label() makes them, or empty.
  void sample(std::string_view suffix, std::string_view labels, double value);
  [[nodiscard]] static std::string label(std::string_view name, std::string_view value);
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
  std::string name_, text_;
};

} // namespace gsched_server
