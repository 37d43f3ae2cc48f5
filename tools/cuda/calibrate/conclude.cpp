// SPDX-License-Identifier: Apache-2.0
#include "calibrate/report.hpp"

#include <gsched/cuda_tools/installed_driver.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace calibrate {

namespace {

using namespace gsched;

/// "NVIDIA H200" -> "sim:h200".
std::string preset_name(std::string_view gpu) {
  constexpr std::string_view maker = "NVIDIA ";
  if (gpu.starts_with(maker)) gpu.remove_prefix(maker.size());
  std::string name = "sim:";
  for (const char c : gpu)
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == ' ' ? '-' : c;
  return name;
}

/// The text after the colon of the first line of a file that contains `word`; empty if none does.
std::string field_of(const char* path, std::string_view word) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(word);
    if (at == std::string::npos) continue;
    const auto colon = line.find(':', at);
    const auto begin = line.find_first_not_of(" \t", colon == std::string::npos ? at : colon + 1);
    return begin == std::string::npos ? std::string{} : line.substr(begin);
  }
  return {};
}

std::string cuda_version(int v) { return "CUDA " + cuda::cuda_version(v); }

/// The driver's version, if the system reports it, and the CUDA version that it supports.
std::string driver_text(int version) {
  const std::string driver = cuda::installed_driver();
  return (driver.empty() ? "" : driver + ", ") + cuda_version(version);
}

std::uint32_t connections_set() {
  const char* const text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int n = text != nullptr ? std::atoi(text) : 0;
  return n >= 1 && n <= 128 ? static_cast<std::uint32_t>(n) : 8;
}

class conclusion {
public:
  conclusion(const samples& s, findings& f) : s_(s), f_(f) {}

  [[nodiscard]] double median(const char* sample) const { return s_.of(sample).median; }

  /// Sets a time of the preset: a sample plus `add`.
  void time(const char* pointer, duration& into, const char* what, const char* sample, double more,
            const char* how) {
    if (!s_.has(sample)) return keep(pointer);
    const double us = std::max(0.0, median(sample) + more);
    into = from_us(us);
    add(what, us, "us", sample, how, pointer);
  }
  void rate(const char* pointer, double& into, const char* what, const char* sample,
            const char* how) {
    if (!(median(sample) > 0)) return keep(pointer);
    into = median(sample);
    add(what, into, "bytes/ns", sample, how, pointer);
  }
  /// Adds a row without a field of the preset.
  void info(const char* what, const char* sample, const char* unit, const char* how) {
    if (s_.has(sample)) add(what, median(sample), unit, sample, how, "");
  }
  void add(const char* what, double value, const char* unit, const char* sample, const char* how,
           const char* pointer) {
    const double spread = sample != nullptr ? s_.of(sample).spread : 0;
    f_.rows.push_back({what, value, unit, spread, how, pointer});
  }
  void keep(const char* pointer) { f_.from.kept.emplace_back(pointer); }

private:
  const samples& s_;
  findings& f_;
};

void host_rows(conclusion& c, sim::host_costs& h, duration graph_gap) {
  const double gap = to_us(graph_gap);
  const double block = c.median("store seen");
  const double notice = std::max(0.0, c.median("end behind store")) + block;
  c.time("/host/graph_us", h.graph, "submit a graph", "submit graph", 0,
         "cuda::device::submit, 1 to 80 kernels, 8 in flight: at none");
  c.time("/host/graph_operation_us", h.graph_operation, "  each operation of it",
         "submit operation", 0, "... and the slope");
  c.time("/host/launch_us", h.launch, "launch a kernel", "launch and notify", 0,
         "120 in a row, a stream write behind each");
  c.info("  without the stream write", "launch", "us", "120 in a row");
  c.time("/host/start_us", h.start, "start of a graph", "end graph", gap - notice,
         "submission to end seen, 1 to 160 kernels: at none, less end seen");
  c.time("/host/start_operation_us", h.start_operation, "  each operation of it", "end operation",
         -c.median("in graph"), "... the slope, less what each takes in a row");
  c.info("submission to a store seen", "store", "us", "a graph of one kernel");
  c.info("submission to end seen", "end 1", "us", "a graph of one empty kernel");
  c.time("/host/segment_notice_us", h.segment_notification, "end of a segment seen",
         "end behind store", block,
         "a kernel's last store to the end of its segment, and the store's own way");
  c.time("/host/block_notice_us", h.block_notification, "a kernel's store seen", "store seen", 0,
         "half of a round trip through pinned memory, 500 in a row");
  c.info("launch to block start seen", "block start seen", "us",
         "an instrumented kernel, in the notification ring");
  c.info("block end seen, how much earlier", "block end earlier", "us",
         "than a stream write behind its graph");
  c.time("/host/poll_us", h.poll, "poll", "poll", 0,
         "cuda::device::poll, a lane busy, nothing seen");
  c.time("/host/take_us", h.take, "take an event", "take", 0, "polls with an event, less a poll");
  c.keep("/host/evict_us"); // a device that does not interrupt what runs has none
}

