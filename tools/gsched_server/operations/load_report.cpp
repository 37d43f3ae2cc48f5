// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/load_report.hpp"

#include "gsched_server/network/wire_format.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <thread>
#include <utility>

namespace gsched_server {

namespace {

constexpr std::chrono::milliseconds shortest{100}; ///< between two reports
constexpr std::chrono::seconds window{1};

double cpu_seconds() noexcept {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto s = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return s(u.ru_utime) + s(u.ru_stime);
}

} // namespace

std::string load_report::binary() const {
  const auto entry = [](std::string& to, unsigned field, std::string_view name, double value) {
    std::string one;
    wire::put_bytes(one, 1, name);
    wire::put_double(one, 2, value);
    wire::put_bytes(to, field, one);
  };
  std::string m;
  wire::put_double(m, 1, cpu);
  entry(m, 5, "gpu", gpu);
  wire::put_double(m, 6, rps);
  wire::put_double(m, 7, eps);
  entry(m, 8, "queued_device_seconds", queued_s);
  entry(m, 8, "requests_in_service", active);
  wire::put_double(m, 9, application);
  return m;
}

std::string load_report::text() const {
  return fmt::format("TEXT cpu_utilization={:.4g},application_utilization={:.4g},"
                     "rps_fractional={:.4g},eps={:.4g},utilization.gpu={:.4g},"
                     "named_metrics.queued_device_seconds={:.4g},"
                     "named_metrics.requests_in_service={:.4g}",
                     cpu, application, rps, eps, gpu, queued_s, active);
}

std::string load_report::json() const {
  return fmt::format(R"(JSON {{"cpu_utilization":{:.4g},"application_utilization":{:.4g},)"
                     R"("rps_fractional":{:.4g},"eps":{:.4g},"utilization":{{"gpu":{:.4g}}},)"
                     R"("named_metrics":{{"queued_device_seconds":{:.4g},)"
                     R"("requests_in_service":{:.4g}}}}})",
                     cpu, application, rps, eps, gpu, queued_s, active);
}

std::string load_report::in_format(std::string_view format) const {
  const auto is = [&](std::string_view name) {
    return std::ranges::equal(format, name, [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    });
  };
  return is("text") ? text() : is("json") ? json() : std::string();
}

load_meter::load_meter(std::function<sample()> ask) : ask_(std::move(ask)) {}

std::shared_ptr<const load_meter::rendered> load_meter::latest() {
  const clock::time_point now = clock::now();
  const std::lock_guard lock(mutex_);
  if (latest_ == nullptr || now - points_.back().at >= shortest) renew(now);
  return latest_;
}

void load_meter::renew(clock::time_point at) {
  const sample s = ask_();
  if (points_.empty()) points_.push_back({at - window, {}, 0, 0}); // the first one: since its start
  points_.push_back({at, s.ended, s.busy_s, cpu_seconds()});
  while (points_.size() > 2 && at - points_[1].at >= window) points_.pop_front();
  const point &from = points_.front(), &to = points_.back();
  const double passed = std::chrono::duration<double>(to.at - from.at).count();
  rendered r;
  const auto rate = [&](double of) { return std::max(0.0, of / passed); };
  r.report.cpu = rate(to.cpu_s - from.cpu_s) / std::max(1u, std::thread::hardware_concurrency());
  r.report.gpu = std::min(1.0, rate(to.busy_s - from.busy_s));
  r.report.queued_s = gsched::to_s(s.now.queued);
  r.report.application = r.report.gpu + r.report.queued_s / gsched::to_s(load_figures::full_queue);
  r.report.rps = rate(static_cast<double>(to.ended.all - from.ended.all));
  r.report.eps = rate(static_cast<double>(to.ended.failed - from.ended.failed));
  r.report.active = static_cast<double>(s.now.active);
  r.binary = r.report.binary();
  latest_ = std::make_shared<const rendered>(std::move(r));
}

} // namespace gsched_server
