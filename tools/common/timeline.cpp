// SPDX-License-Identifier: Apache-2.0
#include "common/timeline.hpp"

#include "common/report/save.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

namespace common {

using namespace gsched;

namespace {
/// A lane that idles longer than that is drawn as idle.
constexpr duration most_gap = std::chrono::microseconds{20};
} // namespace

template <class F>
void timeline::sampled_counter::each(F f) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const time_point from = *begin_ + static_cast<duration::rep>(i) * interval_;
    const duration length = std::min(interval_, last_ - from);
    if (length > duration::zero()) f(from, sums_[i] / static_cast<double>(length.count()));
  }
}

void timeline::sampled_counter::set(time_point at, double value) {
  if (!begin_) begin_ = last_ = at;
  advance(at);
  value_ = value;
}

void timeline::sampled_counter::advance(time_point to) {
  while (to - *begin_ > interval_ * static_cast<duration::rep>(most_samples)) {
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i / 2] = (i % 2 ? sums_[i / 2] : 0) + sums_[i];
    sums_.resize((sums_.size() + 1) / 2);
    interval_ *= 2;
  }
  while (last_ < to) {
    const auto i = static_cast<std::size_t>((last_ - *begin_) / interval_);
    const time_point next = std::min(to, *begin_ + static_cast<duration::rep>(i + 1) * interval_);
    if (sums_.size() <= i) sums_.resize(i + 1);
    sums_[i] += value_ * static_cast<double>((next - last_).count());
    last_ = next;
  }
}

timeline::timeline(const std::vector<std::string>& models, std::size_t runs, std::size_t events,
                   std::size_t bytes)
    : recorder_(events), bytes_(bytes), runs_left_(runs) {
  for (const std::string& m : models) {
    requests_.push_back(recorder_.add_label(m, "client"));
    timed_.push_back(recorder_.add_label(m, "client", "deadline_us"));
    slices_.push_back(recorder_.add_label(m, "job", "segments"));
  }
  busy_sms_ = recorder_.add_label("busy SMs");
  yielding_ = recorder_.add_label("leaving");
  yielded_ = recorder_.add_label("preempted");
  resuming_ = recorder_.add_label("resuming");
  finished_ = recorder_.add_label("finished");
  missed_ = recorder_.add_label("missed");
  rejected_ = recorder_.add_label("rejected");
  cancelled_ = recorder_.add_label("cancelled");
  failed_ = recorder_.add_label("failed");
}

void timeline::begin_run(const std::string& name) {
  run_ = name;
  const std::size_t left = recorder_.capacity() - recorder_.size();
  recorder_.limit(recorder_.size() + left / std::max<std::size_t>(runs_left_, 1));
  if (runs_left_ > 0) --runs_left_;
  dropped_before_ = recorder_.dropped();
  real_time_.reset();
  shared_.reset();
  shares_track_ = false;
  jobs_ = recorder_.add_track(name, "requests");
  sms_ = recorder_.add_track(name, "SMs");
  preemptions_.clear();
  lanes_.clear();
  model_of_.clear();
  flights_.clear();
  busy_.clear();
}

trace::track_id timeline::requests_of(const job& j) const noexcept {
  return j.service == service_class::real_time && real_time_ ? *real_time_ : jobs_;
}

trace::label_id timeline::label_of(const job& j, std::uint32_t model) const noexcept {
  return j.deadline == no_deadline ? requests_[model] : timed_[model];
}

void timeline::arrived(const job& j, std::uint32_t model) noexcept {
  model_of_[j.id] = model;
  if (j.service == service_class::real_time && !real_time_)
    real_time_ = recorder_.add_track(run_, "real-time requests");
  const std::uint64_t client = j.owner != nullptr ? index(j.owner->id) : 0;
  const auto deadline = static_cast<std::uint64_t>(
      std::max(duration::rep{0}, (j.deadline - j.arrival) / std::chrono::microseconds{1}));
  recorder_.begin(requests_of(j), label_of(j, model), j.arrival, index(j.id), client, deadline);
}

void timeline::ended(const job& j, std::uint32_t model, time_point now) noexcept {
  model_of_.erase(j.id);
  const trace::label_id how = j.state == job_state::rejected    ? rejected_
                              : j.state == job_state::cancelled ? cancelled_
                              : j.state == job_state::failed    ? failed_
                              : now > j.deadline                ? missed_
                                                                : finished_;
  recorder_.end(requests_of(j), label_of(j, model), now, index(j.id), how);
}

