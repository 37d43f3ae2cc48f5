// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <limits>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched::detail {

/// A number of kernel_counters: its name in a profile, the field and the largest value. The law of
/// contention needs some; others are 0 where they are missing.
template <class Object>
struct counter_field {
  std::string_view name;
  double Object::*value;
  double most;
  bool is_needed = false;
};

inline constexpr double max_counted_bytes = 1e18;
inline constexpr std::array<counter_field<kernel_counters>, 13> counter_fields{
    {{"us", &kernel_counters::us, json_fields::max_us, true},
     {"sm_active", &kernel_counters::sm_active, 1},
     {"warps_active", &kernel_counters::warps_active, 1},
     {"ipc", &kernel_counters::ipc, 4, true},
     {"shared_memory", &kernel_counters::shared_memory, 1},
     {"l1", &kernel_counters::l1, 1},
     {"l2", &kernel_counters::l2, 1},
     {"l2_hit_rate", &kernel_counters::l2_hit_rate, 1, true},
     {"dram", &kernel_counters::dram, 1},
     {"l2_bytes", &kernel_counters::l2_bytes, max_counted_bytes},
     {"dram_bytes", &kernel_counters::dram_bytes, max_counted_bytes},
     {"working_set_bytes", &kernel_counters::working_set_bytes, max_counted_bytes},
     {"common_work", &kernel_counters::common_work, 1}}};
inline constexpr std::array<counter_field<pipe_use>, 7> pipe_fields{
    {{"alu", &pipe_use::alu, 1},
     {"fma", &pipe_use::fma, 1},
     {"fp16", &pipe_use::fp16, 1},
     {"fp64", &pipe_use::fp64, 1},
     {"tensor", &pipe_use::tensor, 1},
     {"xu", &pipe_use::xu, 1},
     {"lsu", &pipe_use::lsu, 1}}};

inline constexpr double max_wait_cycles = 1e9;
inline constexpr std::array<counter_field<warp_waits>, 7> wait_fields{
    {{"memory", &warp_waits::memory, 1},
     {"load_cycles", &warp_waits::load_cycles, max_wait_cycles},
     {"shared_memory", &warp_waits::shared_memory, 1},
     {"shared_cycles", &warp_waits::shared_cycles, max_wait_cycles},
     {"instructions", &warp_waits::instructions, 1},
     {"executing", &warp_waits::executing, 1},
     {"blocked", &warp_waits::blocked, 1}}};

/// Reads a profile from JSON text for parse_profile. Skips unknown keys without keeping them.
class profile_reader : json_fields {
public:
  static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 40; ///< of a copy
  static constexpr std::uint32_t max_shared_bytes = 1u << 24;        ///< of a block
  static constexpr std::uint32_t max_local_bytes = 1u << 20;         ///< of a thread
  static constexpr std::uint32_t max_sms = 4096;

  explicit profile_reader(std::string file) : json_fields(std::move(file)) {}

  [[nodiscard]] profile read(std::string_view text) const {
    const json document = parse(text, known);
    if (!document.is_object()) fail({}, "is " + kind_of(document), "an object");
    profile p;
    p.model = label(document, {.field = "model"});
    if (p.model.empty()) fail({.field = "model"}, "is empty", "a name");
    p.batch = whole<std::uint32_t>(document, {.field = "batch"}, 1, 1u << 20);
    p.dtype = label(document, {.field = "dtype"});
    p.device = label(document, {.field = "device"});
    p.sms = sm_count{whole<std::uint32_t>(document, {.field = "sm_count"}, 1, max_sms)};
    p.input = byte_count{whole<std::uint64_t>(document, {.field = "input_bytes"}, 0, max_bytes)};
    p.output = byte_count{whole<std::uint64_t>(document, {.field = "output_bytes"}, 0, max_bytes)};
    if (document.contains("graph_replay_us"))
      p.graph_replay = time(document, {.field = "graph_replay_us"}, true);
    if (document.contains("graph_replay_us_by_sms")) {
      if (!p.graph_replay)
        fail({.field = "graph_replay_us"}, "is missing", "it beside graph_replay_us_by_sms");
      p.graph_replay_by_sms =
          scaling(document, {.field = "graph_replay_us_by_sms"}, p.sms, p.sms.count());
    }
    if (const auto m = document.find("durations_measured"); m != document.end()) {
      if (!m->is_boolean())
        fail({.field = "durations_measured"}, "is " + show(*m), "true or false");
      p.durations_measured = m->get<bool>();
    }
    const json& list = array(document, {.field = "operations"});
    if (list.empty()) fail({.field = "operations"}, "is empty", "one operation or more");
    p.operations.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i)
      p.operations.push_back(read_operation(list[i], i, list.size(), p.sms));
    check_counted(p);
    return p;
  }

