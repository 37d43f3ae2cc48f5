// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/live_trace.hpp"

#include <gsched/core/time.hpp>
#include <gsched/trace/chrome.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace gsched_server {

namespace {

using gsched::trace::track;

constexpr std::uint32_t preemption_row = 1, first_lane_row = 2, first_tenant_row = 5000;

/// Writes the events of one device, in their order.
class traced_events {
public:
  traced_events(gsched::trace::chrome_writer& w, const traced_device& of, std::uint32_t process,
                std::int64_t origin_ns)
      : w_(w), of_(of), process_(process), origin_ns_(origin_ns), last_ns_(origin_ns) {}

  void write(std::int64_t since_ns) {
    w_.name_process(process_, of_.device);
    name_rows(since_ns);
    for (const activity_event& e : of_.events) {
      if (e.at_ns < since_ns) continue;
      last_ns_ = std::max(last_ns_, e.at_ns);
      take(e);
    }
    finish();
  }

private:
  struct lane {
    std::int64_t free_ns = std::numeric_limits<std::int64_t>::min(); ///< the end of the last one
  };

  [[nodiscard]] gsched::time_point at(std::int64_t ns) const noexcept {
    return gsched::time_point{gsched::duration{std::max<std::int64_t>(ns - origin_ns_, 0)}};
  }
  [[nodiscard]] track row_of(const activity_event& e) const noexcept {
    return {process_, first_tenant_row + e.client};
  }

  void name_rows(std::int64_t since_ns) {
    std::set<std::uint32_t> lanes, clients;
    bool preempts = false;
    for (const activity_event& e : of_.events) {
      if (e.at_ns < since_ns) continue;
      if (e.what == activity_event::kind::submitted) lanes.insert(e.lane);
      const bool both =
          e.what == activity_event::kind::preempting || e.what == activity_event::kind::restored;
      preempts |= both;
      if (!both) clients.insert(e.client);
    }
    if (preempts) w_.name_thread({process_, preemption_row}, "preemption");
    for (const std::uint32_t each : lanes)
      w_.name_thread({process_, first_lane_row + each}, "lane " + std::to_string(each));
    for (const std::uint32_t each : clients)
      w_.name_thread({process_, first_tenant_row + each}, "requests of " + of_.known.client(each));
  }

  void begin(const activity_event& e, std::int64_t from_ns) {
    if (!active_.emplace(e.request, e).second) return;
    w_.begin(row_of(e), "request", of_.known.model(e.model), at(from_ns), e.request);
  }

  void take(const activity_event& e) {
    switch (e.what) {
    case activity_event::kind::arrived: begin(e, e.at_ns); return;
    case activity_event::kind::submitted:
      begin(e, origin_ns_);
      open_.emplace(e.segment, e);
      return;
    case activity_event::kind::segment_ended: {
      begin(e, origin_ns_);
      const auto found = open_.find(e.segment);
      if (found == open_.end()) return;
      slice(found->second, e.at_ns);
      open_.erase(found);
      return;
    }
    case activity_event::kind::ended: {
      begin(e, origin_ns_);
      w_.end(row_of(e), "request", of_.known.model(e.model), at(e.at_ns), e.request,
             {{"end", 0, to_string(e.how)}});
      active_.erase(e.request);
      // What was withdrawn from the device has no end of its own.
      std::erase_if(open_, [&](const auto& s) { return s.second.request == e.request; });
      return;
    }
    case activity_event::kind::preempting: preempts_since_ = e.at_ns; return;
    case activity_event::kind::restored:
      if (preempts_since_) preemption(*preempts_since_, e.at_ns);
      preempts_since_.reset();
      return;
    }
  }

  void slice(const activity_event& e, std::int64_t until_ns) {
    lane& on = lanes_[e.lane];
    const std::int64_t from = std::max(e.at_ns, on.free_ns);
    on.free_ns = std::max(on.free_ns, until_ns);
    w_.complete({process_, first_lane_row + e.lane}, of_.known.model(e.model), at(from),
                gsched::duration{std::max<std::int64_t>(until_ns - from, 0)},
                {{"request", e.request},
                 {"operations", e.operations},
                 {"tenant", 0, of_.known.client(e.client)}});
  }
  void preemption(std::int64_t from, std::int64_t until) {
    w_.complete({process_, preemption_row}, "best effort waits", at(from),
                gsched::duration{until - from});
  }

  /// What has not ended ends with the last event; of each lane, that is the oldest segment.
  void finish() {
    std::map<std::uint32_t, const activity_event*> oldest;
    for (const auto& [id, e] : open_)
      if (const activity_event*& of = oldest[e.lane]; of == nullptr || e.at_ns < of->at_ns) of = &e;
    for (const auto& [id, e] : oldest) slice(*e, last_ns_);
    for (const auto& [id, e] : active_)
      w_.end(row_of(e), "request", of_.known.model(e.model), at(last_ns_), e.request);
    if (preempts_since_) preemption(*preempts_since_, last_ns_);
  }

  gsched::trace::chrome_writer& w_;
  const traced_device& of_;
  std::uint32_t process_;
  std::int64_t origin_ns_, last_ns_;
  std::map<std::uint64_t, activity_event> active_; ///< requests
  std::map<std::uint64_t, activity_event> open_;   ///< segments
  std::map<std::uint32_t, lane> lanes_;
  std::optional<std::int64_t> preempts_since_;
};

} // namespace

void write_trace(std::ostream& out, const std::vector<traced_device>& all, std::int64_t since_ns) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const traced_device& d : all)
    for (const activity_event& e : d.events)
      if (e.at_ns >= since_ns) origin = std::min(origin, e.at_ns);
  gsched::trace::chrome_writer w(out);
  std::uint32_t process = 0;
  for (const traced_device& d : all) traced_events(w, d, ++process, origin).write(since_ns);
}

} // namespace gsched_server
