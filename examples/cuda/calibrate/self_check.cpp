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

/// The experiments on a simulated GPU, where what is behind the figures is known.
class simulated {
public:
  explicit simulated(const sim::preset& p) : preset_(p) {}

  /// Host time of a submission, and time until its end can be polled, of a graph of n kernels.
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

  /// Of each kernel more, in segments of `piece`, with a lane that is always ahead.
  [[nodiscard]] double each(std::size_t piece, submission how) const {
    constexpr std::size_t few = 24;
    constexpr std::size_t many = 120;
    return (last_end(many, piece, how) - last_end(few, piece, how)) / (many - few);
  }

private:
  static constexpr double kernel_us = 2;

  [[nodiscard]] static program chain(std::size_t n, double us) {
    operation op;
    op.kind = operation_kind::kernel;
    op.launch.block.x = 32;
    op.launch.registers_per_thread = 16;
    op.expected = from_us(us);
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

  [[nodiscard]] double last_end(std::size_t kernels, std::size_t piece, submission how) const {
    sim::device d(preset_);
    program first = chain(1, 1e5);
    program p = chain(piece == 0 ? kernels : piece, kernel_us);
    d.load(first);
    d.load(p);
    const lane_id lane = d.open_lane({});
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
  s.add("store seen", to_us(p.host.block_notice));
  s.add("end behind store", to_us(p.host.segment_notice - p.host.block_notice));
  return s;
}

} // namespace calibrate