private:
  /// Fields of the document and of an operation; deeper down the keys are SM counts or counters.
  [[nodiscard]] static bool known(int depth, std::string_view key) noexcept {
    if (depth != 1 && depth != 3) return depth == 2 || depth == 4 || depth == 5;
    static constexpr std::array<std::string_view, 28> keys{"model",
                                                           "batch",
                                                           "dtype",
                                                           "device",
                                                           "sm_count",
                                                           "input_bytes",
                                                           "output_bytes",
                                                           "graph_replay_us",
                                                           "graph_replay_us_by_sms",
                                                           "durations_measured",
                                                           "operations",
                                                           "after",
                                                           "kind",
                                                           "symbol",
                                                           "name",
                                                           "grid",
                                                           "block",
                                                           "registers_per_thread",
                                                           "static_shared_bytes",
                                                           "dynamic_shared_bytes",
                                                           "local_bytes",
                                                           "cluster_blocks",
                                                           "max_blocks_per_sm",
                                                           "duration_us",
                                                           "duration_us_by_sms",
                                                           "counters",
                                                           "counters_spread",
                                                           "bytes"};
    return key == "direction" || std::find(keys.begin(), keys.end(), key) != keys.end();
  }

  [[nodiscard]] profile_operation read_operation(const json& node, std::size_t i, std::size_t count,
                                                 sm_count sms) const {
    if (!node.is_object()) fail({.operation = i}, "is " + kind_of(node), "an object");
    profile_operation op;
    operation& work = op.work;
    op.after = predecessors(node, i, count);
    work.kind = kind(node, i);
    if (node.contains("name")) op.name = label(node, {i, "name"});
    if (work.kind == operation_kind::kernel) {
      op.symbol = label(node, {i, "symbol"});
      launch_shape& l = work.launch;
      l.grid = size(node, {i, "grid"}, {0x7fffffffu, 0xffffu, 0xffffu});
      l.block = size(node, {i, "block"}, {1024, 1024, 64});
      l.registers_per_thread = whole<std::uint32_t>(node, {i, "registers_per_thread"}, 0, 255);
      l.static_shared_bytes =
          whole<std::uint32_t>(node, {i, "static_shared_bytes"}, 0, max_shared_bytes);
      l.dynamic_shared_bytes =
          whole<std::uint32_t>(node, {i, "dynamic_shared_bytes"}, 0, max_shared_bytes);
      op.local_bytes = whole<std::uint32_t>(node, {i, "local_bytes"}, 0, max_local_bytes);
      l.cluster_blocks = whole<std::uint32_t>(node, {i, "cluster_blocks"}, 1, 64);
      work.max_blocks_per_sm = whole<std::uint32_t>(node, {i, "max_blocks_per_sm"}, 0, 1024);
      if (node.contains("counters")) op.counters = counters(node["counters"], i, "counters");
      if (node.contains("counters_spread")) {
        if (!op.counters)
          fail({i, "counters"}, "is missing", "counters of a kernel that has counters_spread");
        op.counters_spread = counters(node["counters_spread"], i, "counters_spread");
      }
    } else {
      work.bytes = byte_count{whole<std::uint64_t>(node, {i, "bytes"}, 0, max_bytes)};
      if (work.kind == operation_kind::memcpy) work.direction = direction(node, i);
    }
    work.expected = time(node, {i, "duration_us"}, false);
    if (node.contains("duration_us_by_sms"))
      for (const scaling_point& p :
           scaling(node, {i, "duration_us_by_sms"}, sms, work.by_sms.capacity()))
        work.by_sms.push_back(p);
    return op;
  }

  /// A kernel without counters beside others with them would count as one that takes nothing.
  void check_counted(const profile& p) const {
    const auto is_counted = [](const profile_operation& o) { return o.counters.has_value(); };
    if (std::none_of(p.operations.begin(), p.operations.end(), is_counted)) return;
    for (std::size_t i = 0; i < p.operations.size(); ++i)
      if (p.operations[i].work.kind == operation_kind::kernel && !is_counted(p.operations[i]))
        fail({i, "counters"}, "is missing", "counters of each kernel, or of none");
  }

  [[nodiscard]] kernel_counters counters(const json& node, std::size_t i,
                                         const std::string& object) const {
    kernel_counters c;
    read_counters(node, i, object, counter_fields, c);
    if (node.contains("pipes"))
      read_counters(node["pipes"], i, object + "/pipes", pipe_fields, c.pipes);
    if (node.contains("waits"))
      read_counters(node["waits"], i, object + "/waits", wait_fields, c.waits);
    return c;
  }

  template <class Object, std::size_t N>
  void read_counters(const json& node, std::size_t i, const std::string& object,
                     const std::array<counter_field<Object>, N>& fields, Object& into) const {
    if (!node.is_object()) fail({i, object}, "is " + show(node), "an object of numbers");
    for (const counter_field<Object>& f : fields) {
      const auto found = node.find(f.name);
      if (found == node.end() && !f.is_needed) continue;
      const bool is_there = found != node.end();
      const double value = is_there && found->is_number() ? found->template get<double>() : -1;
      if (!(value >= 0 && value <= f.most))
        fail({i, object + "/" + std::string(f.name)},
             is_there ? "is " + show(*found) : "is missing",
             "a number from 0 to " + json(f.most).dump());
      into.*f.value = value;
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> predecessors(const json& node, std::size_t i,
                                                        std::size_t count) const {
    const json& list = array(node, {i, "after"});
    std::vector<std::uint32_t> after;
    after.reserve(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) {
      const place at{i, "after", k};
      const auto a = whole_of(list[k], at, 0, count - 1);
      const std::string expected = "an operation before " + std::to_string(i);
      if (a == i) fail(at, "is the operation itself", expected, errc::dependency_cycle);
      if (a > i)
        fail(at, "is " + std::to_string(a) + ", a later operation", expected,
             errc::dependency_cycle);
      after.push_back(static_cast<std::uint32_t>(a));
    }
    return after;
  }

  [[nodiscard]] operation_kind kind(const json& node, std::size_t i) const {
    const std::string& k = label(node, {i, "kind"});
    if (k == "kernel") return operation_kind::kernel;
    if (k == "memcpy") return operation_kind::memcpy;
    if (k == "memset") return operation_kind::memset;
    fail({i, "kind"}, "is " + show(node["kind"]), "kernel, memset or memcpy");
  }

  [[nodiscard]] copy_direction direction(const json& node, std::size_t i) const {
    const std::string& d = label(node, {i, "direction"});
    if (d == "h2d") return copy_direction::host_to_device;
    if (d == "d2h") return copy_direction::device_to_host;
    if (d == "d2d") return copy_direction::device_to_device;
    fail({i, "direction"}, "is " + show(node["direction"]), "h2d, d2h or d2d");
  }

  [[nodiscard]] extent size(const json& node, const place& at, const extent& most) const {
    const json& list = array(node, at);
    if (list.size() != 3)
      fail(at, "has " + std::to_string(list.size()) + " elements", "three: x, y and z");
    const auto read_at = [&](std::size_t k, std::uint32_t limit) {
      return static_cast<std::uint32_t>(whole_of(list[k], {at.operation, at.field, k}, 1, limit));
    };
    return {read_at(0, most.x), read_at(1, most.y), read_at(2, most.z)};
  }

  /// Times by SM counts, at most `most`, by rising SMs.
  [[nodiscard]] std::vector<scaling_point> scaling(const json& node, const place& at, sm_count sms,
                                                   std::size_t most) const {
    const json& table = node[at.field];
    if (!table.is_object()) fail(at, "is " + kind_of(table), "an object");
    if (table.size() > most)
      fail(at, "has " + std::to_string(table.size()) + " entries",
           "at most " + std::to_string(most));
    std::vector<scaling_point> points;
    for (const auto& [key, value] : table.items()) {
      std::uint32_t n = 0;
      const char* const end = key.data() + key.size();
      const auto [stop, ec] = std::from_chars(key.data(), end, n);
      if (ec != std::errc{} || stop != end || key.front() == '0' || n > sms.count())
        fail(at, "has the key " + show(json(key)),
             "a number of SMs, 1 to " + std::to_string(sms.count()));
      points.push_back({sm_count{n}, time_of(value, at, true)});
    }
    std::sort(points.begin(), points.end(),
              [](const scaling_point& a, const scaling_point& b) { return a.sms < b.sms; });
    return points;
  }
};

} // namespace gsched::detail

