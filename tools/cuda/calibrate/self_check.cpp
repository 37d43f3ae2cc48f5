// SPDX-License-Identifier: Apache-2.0
#include "calibrate/self_check.hpp"

#include <gsched/job/program.hpp>
#include <gsched/sim/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace calibrate {

namespace {

using namespace gsched;

/// The experiments on a simulated GPU, whose true costs are known.
class simulated {
public:
  static constexpr double kernel_us = 2;

  explicit simulated(const sim::preset& p) : preset_(p) {}

  /// Host time of a submission, and time until its end can be polled, for a graph of n kernels.
  struct alone {
    double submit = 0;
    double end = 0;
  };
  [[nodiscard]] alone one(std::size_t n) const {
    sim::device d(preset_);
    program p = chain(n, kernel_us);
    d.load(p);
    const lane_id lane = d.open_lane({});
    submit(d, p, lane, 1, submission::graph);
    alone a;
    a.submit = to_us(d.now().time_since_epoch());
    d.wait(no_deadline);
    a.end = to_us(d.now().time_since_epoch());
    return a;
  }

  /// What one gate adds from kernel to kernel, on a lane that yields.
  [[nodiscard]] double gate() const {
    const double more = each(0, submission::graph, true) - each(0, submission::graph);
    return more * preset_.yields.gate_every;
  }

  /// Host time of a yield, and times at which the host sees its effect and that of the resume.
  struct turn {
    double call = 0;
    double yielded = 0;
    double resumed = 0;
  };
  /// In a chain, at the fraction `after` of the way from gate to gate.
  [[nodiscard]] turn held(double after) const {
    sim::device d(preset_);
    program p = chain(100, kernel_us);
    d.load(p);
    const lane_id lane = d.open_lane({0, {}, true});
    submit(d, p, lane, 1, submission::graph);
    d.wait(d.now() + from_us(60 + after * gate_to_gate()));
    return turn_of(d, lane, device_event::kind::lane_yielded);
  }
  /// The time from gate to gate.
  [[nodiscard]] double gate_to_gate() const {
    return each(0, submission::graph, true) * preset_.yields.gate_every;
  }
  /// The first of n kernels runs, and all of them are preempted.
  [[nodiscard]] turn left(std::size_t n) const {
    sim::device d(preset_);
    program p = chain(n, 1e5, preemptibility::at_checkpoints);
    d.load(p);
    const lane_id lane = d.open_lane({0, {}, true});
    submit(d, p, lane, 1, submission::graph);
    d.wait(d.now() + from_us(1000));
    return turn_of(d, lane, device_event::kind::segment_preempted);
  }

  /// The time of each additional kernel, in segments of `piece`, with a lane that is always ahead.
  [[nodiscard]] double each(std::size_t piece, submission how, bool yields = false) const {
    constexpr std::size_t few = 24;
    constexpr std::size_t many = 120;
    return (last_end(many, piece, how, yields) - last_end(few, piece, how, yields)) / (many - few);
  }

private:
  [[nodiscard]] static turn turn_of(sim::device& d, lane_id lane, device_event::kind first) {
    turn t;
    double from = to_us(d.now().time_since_epoch());
    d.yield(lane);
    t.call = to_us(d.now().time_since_epoch()) - from;
    t.yielded = until(d, first) - from;
    from = to_us(d.now().time_since_epoch());
    d.resume(lane);
    t.resumed = until(d, device_event::kind::lane_resumed) - from;
    return t;
  }
  /// The time at which the host can see the end.
  [[nodiscard]] static double until(sim::device& d, device_event::kind what) {
    std::array<device_event, 1> out{};
    for (;;) {
      d.wait(no_deadline);
      const double at = to_us(d.now().time_since_epoch());
      if (d.poll(out) == 0)
        throw error(errc::device_failed, "simulated lane: says nothing, expected an event");
      if (out[0].what == what) return at;
    }
  }