void device_rows(conclusion& c, sim::preset& p) {
  const double gap = to_us(p.laws.graph.gap);
  const double in_graph = c.median("in graph");
  c.info("empty kernel in a graph", "in graph", "us", "each more, 24 to 120 in one graph");
  c.info("SM clock", "clock ghz", "GHz", "10 us of cycles in each of them");
  c.info("graph of one after another", "graph of one", "us", "each more, 24 to 120 of them");
  c.time("/gaps/launches_us", p.gaps.launches, "gap between launches", "launch after launch",
         gap - in_graph, "each more, less that in a graph, and the gap there");
  c.time("/gaps/segments_us", p.gaps.segments, "gap between segments", "cut", gap,
         "of 8 kernels each: what a cut adds, and the gap in a graph");
  sim::copy_engines& e = p.copies;
  const char* const large = "256 MiB, pinned";
  const char* const small = "588 KiB and 1 MiB, 20 in a row, less their bytes";
  c.rate("/copies/to_device_bytes_per_ns", e.to_device_bytes_per_ns, "copy to the device",
         "h2d rate", large);
  c.rate("/copies/to_host_bytes_per_ns", e.to_host_bytes_per_ns, "copy to the host", "d2h rate",
         large);
  c.rate("/copies/on_device_bytes_per_ns", e.on_device_bytes_per_ns, "set on the device",
         "set rate", "256 MiB");
  c.info("copy on the device", "d2d rate", "bytes/ns", "256 MiB; each is read and written");
  c.info("copy to the device, pageable", "h2d pageable", "bytes/ns", "64 MiB, with the host");
  c.info("copy to the host, pageable", "d2h pageable", "bytes/ns", "64 MiB, with the host");
  c.time("/copies/to_device_us", e.to_device, "start of a copy to the device", "h2d start", 0,
         small);
  c.time("/copies/to_host_us", e.to_host, "start of a copy to the host", "d2h start", 0, small);
  const double both = (c.median("d2d start") - c.median("set start")) / 2;
  c.time("/copies/on_device_us", e.on_device, "start on the device", "set start", both,
         "sets and copies, as above: the mean");
}

void yield_rows(conclusion& c, sim::yield_costs& y, duration graph_gap) {
  const double gap = to_us(graph_gap);
  const double store = c.median("store seen"); // latency from gates and blocks to the host
  c.keep("/yields/gate_every");                // a choice, not a cost
  c.time("/yields/gate_us", y.gate, "gate", "gate", 0,
         "beside every second kernel of 3 us, what each adds: the mean of");
  c.info("  beside few blocks", "gate, few blocks", "us", "one an SM");
  c.info("  beside many blocks", "gate, many blocks", "us", "four an SM");
  c.time("/yields/hold_us", y.hold, "hold or release", "hold", 0,
         "cuda::device::yield and resume, a graph with gates running");
  c.time("/yields/held_us", y.held, "hold seen by a gate", "gate seen", -store,
         "yield to lane_yielded, at random instants, less the way to the gate and home");
  c.time("/yields/going_on_us", y.going_on, "release to running", "gate left", gap - store,
         "resume to lane_resumed, less the way home, and the gap in a graph");
  c.time("/yields/flag_us", y.flag, "set the flag", "flag", 0,
         "cuda::device::yield, preemptible kernels running");
  c.time("/yields/flagged_us", y.flagged, "flag seen by blocks", "flag obeyed", -store,
         "yield to segment_preempted, 1 to 200 kernels: at one, less a way home");
  c.time("/yields/passing_us", y.passing, "preempted kernel that only starts", "pass", -gap,
         "... the slope, less the gap in a graph");
}

