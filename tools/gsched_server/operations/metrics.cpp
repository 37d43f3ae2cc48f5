// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

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

void request_metrics::histogram::add(gsched::duration t) noexcept {
  const double s = gsched::to_s(t);
  sum_s += s;
  ++counts[static_cast<std::size_t>(std::lower_bound(bounds_s.begin(), bounds_s.end(), s) -
                                    bounds_s.begin())];
}

void request_metrics::histogram::write(metrics_text& out, const std::string& labels) const {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const std::string bound = i < bounds_s.size() ? fmt::format("{}", bounds_s[i]) : "+Inf";
    out.sample("_bucket", labels + "," + metrics_text::label("le", bound),
               static_cast<double>(below));
  }
  out.sample("_sum", labels, sum_s);
  out.sample("_count", labels, static_cast<double>(below));
}

void request_metrics::ended(std::string_view model, std::string_view tenant, const answer& a) {
  const std::int64_t now =
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  const std::lock_guard lock(mutex_);
  ++ends_[{std::string(model), std::string(tenant)}][static_cast<std::size_t>(a.what)];
  if (a.missed_deadline) ++missed_;
  if (a.latency > gsched::duration::zero()) { // it was submitted
    constexpr double longest_gap_ns = 1e9;    // a pause says nothing
    if (last_end_ns_ != 0) {
      const double gap = std::min(static_cast<double>(now - last_end_ns_), longest_gap_ns);
      between_ns_ += (gap - between_ns_) / 16;
    }
    last_end_ns_ = now;
  }
  if (a.what != outcome::ok) return;
  times& of = times_[std::string(model)];
  of.latency.add(a.latency);
  of.waited.add(a.waited);
}

gsched::duration request_metrics::between_ends() const {
  const std::lock_guard lock(mutex_);
  return gsched::duration{static_cast<gsched::duration::rep>(std::clamp(between_ns_, 1e6, 5e9))};
}

void request_metrics::write(metrics_text& out) const {
  const std::lock_guard lock(mutex_);
  out.metric("gsched_requests_total", "counter", "Requests that have ended, by their end.");
  for (const auto& [key, counts] : ends_)
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i] > 0)
        out.sample("",
                   metrics_text::label("model", key.first) + "," +
                       metrics_text::label("tenant", key.second) + "," +
                       metrics_text::label("end", outcome_names[i]),
                   static_cast<double>(counts[i]));
  out.metric("gsched_requests_late_total", "counter",
             "Requests that were served, but ended after their deadline.");
  out.sample("", "", static_cast<double>(missed_));
  out.metric("gsched_request_duration_seconds", "histogram",
             "From the arrival of a request to its end, of those that ended ok.");
  for (const auto& [model, of] : times_) of.latency.write(out, metrics_text::label("model", model));
  out.metric("gsched_request_wait_seconds", "histogram",
             "From the arrival of a request to its start, of those that ended ok.");
  for (const auto& [model, of] : times_) of.waited.write(out, metrics_text::label("model", model));
}

} // namespace gsched_server