namespace gsched {

/// A larger profile is an error; its text is not parsed.
inline constexpr std::size_t max_profile_bytes = std::size_t{64} << 20;

/// Reads a profile. `name` names the text in errors.
///
/// Errors   one line: file, JSON pointer, what is wrong, what was expected. dependency_cycle if
///          `after` names the operation itself or a later one; else bad_profile.
/// Cost     O(text).
[[nodiscard]] inline profile parse_profile(std::string_view text, std::string name) {
  if (text.size() > max_profile_bytes)
    throw error(errc::bad_profile, name + ": too large, expected at most " +
                                       std::to_string(max_profile_bytes >> 20) + " MiB");
  return detail::profile_reader(std::move(name)).read(text);
}

/// Reads a profile from a stream, at most a chunk beyond max_profile_bytes.
///
/// Errors   those of parse_profile; io if the stream fails.
[[nodiscard]] inline profile read_profile(std::istream& in, std::string name) {
  const std::string text = read_text(in, name, max_profile_bytes);
  return parse_profile(text, std::move(name));
}

/// Reads a profile from a file.
///
/// Errors   those of parse_profile; io if the file cannot be read.
[[nodiscard]] inline profile load_profile(const std::filesystem::path& path) {
  return parse_profile(read_text(path, "a profile's file", max_profile_bytes), path.string());
}

/// Reads a profile from a file, each of whose kernels fits on an SM.
///
/// Errors   those of load_profile; does_not_fit, which names the file.
[[nodiscard]] inline profile load_profile(const std::filesystem::path& path,
                                          const architecture_limits& sm) {
  profile p = load_profile(path);
  try {
    check_fits(p, [&](const launch_shape& launch) { return max_blocks_per_sm(sm, launch); });
  } catch (const error& e) {
    throw error(errc::does_not_fit, path.string() + ": " + e.what());
  }
  return p;
}

namespace detail {

/// Writes microseconds with the fewest digits that give the nanosecond: 2.367, 41.0.
inline void put_us(std::ostream& out, duration t) {
  const auto ns = t.count();
  std::string fraction = std::to_string(1000 + ns % 1000).substr(1);
  while (fraction.size() > 1 && fraction.back() == '0') fraction.pop_back();
  out << ns / 1000 << '.' << fraction;
}

inline void put_scaling(std::ostream& out, std::span<const scaling_point> points) {
  char separator = '{';
  for (const scaling_point& s : points) {
    out << separator << '"' << s.sms.count() << "\":";
    put_us(out, s.time);
    separator = ',';
  }
  out << '}';
}

inline void put_text(std::ostream& out, const std::string& s) {
  using nlohmann::json;
  out << json(s).dump(-1, ' ', true, json::error_handler_t::replace);
}

inline void put_extent(std::ostream& out, std::string_view field, const extent& e) {
  out << ",\"" << field << "\":[" << e.x << ',' << e.y << ',' << e.z << ']';
}

inline void put_kernel(std::ostream& out, const profile_operation& op) {
  const launch_shape& l = op.work.launch;
  out << ",\"symbol\":";
  put_text(out, op.symbol);
  put_extent(out, "grid", l.grid);
  put_extent(out, "block", l.block);
  out << ",\"registers_per_thread\":" << l.registers_per_thread
      << ",\"static_shared_bytes\":" << l.static_shared_bytes
      << ",\"dynamic_shared_bytes\":" << l.dynamic_shared_bytes
      << ",\"local_bytes\":" << op.local_bytes << ",\"cluster_blocks\":" << l.cluster_blocks
      << ",\"max_blocks_per_sm\":" << op.work.max_blocks_per_sm;
}

/// Writes the shortest text that reads back as the same number, with an exponent only for numbers
/// below 0.0001 and from 1e16 on.
inline void put_number(std::ostream& out, double value) {
  std::array<char, 32> text{};
  const auto format = value != 0 && (value < 1e-4 || value >= 1e16) ? std::chars_format::scientific
                                                                    : std::chars_format::fixed;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format).ptr;
  out << std::string_view(text.data(), static_cast<std::size_t>(end - text.data()));
}

/// Writes the numbers that are needed or not 0; the reader takes 0 for a missing one.
template <class Object, std::size_t N>
void put_counters(std::ostream& out, const Object& from,
                  const std::array<counter_field<Object>, N>& fields, char separator) {
  for (const counter_field<Object>& f : fields) {
    if (from.*f.value == 0 && !f.is_needed) continue;
    out << separator << '"' << f.name << "\":";
    put_number(out, from.*f.value);
    separator = ',';
  }
}

inline void put_counters(std::ostream& out, std::string_view object, const kernel_counters& c) {
  out << ",\"" << object << "\":";
  put_counters(out, c, counter_fields, '{');
  if (c.pipes != pipe_use{}) {
    out << ",\"pipes\":";
    put_counters(out, c.pipes, pipe_fields, '{');
    out << '}';
  }
  if (c.waits != warp_waits{}) {
    out << ",\"waits\":";
    put_counters(out, c.waits, wait_fields, '{');
    out << '}';
  }
  out << '}';
}

[[nodiscard]] inline std::string_view direction_name(copy_direction d) {
  switch (d) {
  case copy_direction::host_to_device: return "h2d";
  case copy_direction::device_to_host: return "d2h";
  case copy_direction::device_to_device: return "d2d";
  case copy_direction::host_to_host: break;
  }
  throw error(errc::bad_profile, "a copy from host to host, expected one that a device does");
}

inline void put_operation(std::ostream& out, const profile_operation& op) {
  out << "{\"after\":[";
  for (std::size_t i = 0; i < op.after.size(); ++i) out << (i ? "," : "") << op.after[i];
  out << "],\"kind\":";
  switch (op.work.kind) {
  case operation_kind::kernel:
    out << "\"kernel\"";
    put_kernel(out, op);
    break;
  case operation_kind::memset: out << "\"memset\",\"bytes\":" << op.work.bytes.count(); break;
  case operation_kind::memcpy:
    out << "\"memcpy\",\"direction\":\"" << direction_name(op.work.direction)
        << "\",\"bytes\":" << op.work.bytes.count();
    break;
  default: throw error(errc::bad_profile, "an operation that is no device work, expected some");
  }
  out << ",\"duration_us\":";
  put_us(out, op.work.expected);
  out << ",\"name\":";
  put_text(out, op.name);
  if (!op.work.by_sms.empty()) {
    out << ",\"duration_us_by_sms\":";
    put_scaling(out, op.work.by_sms);
  }
  if (op.counters) put_counters(out, "counters", *op.counters);
  if (op.counters_spread) put_counters(out, "counters_spread", *op.counters_spread);
  out << '}';
}

} // namespace detail