void partition_rows(conclusion& c, sim::preset& p) {
  if (c.median("group") >= 1) {
    p.partition_unit = sm_count{static_cast<std::uint32_t>(std::lround(c.median("group")))};
    c.add("SMs of a green context", c.median("group"), "SMs", "group", "the smallest group",
          "/partition_unit");
  } else {
    c.keep("/partition_unit");
  }
  c.info("  such groups", "groups", "", "one split of all SMs");
  c.info("  SMs left over", "rest", "SMs", "of it");
  c.info("make a green context", "create", "us", "with a stream");
  c.info("end a green context", "destroy", "us", "with its stream");
  c.info("launch there", "launch on some", "us", "a graph of one kernel, 50 in a row");
  c.info("  on an ordinary stream", "launch on all", "us", "a graph of one kernel, 50 in a row");
}

void queue_rows(conclusion& c, const queue_counts& queues, sim::preset& p) {
  p.hardware_queues = connections_set();
  c.add("hardware queues", p.hardware_queues, "", nullptr, "as CUDA_DEVICE_MAX_CONNECTIONS says",
        "/hardware_queues");
  if (queues.empty()) {
    c.keep("/queue_limit");
    c.keep("/resident_grids");
    return;
  }
  for (const auto& [connections, q] : queues) {
    c.add(fmt::format("chains at once, {} connections", connections).c_str(), q.chains, "", nullptr,
          "96 streams of two kernels, submitted stream by stream", "");
    c.add(fmt::format("kernels at once, {} connections", connections).c_str(), q.grids, "", nullptr,
          "192 streams of one kernel of one block", "");
  }
  // With few connections, the difference shows what the driver runs beside its queues.
  const auto& [fewest, few] = *queues.begin();
  const auto& [most, many] = *queues.rbegin();
  const std::uint32_t beside = few.chains > fewest ? few.chains - fewest : 0;
  p.queue_limit = std::max(1u, many.chains > beside ? many.chains - beside : many.chains);
  p.resident_grids = std::max(1u, many.grids);
  c.add("queues that take effect", p.queue_limit, "", nullptr,
        "chains at the most connections, less what runs beside the queues", "/queue_limit");
  c.add("grids at once", p.resident_grids, "", nullptr, "kernels at the most connections",
        "/resident_grids");
}

} // namespace

findings conclude(const samples& measured, const queue_counts& queues, const cuda::gpu& gpu) {
  findings f;
  f.preset = sim::h200(); // laws and values that are not measured here
  f.preset.name = preset_name(gpu.name);
  f.preset.sm = gpu.sm;
  f.preset.sms = gpu.sms;
  f.from.gpu = gpu.name;
  f.from.driver = driver_text(gpu.driver_version);
  f.from.runtime = cuda_version(gpu.runtime_version);
  f.from.host = field_of("/proc/cpuinfo", "model name");
  conclusion c(measured, f);
  host_rows(c, f.preset.host, f.preset.laws.graph.gap);
  device_rows(c, f.preset);
  yield_rows(c, f.preset.yields, f.preset.laws.graph.gap);
  partition_rows(c, f.preset);
  queue_rows(c, queues, f.preset);
  for (const char* const law : {"/max_lanes", "/laws/scaling", "/laws/contention", "/laws/replay",
                                "/laws/graph", "/laws/leaving", "/laws/slack", "/laws/contended"})
    c.keep(law); // these need many models, or are not properties of a GPU
  return f;
}

} // namespace calibrate