  [[nodiscard]] static program chain(std::size_t n, double us,
                                     preemptibility how = preemptibility::never) {
    operation op;
    op.kind = operation_kind::kernel;
    op.launch.block.x = 32;
    op.launch.registers_per_thread = 16;
    op.expected = from_us(us);
    op.preemptible = how;
    op.checkpoint = duration{2};
    return {"chain", std::vector<operation>(n, op)};
  }

  static void submit(sim::device& d, const program& p, lane_id lane, std::uint64_t id,
                     submission how) {
    segment s;
    s.id = segment_id{id};
    s.lane = lane;
    s.how = how;
    s.program = p.id();
    s.operations = p.range(0, p.size());
    if (const std::error_code e = d.submit(s)) throw error(errc::device_failed, e.message());
  }

  [[nodiscard]] double last_end(std::size_t kernels, std::size_t piece, submission how,
                                bool yields) const {
    sim::device d(preset_);
    program first = chain(1, 1e5);
    program p = chain(piece == 0 ? kernels : piece, kernel_us);
    d.load(first);
    d.load(p);
    const lane_id lane = d.open_lane({0, {}, yields});
    std::uint64_t submitted = 1;
    submit(d, first, lane, submitted, submission::graph);
    for (std::size_t i = 0; i < kernels; i += p.size()) submit(d, p, lane, ++submitted, how);
    time_point last{};
    std::array<device_event, 1> out{};
    for (std::uint64_t seen = 0; seen < submitted; seen += d.poll(out)) {
      d.wait(no_deadline);
      last = d.now();
    }
    return to_us(last.time_since_epoch());
  }

  sim::preset preset_;
};

} // namespace

samples measure_simulated(const sim::preset& p) {
  const simulated on(p);
  const std::array<double, 4> n{1, 10, 40, 160};
  std::array<double, 4> submits{};
  std::array<double, 4> ends{};
  for (std::size_t i = 0; i < n.size(); ++i) {
    const simulated::alone a = on.one(static_cast<std::size_t>(n[i]));
    submits[i] = a.submit;
    ends[i] = a.end;
  }
  constexpr std::size_t piece = 8;
  const double in_graph = on.each(0, submission::graph);
  const line_fit submit = fit(n, submits);
  const line_fit end = fit(n, ends);
  samples s;
  s.add("submit graph", submit.at_zero);
  s.add("submit operation", submit.slope);
  s.add("end graph", end.at_zero);
  s.add("end operation", end.slope);
  s.add("in graph", in_graph);
  s.add("cut", (on.each(piece, submission::graph) - in_graph) * piece);
  s.add("launch after launch", on.each(0, submission::launches));
  s.add("store seen", to_us(p.host.block_notification));
  s.add("end behind store", to_us(p.host.segment_notification - p.host.block_notification));
  s.add("gate", on.gate());
  const double way = on.gate_to_gate();
  const double gap = to_us(p.laws.graph.gap);
  constexpr int parts = 1000;
  double stands = 0;
  // The next gate checks its order when the kernel beside it starts. The lane has stopped when that
  // kernel has ended, or after its time if no other gate is closed.
  const double beside = p.yields.gate_every == 1 ? in_graph - gap : simulated::kernel_us;
  const double mean_way = way / 2 + beside;
  for (int i = 0; i < parts; ++i) {
    const simulated::turn t = on.held((i + 0.5) / parts);
    s.add("hold", t.call);
    stands += (t.yielded - mean_way) / parts;
    s.add("gate left", t.resumed - gap);
  }
  s.add("gate seen", stands);
  const std::array<double, 3> behind{0, 49, 199};
  std::array<double, 3> gone{};
  for (std::size_t i = 0; i < behind.size(); ++i) {
    const simulated::turn t = on.left(static_cast<std::size_t>(behind[i]) + 1);
    s.add("flag", t.call);
    gone[i] = t.yielded;
  }
  const line_fit leave = fit(behind, gone);
  s.add("flag obeyed", leave.at_zero);
  s.add("pass", leave.slope);
  return s;
}

} // namespace calibrate
