// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/preset.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched::sim {

/// Where a preset's values come from, for people and for comparisons. All are free text.
struct preset_provenance {
  std::string gpu;    ///< as the driver names it: "NVIDIA H200"
  std::string driver; ///< "580.95" or "CUDA 13.0"
  std::string runtime;
  std::string date;
  std::string host;
  /// Values that were not measured there but are the library's, by pointer: "/laws/scaling".
  std::vector<std::string> kept;

  bool operator==(const preset_provenance&) const = default;
};

} // namespace gsched::sim

namespace gsched::detail {

/// Shows each field of a preset, but for its architecture, to `v`: its name in the file and what it
/// may be. Reader and writer both go through here, so neither can forget one; and a structure that
/// gets another field no longer compiles here.
template <class Preset, class Visitor>
void visit_fields(Preset& p, Visitor& v) {
  constexpr double big = 1e9;
  constexpr double some = 1e-3; // of what is divided by: times stay within what a clock counts
  auto& [name, sm, sms, unit, queues, queue_limit, grids, lanes, host, gaps, copies, laws, yields] =
      p;
  v.text("name", name);
  v.architecture("compute_capability", sm);
  v.count("sms", sms, 1, 4096);
  v.count("partition_unit", unit, 1, 4096);
  v.count("hardware_queues", queues, 1, 1u << 16);
  v.count("queue_limit", queue_limit, 1, 1u << 16);
  v.count("resident_grids", grids, 1, 1u << 20);
  v.count("max_lanes", lanes, 1, 1u << 20);
  v.group("host", host, [&](auto& g) {
    auto& [launch, graph, operation, start, start_operation, segment, block, poll, take, evict] = g;
    v.time("launch_us", launch);
    v.time("graph_us", graph);
    v.time("graph_operation_us", operation);
    v.time("start_us", start);
    v.time("start_operation_us", start_operation);
    v.time("segment_notice_us", segment);
    v.time("block_notice_us", block);
    v.time("poll_us", poll);
    v.time("take_us", take);
    v.time("evict_us", evict);
  });
  v.group("gaps", gaps, [&](auto& g) {
    auto& [launches, segments] = g;
    v.time("launches_us", launches);
    v.time("segments_us", segments);
  });
  v.group("copies", copies, [&](auto& g) {
    auto& [to_device_rate, to_host_rate, on_device_rate, to_device, to_host, on_device] = g;
    v.number("to_device_bytes_per_ns", to_device_rate, some, 1e6);
    v.number("to_host_bytes_per_ns", to_host_rate, some, 1e6);
    v.number("on_device_bytes_per_ns", on_device_rate, some, 1e6);
    v.time("to_device_us", to_device);
    v.time("to_host_us", to_host);
    v.time("on_device_us", on_device);
  });
  v.group("laws", laws, [&](auto& g) {
    auto& [scaling, contention, graph, leaving, slack, contended] = g;
    v.group("scaling", scaling, [&](auto& law) {
      auto& [floor_us, floor_part, warps_to_fill, step, shared, shared_exponent] = law;
      v.number("floor_us", floor_us, 0, big);
      v.number("floor_part", floor_part, 0, 1);
      v.number("warps_to_fill", warps_to_fill, some, big);
      v.number("step", step, 0, 1);
      v.number("shared", shared, 0, big);
      v.number("shared_exponent", shared_exponent, 0, 100);
    });
    v.group("contention", contention, [&](auto& law) {
      auto& [beside, memory, near, other_warps, warps_to_fill, gap_us, gap_memory_us] = law;
      v.number("beside", beside, 0, big);
      v.number("memory", memory, 0, big);
      v.number("near", near, 0, big);
      v.number("other_warps", other_warps, 0, big);
      v.number("warps_to_fill", warps_to_fill, some, big);
      v.number("gap_us", gap_us, 0, big);
      v.number("gap_memory_us", gap_memory_us, 0, big);
    });
    v.group("graph", graph, [&](auto& law) {
      auto& [scale, gap] = law;
      v.number("scale", scale, some, big);
      v.time("gap_us", gap);
    });
    v.optional_group("leaving", leaving, [&](auto& law) {
      auto& [preamble, listing] = law;
      v.time("preamble_us", preamble);
      v.time("listing_us", listing);
    });
    v.number("slack", slack, 0, 1);
    v.flag("contended", contended);
  });
  v.optional_group("yields", yields, [&](auto& g) {
    auto& [gate_every, gate, hold, held, going_on, flag, flagged, passing] = g;
    v.count("gate_every", gate_every, 1, 1u << 16);
    v.time("gate_us", gate);
    v.time("hold_us", hold);
    v.time("held_us", held);
    v.time("going_on_us", going_on);
    v.time("flag_us", flag);
    v.time("flagged_us", flagged);
    v.time("passing_us", passing);
  });
}

/// Whether the limits are those that a compute capability has: what a file can say of them.
[[nodiscard]] inline bool same_limits(const architecture_limits& x, const architecture_limits& y) {
  const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,
               a18] = x;
  const auto& [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15, b16, b17,
               b18] = y;
  return a0 == b0 && a1 == b1 && a2 == b2 && a3 == b3 && a4 == b4 && a5 == b5 && a6 == b6 &&
         a7 == b7 && a8 == b8 && a9 == b9 && a10 == b10 && a11 == b11 && a12 == b12 && a13 == b13 &&
         a14 == b14 && a15 == b15 && a16 == b16 && a17 == b17 && std::ranges::equal(a18, b18);
}

/// Puts a preset's fields into a document, in the order of visit_fields.
class preset_writer {
public:
  using json = nlohmann::ordered_json;

  explicit preset_writer(json& into) : node_(&into) {}

  void text(const char* key, const std::string& s) { (*node_)[key] = s; }
  void architecture(const char* key, const architecture_limits& l) {
    (*node_)[key] = std::to_string(l.major) + "." + std::to_string(l.minor);
  }
  void count(const char* key, std::uint32_t n, std::uint32_t, std::uint32_t) { (*node_)[key] = n; }
  void count(const char* key, sm_count n, std::uint32_t, std::uint32_t) {
    (*node_)[key] = n.count();
  }
  /// By a division, so that it prints as short as it is: 2.29.
  void time(const char* key, duration d) { (*node_)[key] = static_cast<double>(d.count()) / 1e3; }
  void number(const char* key, double x, double, double) { (*node_)[key] = x; }
  void flag(const char* key, bool b) { (*node_)[key] = b; }
  template <class Group, class Fields>
  void group(const char* key, const Group& of, Fields fields) {
    json* const outer = node_;
    node_ = &(*outer)[key];
    fields(of);
    node_ = outer;
  }
  template <class Group, class Fields>
  void optional_group(const char* key, const Group& of, Fields fields) {
    group(key, of, fields);
  }

private:
  json* node_;
};

} // namespace gsched::detail
