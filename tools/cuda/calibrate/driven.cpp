// SPDX-License-Identifier: Apache-2.0
#include "calibrate/driven.hpp"

#include "calibrate/rig.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>

#include <array>
#include <chrono>

namespace calibrate {

using namespace gsched;

cuda::program make_program(const std::string& name, std::span<const node> nodes, double us) {
  const CUgraph graph = make_chain(nodes);
  cuda::program_options how;
  how.name = name;
  how.durations.assign(nodes.size(), from_us(us));
  try {
    cuda::program p(graph, how);
    cuda::driver().cuGraphDestroy(graph);
    return p;
  } catch (...) {
    cuda::driver().cuGraphDestroy(graph);
    throw;
  }
}

cuda::device_options options_for(const cuda::gpu& which, double piece_us) {
  cuda::device_options o;
  o.gpu = which.ordinal;
  o.max_segments = 64;
  o.ring_slots = 1024;
  o.grain = from_us(piece_us);
  o.levels = 1;
  return o;
}

driven::driven(const cuda::device_options& how) : device_(how) {
  const double begin = now_us();
  for (int i = 0; i < 1000; ++i) static_cast<void>(now_us());
  clock_us_ = (now_us() - begin) / 1000;
}

template <class Call>
double driven::timed(Call call) {
  const double begin = now_us();
  call();
  return now_us() - begin - clock_us_;
}

double driven::submit(lane_id on, cuda::program& p, std::size_t first, std::size_t last) {
  gsched::program& host = p.host();
  segment s;
  s.id = segment_id{++submitted_};
  s.lane = on;
  s.program = host.id();
  s.first = static_cast<std::uint32_t>(first);
  s.operations = host.range(first, last);
  std::error_code e;
  const double took = timed([&] { e = device_.submit(s); });
  if (e) throw error(errc::device_failed, "submitting " + host.name() + ": " + e.message());
  ++in_flight_;
  return took;
}

double driven::yield(lane_id lane) {
  return timed([&] { device_.yield(lane); });
}
double driven::resume(lane_id lane) {
  return timed([&] { device_.resume(lane); });
}

std::optional<driven::seen> driven::poll() {
  std::array<device_event, 1> out{};
  seen s;
  s.at = now_us();
  if (device_.poll(out) == 0) return std::nullopt;
  s.took = now_us() - s.at - clock_us_;
  s.event = out[0];
  using kind = device_event::kind;
  if (s.event.what == kind::segment_failed)
    throw error(errc::device_failed, "polling: " + device_.failure().value_or("a segment failed"));
  if (s.event.what == kind::segment_done || s.event.what == kind::segment_preempted) --in_flight_;
  return s;
}

driven::seen driven::next() {
  for (;;)
    if (const auto s = poll()) return *s;
}

driven::seen driven::next(device_event::kind what) {
  for (;;)
    if (const seen s = next(); s.event.what == what) return s;
}

void driven::drain() {
  while (in_flight_ > 0) static_cast<void>(next());
}

void driven::pass(double us) {
  const double until = now_us() + us;
  while (in_flight_ > 0 && now_us() < until) static_cast<void>(poll());
}

} // namespace calibrate