timeline::lane_state& timeline::lane_of(lane_id id) {
  const auto [at, is_new] = lanes_.try_emplace(id);
  if (!is_new) return at->second;
  if (!shares_track_) {
    at->second.track = recorder_.add_track(run_, "lane " + std::to_string(index(id)));
    return at->second;
  }
  if (!shared_) shared_ = recorder_.add_track(run_, "lanes");
  at->second.track = *shared_;
  return at->second;
}

void timeline::extend(lane_state& l, job_id owner, segment_id segment, time_point start) {
  if (l.segments > 0 && l.owner == owner && start - l.end <= most_gap) {
    ++l.segments;
    l.segment = segment;
    return;
  }
  close(l);
  const auto model = model_of_.find(owner);
  if (model == model_of_.end()) return;
  l.segment = segment;
  l.owner = owner;
  l.model = model->second;
  l.segments = 1;
  l.start = l.end = start;
}

void timeline::close(lane_state& l) {
  if (l.segments == 0) return;
  if (shared_) { // slices of one track do not overlap, but those of its lanes do
    recorder_.begin(l.track, slices_[l.model], l.start, index(l.segment), index(l.owner),
                    l.segments);
    recorder_.end(l.track, slices_[l.model], l.end, index(l.segment));
  } else {
    recorder_.complete(l.track, slices_[l.model], l.start, l.end - l.start, index(l.owner),
                       l.segments);
  }
  l.segments = 0;
}

void timeline::started(time_point at, const sim::operation_mark& m) {
  lane_state& l = lane_of(m.lane);
  if (l.segments == 0 || l.segment != m.segment) extend(l, m.owner, m.segment, at);
}

void timeline::submitted(const job& j, const segment& s, time_point now) noexcept {
  flights_[s.id] = {s.lane, j.id, now};
}

void timeline::completed(segment_id id, time_point now) noexcept {
  const auto at = flights_.find(id);
  if (at == flights_.end()) return;
  const flight f = at->second;
  flights_.erase(at);
  lane_state& l = lane_of(f.lane);
  extend(l, f.owner, id, std::max(f.submitted, l.end));
  l.end = now;
}

void timeline::watch(lane_id lane) {
  preemptions_[lane].track =
      recorder_.add_track(run_, "lane " + std::to_string(index(lane)) + ", preemption");
}

void timeline::yielding(lane_id lane, time_point now) noexcept { preemptions_[lane].since = now; }

void timeline::preempted_until(lane_id lane, trace::label_id what, time_point now) noexcept {
  preemption_track& p = preemptions_[lane];
  recorder_.complete(p.track, what, p.since, now - p.since);
  p.since = now;
}

void timeline::yielded(lane_id lane, time_point now) noexcept {
  preempted_until(lane, yielding_, now);
}
void timeline::resuming(lane_id lane, time_point now) noexcept {
  preempted_until(lane, yielded_, now);
}
void timeline::resumed(lane_id lane, time_point now) noexcept {
  preempted_until(lane, resuming_, now);
}

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
    static_cast<timeline*>(self)->busy_.set(at, static_cast<double>(sms.count()));
  };
  return o;
}

void timeline::end_run() {
  for (auto& [id, l] : lanes_) close(l);
  busy_.each([&](time_point from, double mean) {
    recorder_.counter(sms_, busy_sms_, from, std::round(10 * mean) / 10);
  });
  if (const std::uint64_t n = recorder_.dropped() - dropped_before_; n > 0)
    losses_.push_back({run_, n});
}

void timeline::save(const std::string& program, const std::filesystem::path& file) const {
  std::vector<trace::cut_process> cut;
  common::save(file, [&](std::ostream& out) { cut = recorder_.write(out, bytes_); });
  if (!losses_.empty()) {
    std::cerr << program << ": " << file.string() << ": left out";
    const char* separator = " ";
    for (const loss& l : losses_) {
      std::cerr << std::exchange(separator, ", ") << "the last " << l.events << " events of "
                << l.run;
    }
    std::cerr << ", as the file takes " << recorder_.capacity() << " in all\n";
  }
  if (cut.empty()) return;
  std::uint64_t spans = 0;
  std::cerr << program << ": " << file.string() << ": lanes are complete at first only, for";
  const char* separator = " ";
  for (const trace::cut_process& c : cut) {
    std::cerr << std::exchange(separator, ", ") << c.name;
    spans += c.spans;
  }
  if (spans > 0) std::cerr << ", and " << spans << " requests are left out";
  std::cerr << ", as the file takes " << bytes_ / 1'000'000 << " MB in all\n";
}

} // namespace common
