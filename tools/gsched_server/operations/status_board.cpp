// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/status_board.hpp"

#include <gsched/core/time.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

namespace gsched_server {

namespace {

using status_json = nlohmann::ordered_json;
using gsched::to_s;
using gsched::to_us;

constexpr std::size_t events_looked_at = 2048, most_decisions = 24;

/// Three digits are enough for a display.
double rounded(double v) noexcept { return std::round(v * 1000) / 1000; }

std::string time_of_day(std::int64_t before_now_ns) {
  const auto at = std::chrono::system_clock::now() - std::chrono::nanoseconds(before_now_ns);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
  const std::time_t s = ms / 1000;
  std::tm parts{};
  ::gmtime_r(&s, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     ms % 1000);
}

/// The word for an event that a display shows; empty for others.
std::string_view decision_of(const activity_event& e) noexcept {
  using kind = activity_event::kind;
  switch (e.what) {
  case kind::submitted: return e.first ? "started" : "";
  case kind::ended: return to_string(e.how);
  case kind::preempting: return "preempts best effort";
  case kind::restored: return "resumes best effort";
  default: return {};
  }
}

/// The last ones of all devices, newest first.
status_json decisions_of(const std::vector<traced_device>& all) {
  struct one {
    const traced_device* on;
    std::size_t number; ///< of the device
    const activity_event* e;
    std::string_view what;
  };
  std::vector<one> found;
  for (std::size_t place = 0; place < all.size(); ++place) {
    const traced_device& d = all[place];
    std::size_t of_this = 0;
    for (std::size_t i = d.events.size(); i-- > 0 && of_this < most_decisions;)
      if (const std::string_view what = decision_of(d.events[i]); !what.empty()) {
        found.push_back({&d, place, &d.events[i], what});
        ++of_this;
      }
  }
  std::ranges::sort(found, [](const one& a, const one& b) { return a.e->at_ns > b.e->at_ns; });
  if (found.size() > most_decisions) found.resize(most_decisions);
  const std::int64_t now =
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  status_json list = status_json::array();
  for (const one& o : found) {
    status_json j{{"at", time_of_day(now - o.e->at_ns)}, {"what", o.what}, {"device", o.number}};
    const bool of_request =
        o.e->what == activity_event::kind::submitted || o.e->what == activity_event::kind::ended;
    if (of_request) {
      j["model"] = o.on->known.model(o.e->model);
      j["tenant"] = o.on->known.client(o.e->client);
      j["number"] = o.e->request;
    }
    list.push_back(std::move(j));
  }
  return list;
}

status_json latencies_of(const std::vector<request_metrics::row>& rows) {
  status_json list = status_json::array();
  for (const request_metrics::row& r : rows) {
    std::uint64_t all = 0;
    for (const std::uint64_t n : r.by_end) all += n;
    const std::uint64_t ok = r.by_end[static_cast<std::size_t>(outcome::ok)];
    list.push_back({{"model", r.model},
                    {"tenant", r.tenant},
                    {"ok", ok},
                    {"otherwise", all - ok},
                    {"recent", r.latency.count},
                    {"p50_us", rounded(to_us(r.latency.p50))},
                    {"p99_us", rounded(to_us(r.latency.p99))},
                    {"wait_p50_us", rounded(to_us(r.waited.p50))},
                    {"wait_p99_us", rounded(to_us(r.waited.p99))}});
  }
  return list;
}

} // namespace

status_board::status_board(std::function<observation(std::size_t)> look,
                           std::uint32_t most_watchers)
    : look_(std::move(look)), most_watchers_(most_watchers) {}

std::shared_ptr<const status_board::snapshot> status_board::latest() {
  const std::lock_guard lock(mutex_);
  const clock::time_point now = clock::now();
  // A little early, as those that watch do not ask at the same time.
  if (latest_ != nullptr && now - made_ < period * 4 / 5) return latest_;
  observation seen = look_(events_looked_at);
  auto next = std::make_shared<snapshot>();
  next->serial = ++serial_;
  next->json = render(seen, now);
  before_ = {now, seen.ended, std::move(seen.devices)};
  made_ = now;
  latest_ = std::move(next);
  return latest_;
}

std::string status_board::render(const observation& now, clock::time_point at) const {
  const double passed = std::chrono::duration<double>(at - before_.at).count();
  const bool has_rates = before_.at != clock::time_point{} && passed < 10 &&
                         before_.devices.size() == now.devices.size();
  const auto rate = [&](double to, double from) -> status_json {
    if (!has_rates) return nullptr; // nothing watched before
    return rounded(std::max(0.0, to - from) / passed);
  };
  status_json devices = status_json::array();
  for (std::size_t i = 0; i < now.devices.size(); ++i) {
    const device_figures& d = now.devices[i];
    static const gsched::server_statistics none{};
    const gsched::server_statistics& to = d.counted ? *d.counted : none;
    const bool both = has_rates && d.counted && before_.devices[i].counted;
    const gsched::server_statistics& from = both ? *before_.devices[i].counted : to;
    const std::uint64_t preemptions = to.preemption.preemptions.count;
    devices.push_back(
        {{"device", d.number},
         {"name", d.name},
         {"failed", d.now.failed},
         {"requests", d.now.active},
         {"waiting", d.now.waiting},
         {"queued_us", rounded(to_us(d.now.queued))},
         {"busy", rate(to_s(to.use.busy), to_s(from.use.busy))},
         {"sms", to.sms},
         {"sms_in_use", rate(to.sm_seconds, from.sm_seconds)},
         {"lanes", to.use.lanes},
         {"lanes_in_use", rate(to_s(to.use.lane_time), to_s(from.use.lane_time))},
         {"segments_per_s", rate(static_cast<double>(to.requests.segments),
                                 static_cast<double>(from.requests.segments))},
         {"preemptions", preemptions},
         {"preemptions_per_s", rate(static_cast<double>(preemptions),
                                    static_cast<double>(from.preemption.preemptions.count))}});
  }
  status_json refusals = status_json::object();
  for (const request_metrics::refusals& r : now.refusals) refusals[std::string(r.reason)] = r.count;
  const status_json all{
      {"serial", serial_},
      {"at", time_of_day(0)},
      {"policy", now.policy},
      {"state", now.load.failed  ? "failed"
                : now.load.ready ? "ready"
                                 : "drains"},
      {"requests",
       {{"active", now.load.active},
        {"limit", now.load.most},
        {"ended", now.ended.all},
        {"failed", now.ended.failed},
        {"per_s", rate(static_cast<double>(now.ended.all), static_cast<double>(before_.ended.all))},
        {"failed_per_s",
         rate(static_cast<double>(now.ended.failed), static_cast<double>(before_.ended.failed))}}},
      {"devices", std::move(devices)},
      {"window_s", recent_times::seconds},
      {"latency", latencies_of(now.rows)},
      {"refusals", std::move(refusals)},
      {"decisions", decisions_of(now.recent)}};
  return all.dump(-1, ' ', true, status_json::error_handler_t::replace);
}

bool status_board::stream(const std::function<bool(std::string_view)>& write,
                          const std::function<bool(std::chrono::milliseconds)>& wait) {
  if (watchers_.fetch_add(1, std::memory_order_relaxed) >= most_watchers_) {
    watchers_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  const struct leave {
    std::atomic<std::uint32_t>& of;
    ~leave() { of.fetch_sub(1, std::memory_order_relaxed); }
  } leaves{watchers_};
  if (!write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
             "Connection: close\r\nX-Accel-Buffering: no\r\n\r\nretry: 1000\n\n"))
    return true;
  do {
    const std::shared_ptr<const snapshot> now = latest();
    if (!write(fmt::format("id: {}\ndata: {}\n\n", now->serial, now->json))) break;
  } while (wait(period));
  return true;
}

void status_board::write(metrics_text& out) const {
  out.metric("gsched_watchers", "gauge", "Displays that watch the server.");
  out.sample("", "", watchers_.load(std::memory_order_relaxed));
}

} // namespace gsched_server
