// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/profile_reader_json.hpp>
#include <gsched/job/text_file_json.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>

namespace gsched {

/// A profile's JSON is refused beyond this size, before it is parsed.
inline constexpr std::size_t max_profile_bytes = std::size_t{64} << 20;

/// Reads one profile. `name` stands for the text in errors.
/// Errors   bad_profile, or dependency_cycle where `after` names the operation itself or a later
///          one; one line: file, JSON pointer, what is wrong, what was expected.
[[nodiscard]] inline profile parse_profile(std::string_view text, std::string name) {
  if (text.size() > max_profile_bytes)
    throw error(errc::bad_profile, name + ": too large, expected at most " +
                                       std::to_string(max_profile_bytes >> 20) + " MiB");
  return detail::profile_reader(std::move(name)).read(text);
}

/// As parse_profile; reads no more than max_profile_bytes and one of the stream.
/// Errors   also io if the stream fails.
[[nodiscard]] inline profile read_profile(std::istream& in, std::string name) {
  const std::string text = detail::whole_text(in, name, max_profile_bytes);
  return parse_profile(text, std::move(name));
}

[[nodiscard]] inline profile read_profile(const std::filesystem::path& path) {
  return parse_profile(detail::whole_text(path, "a profile's file", max_profile_bytes),
                       path.string());
}

namespace detail {

/// Microseconds to the nanosecond, as short as they are: 2.367, 41.0.
inline void put_us(std::ostream& out, duration t) {
  const auto ns = t.count();
  std::string fraction = std::to_string(1000 + ns % 1000).substr(1);
  while (fraction.size() > 1 && fraction.back() == '0') fraction.pop_back();
  out << ns / 1000 << '.' << fraction;
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
    char separator = '{';
    for (const scaling_point& s : op.work.by_sms) {
      out << separator << '"' << s.sms.count() << "\":";
      put_us(out, s.time);
      separator = ',';
    }
    out << '}';
  }
  out << '}';
}

} // namespace detail

/// Writes what read_profile reads: equal profiles give equal bytes, one operation a line.
/// Errors   bad_profile for an operation that no profile can hold; look at the stream for the rest.
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
  out << ", \"durations_measured\": " << (p.durations_measured ? "true" : "false")
      << ", \"operations\": [";
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    out << (i ? ",\n" : "\n");
    put_operation(out, p.operations[i]);
  }
  out << "\n]}\n";
}

/// Errors   also io if the file cannot be written.
inline void write_profile(const std::filesystem::path& path, const profile& p) {
  std::ofstream out(path, std::ios::binary);
  write_profile(out, p);
  out.close();
  if (!out) throw error(errc::io, path.string() + ": cannot be written, expected a writable path");
}

} // namespace gsched