/// Writes what load_profile reads, one operation a line. Equal profiles give equal bytes.
///
/// Errors   bad_profile for an operation that a profile cannot hold. The caller checks the stream.
inline void write_profile(std::ostream& out, const profile& p) {
  using namespace detail;
  out << "{\"model\": ";
  put_text(out, p.model);
  out << ", \"batch\": " << p.batch << ", \"dtype\": ";
  put_text(out, p.dtype);
  out << ", \"device\": ";
  put_text(out, p.device);
  out << ", \"sm_count\": " << p.sms.count() << ", \"input_bytes\": " << p.input.count()
      << ", \"output_bytes\": " << p.output.count();
  if (p.graph_replay) {
    out << ", \"graph_replay_us\": ";
    put_us(out, *p.graph_replay);
  }
  if (!p.graph_replay_by_sms.empty()) {
    out << ", \"graph_replay_us_by_sms\": ";
    put_scaling(out, p.graph_replay_by_sms);
  }
  out << ", \"durations_measured\": " << (p.durations_measured ? "true" : "false")
      << ", \"operations\": [";
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    out << (i ? ",\n" : "\n");
    put_operation(out, p.operations[i]);
  }
  out << "\n]}\n";
}

/// Writes a profile to a file.
///
/// Errors   those of write_profile; io if the file cannot be written.
inline void write_profile(const std::filesystem::path& path, const profile& p) {
  std::ofstream out(path, std::ios::binary);
  write_profile(out, p);
  out.close();
  if (!out) throw error(errc::io, path.string() + ": cannot be written, expected a writable path");
}

} // namespace gsched
