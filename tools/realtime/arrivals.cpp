// SPDX-License-Identifier: Apache-2.0
#include "realtime/arrivals.hpp"

#include <gsched/core/error.hpp>
#include <gsched/workload/arrivals.hpp>

#include <algorithm>
#include <string>

namespace realtime {

using namespace gsched;

namespace {
duration whole_ns(double ns) { return duration{static_cast<duration::rep>(std::min(ns, 1e18))}; }
} // namespace

client_source::client_source(const arrival_spec& how, double solo_per_s,
                             std::vector<duration> times, std::uint64_t seed)
    : how_(how), times_(std::move(times)), random_(seed) {
  switch (how.law) {
  case arrival_law::uniform:
  case arrival_law::poisson:
    gap_ns_ = 1e9 / (how.load > 0 ? how.load * solo_per_s : how.rate);
    if (how.law == arrival_law::uniform) at_ns_ = (draw_uniform(random_) - 1) * gap_ns_; // a phase
    break;
  case arrival_law::closed:
    for (std::uint32_t i = 0; i < how.under_way; ++i) ready_.emplace_back(think());
    std::sort(ready_.begin(), ready_.end());
    break;
  case arrival_law::trace: break;
  }
  advance();
}

duration client_source::think() {
  return how_.exponential
             ? whole_ns(draw_exponential(random_) * static_cast<double>(how_.think.count()))
             : how_.think;
}

std::optional<time_point> client_source::from_trace() const {
  if (times_.empty() || (how_.repeat == duration::zero() && taken_ >= times_.size()))
    return std::nullopt;
  const auto round = static_cast<double>(taken_ / times_.size());
  const double at = static_cast<double>(times_[taken_ % times_.size()].count()) +
                    round * static_cast<double>(how_.repeat.count());
  return time_point{whole_ns(at / how_.speedup)};
}

void client_source::advance() {
  switch (how_.law) {
  case arrival_law::uniform:
  case arrival_law::poisson:
    at_ns_ += how_.law == arrival_law::uniform ? gap_ns_ : draw_exponential(random_) * gap_ns_;
    due_ = time_point{whole_ns(at_ns_)};
    return;
  case arrival_law::closed:
    due_ = ready_.empty() ? std::nullopt : std::optional(ready_.front());
    return;
  case arrival_law::trace: due_ = from_trace(); return;
  }
}

void client_source::take() {
  ++taken_;
  if (!ready_.empty()) ready_.pop_front();
  advance();
}

void client_source::on_reply(time_point now) {
  if (how_.law != arrival_law::closed) return;
  const time_point at = saturating_add(now, think());
  ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), at), at);
  advance();
}

namespace {

std::vector<std::string> names_of(const workload& of) {
  std::vector<std::string> names;
  for (const client_spec& c : of.clients) names.push_back(c.name);
  return names;
}

std::vector<std::vector<duration>> times_of(trace_arrivals lines, const std::string& name,
                                            const workload& of,
                                            const std::vector<std::uint32_t>& asking) {
  std::vector<std::vector<duration>> times(of.clients.size());
  while (const std::optional<arrival> r = lines.next())
    times[r->model].push_back(r->at.time_since_epoch());
  for (const std::uint32_t i : asking)
    if (times[i].empty())
      throw error(errc::bad_trace, name + ": no request of " + of.clients[i].name +
                                       ", expected lines of time_us,client");
  return times;
}

} // namespace

std::vector<std::vector<duration>> read_times(const std::filesystem::path& file, const workload& of,
                                              const std::vector<std::uint32_t>& asking) {
  return times_of({file.string(), names_of(of), 1}, file.string(), of, asking);
}

std::vector<std::vector<duration>> read_times(std::unique_ptr<std::istream> text,
                                              const std::string& name, const workload& of,
                                              const std::vector<std::uint32_t>& asking) {
  return times_of({std::move(text), name, names_of(of), 1}, name, of, asking);
}

} // namespace realtime
