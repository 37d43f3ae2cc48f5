// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/device_figures.hpp"

#include <gsched/core/time.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace gsched_server {

namespace {

using gsched::to_s;

using counts = gsched::server_statistics;

template <class Of>
struct metric {
  const char* name;
  const char* type;
  const char* help;
  double (*of)(const Of&);
};

constexpr auto number = [](auto n) { return static_cast<double>(n); };

constexpr metric<device_figures> gauges[] = {
    {"gsched_device_ready", "gauge", "1 while the device has not failed.",
     [](const device_figures& d) { return d.now.failed ? 0.0 : 1.0; }},
    {"gsched_device_queued_seconds", "gauge",
     "Time alone of the requests that are queued or run on the device.",
     [](const device_figures& d) { return to_s(d.queued_alone); }},
    {"gsched_device_active_requests", "gauge", "Requests on the device or waiting for it.",
     [](const device_figures& d) { return number(d.now.active); }},
    {"gsched_queue_requests", "gauge",
     "Of these, requests of which nothing was submitted to the device yet.",
     [](const device_figures& d) { return number(d.now.waiting); }},
    {"gsched_queue_seconds", "gauge",
     "Expected device time of all these requests that was not submitted yet.",
     [](const device_figures& d) { return to_s(d.now.queued); }},
};

constexpr metric<counts> of_servers[] = {
    {"gsched_device_requests_total", "counter", "Requests that were sent to the device.",
     [](const counts& s) { return number(s.requests.submitted); }},
    {"gsched_device_up_seconds_total", "counter", "Time since the device was opened.",
     [](const counts& s) { return to_s(s.up_time); }},
    {"gsched_device_busy_seconds_total", "counter", "Time in which some lane had work.",
     [](const counts& s) { return to_s(s.use.busy); }},
    {"gsched_kernel_seconds_total", "counter",
     "Time in which some kernel ran; 0 where the device does not tell.",
     [](const counts& s) { return to_s(s.kernel_time); }},
    {"gsched_sm_busy_seconds_total", "counter", "The same, summed over the SMs that held blocks.",
     [](const counts& s) { return s.sm_seconds; }},
    {"gsched_sms", "gauge", "SMs of the device.", [](const counts& s) { return number(s.sms); }},
    {"gsched_lane_busy_seconds_total", "counter", "Time with work, summed over the lanes.",
     [](const counts& s) { return to_s(s.use.lane_time); }},
    {"gsched_lanes", "gauge", "Lanes that were opened.",
     [](const counts& s) { return number(s.use.lanes); }},
    {"gsched_lanes_in_use", "gauge", "Lanes that have work.",
     [](const counts& s) { return number(s.use.lanes_in_use); }},
    {"gsched_decisions_total", "counter", "Choices of the policy.",
     [](const counts& s) { return number(s.requests.decisions); }},
    {"gsched_segments_total", "counter", "Pieces of requests that the device was given.",
     [](const counts& s) { return number(s.requests.segments); }},
    {"gsched_operations_total", "counter", "Kernels and copies that have ended.",
     [](const counts& s) { return number(s.requests.operations); }},
    {"gsched_preemptions_total", "counter",
     "Times that real-time work has preempted best-effort work.",
     [](const counts& s) { return number(s.preemption.preemptions.count); }},
    {"gsched_preempted_segments_total", "counter", "Segments that were preempted before their end.",
     [](const counts& s) { return number(s.preemption.preempted_segments); }},
    {"gsched_evicted_segments_total", "counter", "Segments that were withdrawn before their start.",
     [](const counts& s) { return number(s.requests.evicted_segments); }},
    {"gsched_starvations_total", "counter", "Long waits of all best-effort work.",
     [](const counts& s) { return number(s.preemption.starvations); }},
    {"gsched_apart_total", "counter",
     "Choices of the policy that a slow_down_limit kept from the models in flight.",
     [](const counts& s) { return number(s.requests.neighbours.refused); }},
    {"gsched_apart_seconds_total", "counter", "Time that these waited, over all requests.",
     [](const counts& s) { return to_s(s.requests.neighbours.waited); }},
    {"gsched_apart_overridden_total", "counter",
     "Real-time requests that ran beside a model that the limit keeps from theirs.",
     [](const counts& s) { return number(s.requests.neighbours.overridden); }},
    {"gsched_host_seconds_total", "counter", "Time of the dispatching thread at work.",
     [](const counts& s) { return to_s(s.host_time); }},
};

std::string label_of(const device_figures& d) {
  return metrics_text::label("device", std::to_string(d.number));
}

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

double seconds(const timeval& t) noexcept {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

const double started_at =
    std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

} // namespace

void write(metrics_text& out, const std::vector<device_figures>& all) {
  out.metric("gsched_device_info", "gauge", "1; which device a number is.");
  for (const device_figures& d : all)
    out.sample("", label_of(d) + "," + metrics_text::label("name", d.name), 1);
  for (const auto& m : gauges) {
    out.metric(m.name, m.type, m.help);
    for (const device_figures& d : all) out.sample("", label_of(d), m.of(d));
  }
  for (const auto& m : of_servers) {
    out.metric(m.name, m.type, m.help);
    for (const device_figures& d : all)
      if (d.counted) out.sample("", label_of(d), m.of(*d.counted));
  }
  if (all.empty() || !all.front().channel_clients) return;
  out.metric("gsched_channel_clients", "gauge", "Clients through shared memory.");
  for (const device_figures& d : all)
    out.sample("", label_of(d), number(d.channel_clients.value_or(0)));
}

void write_process(metrics_text& out) {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  out.metric("process_cpu_seconds_total", "counter", "Processor time of this process.");
  out.sample("", "", seconds(u.ru_utime) + seconds(u.ru_stime));
  out.metric("process_resident_memory_bytes", "gauge", "Memory of this process.");
  out.sample("", "", static_cast<double>(resident_bytes()));
  out.metric("process_start_time_seconds", "gauge", "When it started, since 1970.");
  out.sample("", "", started_at);
  std::error_code none;
  const std::filesystem::directory_iterator files("/proc/self/fd", none);
  out.metric("process_open_fds", "gauge", "Files and sockets that it has open.");
  out.sample("", "", none ? 0 : static_cast<double>(std::distance(begin(files), end(files)) - 1));
}

} // namespace gsched_server
