// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/request_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace gsched_server {

namespace {

std::int64_t now_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}
std::int64_t second_of(std::int64_t ns) noexcept { return ns / 1'000'000'000; }

std::string labels_of(std::string_view model, std::string_view tenant) {
  return metrics_text::label("model", model) + "," + metrics_text::label("tenant", tenant);
}

} // namespace

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

request_metrics::series& request_metrics::find(std::string_view model, std::string_view tenant) {
  if (const auto of = all_.find(model); of != all_.end())
    if (const auto at = of->second.find(tenant); at != of->second.end()) return at->second;
  constexpr std::string_view other = "other";
  if (pairs_ >= most_series - 1) model = tenant = other;
  by_tenant& of = all_.try_emplace(std::string(model)).first->second;
  const auto [at, is_new] = of.try_emplace(std::string(tenant));
  if (is_new) ++pairs_;
  return at->second;
}

void request_metrics::ended(std::string_view model, std::string_view tenant, const answer& a) {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  series& of = find(model, tenant);
  ++of.by_end[static_cast<std::size_t>(a.what)];
  ++totals_.all;
  if (a.what != outcome::ok && a.what != outcome::cancelled) ++totals_.failed;
  if (a.reason != refused_for::nothing) ++refused_[static_cast<std::size_t>(a.reason)];
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
  of.latency.add(a.latency);
  of.waited.add(a.waited);
  of.latency_of_late.record(a.latency, second_of(now));
  of.waited_of_late.record(a.waited, second_of(now));
}

gsched::duration request_metrics::between_ends() const {
  const std::lock_guard lock(mutex_);
  return gsched::duration{static_cast<gsched::duration::rep>(std::clamp(between_ns_, 1e6, 5e9))};
}

request_metrics::totals request_metrics::count() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

template <class Call>
void request_metrics::each(Call call) const {
  for (const auto& [model, of] : all_)
    for (const auto& [tenant, s] : of) call(model, tenant, s);
}

std::vector<request_metrics::row> request_metrics::rows() const {
  std::vector<row> out;
  const std::lock_guard lock(mutex_);
  const std::int64_t now = second_of(now_ns());
  each([&](const std::string& model, const std::string& tenant, const series& s) {
    out.push_back({model, tenant, s.by_end, s.latency_of_late.at(now), s.waited_of_late.at(now)});
  });
  return out;
}

std::vector<request_metrics::refusals> request_metrics::refused() const {
  std::vector<refusals> out;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 1; i < refused_.size(); ++i) out.push_back({reason_names[i], refused_[i]});
  return out;
}

void request_metrics::write(metrics_text& out) const {
  const std::vector<refusals> reasons = refused();
  const std::lock_guard lock(mutex_);
  out.metric("gsched_requests_total", "counter", "Requests that have ended, by their end.");
  each([&](const std::string& model, const std::string& tenant, const series& s) {
    for (std::size_t i = 0; i < s.by_end.size(); ++i)
      if (s.by_end[i] > 0)
        out.sample("",
                   labels_of(model, tenant) + "," + metrics_text::label("end", outcome_names[i]),
                   static_cast<double>(s.by_end[i]));
  });
  out.metric("gsched_refusals_total", "counter", "Requests that were not served, by the reason.");
  for (const auto& [reason, n] : reasons)
    out.sample("", metrics_text::label("reason", reason), static_cast<double>(n));
  out.metric("gsched_requests_late_total", "counter",
             "Requests that were served, but ended after their deadline.");
  out.sample("", "", static_cast<double>(missed_));
  const auto write_times = [&](const char* name, const char* help, histogram series::*which) {
    out.metric(name, "histogram", help);
    each([&](const std::string& model, const std::string& tenant, const series& s) {
      if (s.by_end[static_cast<std::size_t>(outcome::ok)] > 0)
        (s.*which).write(out, labels_of(model, tenant));
    });
  };
  write_times("gsched_request_duration_seconds",
              "From the arrival of a request to its end, of those that ended ok.",
              &series::latency);
  write_times("gsched_request_wait_seconds",
              "From the arrival of a request to its start, of those that ended ok.",
              &series::waited);
}

} // namespace gsched_server
