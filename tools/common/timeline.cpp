// SPDX-License-Identifier: Apache-2.0
#include "common/timeline.hpp"

#include "common/save.hpp"

#include <algorithm>
#include <iostream>

namespace common {

using namespace gsched;

namespace {
/// SM occupancy changes with every wave; a sample now and then shows a person as much.
constexpr duration sample_every = std::chrono::microseconds{100};
} // namespace

timeline::timeline(const std::vector<std::string>& models, std::size_t runs, std::size_t events)
    : recorder_(events), runs_left_(runs) {
  for (const std::string& m : models) {
    requests_.push_back(recorder_.add_label(m, "job"));
    segments_.push_back(recorder_.add_label(m, "job", "segment"));
  }
  decision_ = recorder_.add_label("pick", "job", "expected_ns");
  busy_sms_ = recorder_.add_label("busy SMs");
  yielding_ = recorder_.add_label("makes way");
  held_ = recorder_.add_label("held");
  resuming_ = recorder_.add_label("resumes");
}

void timeline::begin_run(const std::string& name) {
  run_ = name;
  const std::size_t left = recorder_.capacity() - recorder_.size();
  recorder_.limit(recorder_.size() + left / std::max<std::size_t>(runs_left_, 1));
  if (runs_left_ > 0) --runs_left_;
  dropped_before_ = recorder_.dropped();
  real_time_.reset();
  jobs_ = recorder_.add_track(name, "requests");
  decisions_ = recorder_.add_track(name, "decisions");
  sms_ = recorder_.add_track(name, "SMs");
  holds_.clear();
  lanes_.clear();
  model_of_.clear();
  flights_.clear();
  sampled_ = {};
}

void timeline::arrived(const job& j, std::uint32_t model) noexcept {
  model_of_[j.id] = model;
  const bool first = j.service == service_class::real_time;
  if (first && !real_time_) real_time_ = recorder_.add_track(run_, "real-time requests");
  recorder_.begin(first ? *real_time_ : jobs_, requests_[model], j.arrival, index(j.id));
}

void timeline::decided(const job& j, const segment&, duration expected, time_point now) noexcept {
  recorder_.instant(decisions_, decision_, now, index(j.id),
                    static_cast<std::uint64_t>(expected.count()));
}

void timeline::ended(const job& j, std::uint32_t model, time_point now) noexcept {
  recorder_.end(j.service == service_class::real_time ? *real_time_ : jobs_, requests_[model], now,
                index(j.id));
}

timeline::lane_state& timeline::lane_of(lane_id id) {
  const auto at = lanes_.find(id);
  if (at != lanes_.end()) return at->second;
  lane_state& l = lanes_[id];
  l.track = recorder_.add_track(run_, "lane " + std::to_string(index(id)));
  return l;
}

void timeline::close(lane_state& l) {
  if (!l.open) return;
  l.open = false;
  recorder_.complete(l.track, segments_[model_of_[l.owner]], l.start, l.end - l.start,
                     index(l.owner), index(l.segment));
}

void timeline::started(time_point at, const sim::operation_mark& m) {
  lane_state& l = lane_of(m.lane);
  if (l.open && l.segment == m.segment) return;
  close(l);
  l.segment = m.segment;
  l.owner = m.owner;
  l.start = l.end = at;
  l.open = true;
}

void timeline::occupied(time_point at, sm_count sms) {
  if (at < sampled_ && sms.count() != 0) return;
  sampled_ = at + sample_every;
  recorder_.counter(sms_, busy_sms_, at, sms.count());
}

void timeline::submitted(const job& j, const segment& s, time_point now) noexcept {
  flights_[s.id] = {s.lane, j.id, now};
}

void timeline::landed(segment_id id, time_point now) noexcept {
  const auto at = flights_.find(id);
  if (at == flights_.end()) return;
  const flight f = at->second;
  flights_.erase(at);
  lane_state& l = lane_of(f.lane);
  const time_point start = std::max(f.submitted, l.end);
  l.end = now;
  recorder_.complete(l.track, segments_[model_of_[f.owner]], start, now - start, index(f.owner),
                     index(id));
}

void timeline::yields(lane_id lane) {
  holds_[lane].track = recorder_.add_track(run_, "lane " + std::to_string(index(lane)) + ", held");
}

void timeline::yielding(lane_id lane, time_point now) noexcept { holds_[lane].since = now; }

void timeline::held_until(lane_id lane, trace::label_id what, time_point now) noexcept {
  hold& h = holds_[lane];
  recorder_.complete(h.track, what, h.since, now - h.since);
  h.since = now;
}

void timeline::yielded(lane_id lane, time_point now) noexcept { held_until(lane, yielding_, now); }
void timeline::resuming(lane_id lane, time_point now) noexcept { held_until(lane, held_, now); }
void timeline::resumed(lane_id lane, time_point now) noexcept { held_until(lane, resuming_, now); }

sim::observer timeline::device_observer() noexcept {
  sim::observer o;
  o.self = this;
  o.started = [](void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<timeline*>(self)->started(at, m);
  };
  o.ended = [](void* self, time_point at, const sim::operation_mark& m) noexcept {
    lane_state& l = static_cast<timeline*>(self)->lane_of(m.lane);
    l.end = std::max(l.end, at);
  };
  o.occupied = [](void* self, time_point at, sm_count sms) noexcept {
    static_cast<timeline*>(self)->occupied(at, sms);
  };
  return o;
}

void timeline::end_run() {
  for (auto& [id, l] : lanes_) close(l);
  if (const std::uint64_t n = recorder_.dropped() - dropped_before_; n > 0)
    losses_.push_back({run_, n});
}

void timeline::save(const std::string& program, const std::filesystem::path& file) const {
  common::save(file, [&](std::ostream& out) { recorder_.write(out); });
  if (losses_.empty()) return;
  std::cerr << program << ": " << file.string() << ": left out";
  const char* separator = " ";
  for (const loss& l : losses_) {
    std::cerr << separator << "the last " << l.events << " events of " << l.run;
    separator = ", ";
  }
  std::cerr << ", as the file takes " << recorder_.capacity() << " in all\n";
}

} // namespace common
