// SPDX-License-Identifier: Apache-2.0
#include "head_of_line/experiment.hpp"

#include <gsched/job/program.hpp>
#include <gsched/sim/device.hpp>

#include <array>
#include <cstddef>
#include <system_error>
#include <vector>

namespace head_of_line {
namespace {

using namespace gsched;

/// Adds up the running time of operations; a job never runs two at once.
struct running_time {
  std::int64_t sum_ns = 0;
  static void started(void* self, time_point at, const sim::operation_mark&) noexcept {
    static_cast<running_time*>(self)->sum_ns -= at.time_since_epoch().count();
  }
  static void ended(void* self, time_point at, const sim::operation_mark&) noexcept {
    static_cast<running_time*>(self)->sum_ns += at.time_since_epoch().count();
  }
};

program job_of(const experiment& e) {
  operation kernel;
  kernel.launch.block = {e.threads, 1, 1};
  kernel.launch.registers_per_thread = 9;
  kernel.expected = from_us(e.kernel_us);
  return {"job", std::vector<operation>(e.kernels, kernel)};
}

segment part_of(const program& p, std::uint32_t job, std::uint32_t first, std::uint32_t last) {
  segment s;
  s.id = segment_id{job};
  s.owner = job_id{job};
  s.lane = lane_id{job};
  s.how = submission::launches;
  s.program = p.id();
  s.first = first;
  s.operations = p.range(first, last);
  return s;
}

void submit(sim::device& d, const segment& s) {
  if (const std::error_code e = d.submit(s)) throw error(errc::device_failed, e.message());
}

using progress = std::function<void(std::uint64_t)>;

void job_by_job(sim::device& d, const program& p, const experiment& e, const progress& ended) {
  for (std::uint32_t j = 0; j < e.jobs; ++j) submit(d, part_of(p, j, 0, e.kernels));
  std::array<device_event, 16> events;
  for (std::size_t left = e.jobs; left > 0; left -= d.poll(events)) {
    ended(e.jobs - left);
    d.wait(no_deadline);
  }
}

void interleaved(sim::device& d, const program& p, const experiment& e, const progress& ended) {
  std::vector<std::uint32_t> done(e.jobs);
  std::uint32_t fresh = 0;
  for (std::uint32_t left = e.jobs; left > 0;) {
    std::array<device_event, 1> event;
    if (d.poll(event) == 1) { // an end: what it held back goes first
      const auto j = static_cast<std::uint32_t>(index(event[0].segment));
      if (++done[j] == e.kernels)
        ended(e.jobs - --left);
      else
        submit(d, part_of(p, j, done[j], done[j] + 1));
    } else if (fresh < e.jobs) {
      submit(d, part_of(p, fresh, 0, 1));
      ++fresh;
    } else {
      d.wait(no_deadline);
    }
  }
}

} // namespace

double jobs_at_once(sim::preset device, const experiment& e, std::uint32_t queues, order how,
                    const std::function<void(std::uint64_t)>& done) {
  device.hardware_queues = queues;
  running_time ran;
  sim::device d(device, {}, {&ran, running_time::started, running_time::ended, nullptr});
  program p = job_of(e);
  d.load(p);
  for (std::uint32_t j = 0; j < e.jobs; ++j) static_cast<void>(d.open_lane({}));
  (how == order::job_by_job ? job_by_job : interleaved)(d, p, e, done);
  return static_cast<double>(ran.sum_ns) / static_cast<double>(d.busy_time().count());
}

} // namespace head_of_line
