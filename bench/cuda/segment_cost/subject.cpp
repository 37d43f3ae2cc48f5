// SPDX-License-Identifier: Apache-2.0
#include "segment_cost/subject.hpp"

#include <gsched/core/error.hpp>

#include <array>
#include <system_error>

namespace segment_cost {

using namespace gsched;
using experiment::seconds_now;

subject::subject(const profile& model, const subject_options& how)
    : how_(how), program_(cuda::make_stand_in(model)), device_(device_how(how)),
      account_(device_.limits().sm, device_.limits().sms), body_{&program_.host()},
      scheduler_(device_, order_, account_, hears_, dispatch_how(how)) {
  scheduler_.load(program_.host());
  model_ = scheduler_.add_model(model.full_name(), body_, &program_.host());
  client_ = &scheduler_.add_client();
  lane_ = device_.open_lane({});
}

cuda::device_options subject::device_how(const subject_options& how) {
  cuda::device_options o;
  o.gpu = how.gpu;
  o.grain = from_us(how.target_us);
  o.levels = 1;
  o.whole = how.whole;
  o.time_driver = true;
  return o;
}

dispatch_options subject::dispatch_how(const subject_options& how) {
  dispatch_options o;
  o.quantum = o.most_quantum = from_us(how.target_us);
  o.low_mark = from_us(1.2 * how.target_us);
  o.high_mark = from_us(2 * how.target_us);
  o.lanes = 1;
  return o;
}

void subject::submit(std::size_t first, std::size_t last) {
  const program& p = program_.host();
  segment s;
  s.id = segment_id{next_id_++};
  s.lane = lane_;
  s.program = p.id();
  s.first = static_cast<std::uint32_t>(first);
  s.operations = p.range(first, last);
  if (const std::error_code e = device_.submit(s)) throw std::system_error(e, p.name());
}

std::size_t subject::poll() {
  std::array<device_event, 16> events;
  const std::size_t n = device_.poll(events);
  for (std::size_t i = 0; i < n; ++i)
    if (events[i].what != device_event::kind::segment_done)
      throw error(errc::device_failed, device_.failure().value_or("a segment failed"));
  return n;
}

double subject::replay(std::size_t in_flight) {
  const auto ends = program_.host().grain_ends();
  const double start = seconds_now();
  std::size_t submitted = 0;
  std::size_t ended = 0;
  while (ended < segments()) {
    for (; submitted < segments() && submitted - ended < in_flight; ++submitted)
      submit(ends[submitted], ends[submitted + 1]);
    ended += poll();
  }
  return 1e6 * (seconds_now() - start);
}

double subject::replay_whole() {
  const double start = seconds_now();
  submit(0, operations());
  while (poll() == 0) {
  }
  return 1e6 * (seconds_now() - start);
}

double subject::dispatch() {
  const std::uint64_t driver_before = device_.statistics().driver_ns;
  hears_.ended = false;
  job_request r;
  r.model = model_;
  r.owner = client_;
  const double start = seconds_now();
  r.arrival = device_.now();
  scheduler_.submit(r);
  double now = seconds_now();
  busy_s_ += now - start;
  while (!hears_.ended) {
    const double before = now;
    const bool moved = scheduler_.step();
    now = seconds_now();
    if (moved) busy_s_ += now - before;
  }
  driver_ns_ += device_.statistics().driver_ns - driver_before;
  if (!hears_.good) throw error(errc::device_failed, device_.failure().value_or("a job failed"));
  return 1e6 * (now - start);
}

double subject::dispatcher_us() const {
  const auto n = static_cast<double>(scheduler_.statistics().segments);
  return n > 0 ? (1e6 * busy_s_ - 1e-3 * static_cast<double>(driver_ns_)) / n : 0;
}

double subject::driver_us() const {
  const auto n = static_cast<double>(scheduler_.statistics().segments);
  return n > 0 ? 1e-3 * static_cast<double>(driver_ns_) / n : 0;
}

} // namespace segment_cost
