// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/preempt/access.hpp>
#include <gsched/trace/json_text.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// A larger access trace is an error; its text is not parsed.
inline constexpr std::size_t max_access_trace_bytes = std::size_t{64} << 20;

namespace detail {

/// The names of operation kinds in a trace.
inline constexpr std::array<std::pair<std::string_view, operation_kind>, 6> access_kinds{
    {{"kernel", operation_kind::kernel},
     {"memcpy", operation_kind::memcpy},
     {"memset", operation_kind::memset},
     {"event_record", operation_kind::event_record},
     {"event_wait", operation_kind::event_wait},
     {"host_function", operation_kind::host_function}}};

/// Whether a trace must list an operation's reads, or its writes. An operation without them would
/// count as one that accesses no memory and so as safe to run again.
[[nodiscard]] constexpr bool states_reads(operation_kind k) noexcept {
  return k == operation_kind::kernel || k == operation_kind::memcpy;
}
[[nodiscard]] constexpr bool states_writes(operation_kind k) noexcept {
  return states_reads(k) || k == operation_kind::memset;
}

/// The names of declarations in a trace.
inline constexpr std::array<std::pair<std::string_view, declared>, 3> declarations{
    {{"idempotent", declared::idempotent},
     {"clobbers", declared::clobbers},
     {"saves", declared::saves}}};

/// Reads an access trace from JSON text for parse_access_trace. Skips unknown keys.
class access_reader : json_fields {
public:
  explicit access_reader(std::string file) : json_fields(std::move(file)) {}

  [[nodiscard]] access_trace read(std::string_view text) const {
    const json document = parse(text, known);
    if (!document.is_object()) fail({}, "is " + kind_of(document), "an object");
    access_trace t;
    t.model = label(document, {.field = "model"});
    const json& list = array(document, {.field = "operations"});
    if (list.empty()) fail({.field = "operations"}, "is empty", "one operation or more");
    t.operations.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) t.operations.push_back(operation(list[i], i));
    return t;
  }

private:
  [[nodiscard]] static bool known(int depth, std::string_view key) noexcept {
    if (depth == 1) return key == "model" || key == "operations";
    return depth == 3 && (key == "kind" || key == "name" || key == "reads" || key == "writes" ||
                          key == "writes_first" || key == "assumed" || key == "declared");
  }

  [[nodiscard]] operation_access operation(const json& node, std::size_t i) const {
    if (!node.is_object()) fail({.operation = i}, "is " + kind_of(node), "an object");
    operation_access o;
    o.kind = kind(node, i);
    if (node.contains("name")) o.name = label(node, {i, "name"});
    if (states_reads(o.kind)) expect_set(node, {i, "reads"});
    if (states_writes(o.kind) && !node.contains("writes_first")) expect_set(node, {i, "writes"});
    o.reads = set(node, {i, "reads"});
    o.writes = set(node, {i, "writes"});
    o.writes_first = set(node, {i, "writes_first"});
    if (const auto a = node.find("assumed"); a != node.end()) {
      if (!a->is_boolean()) fail({i, "assumed"}, "is " + show(*a), "true or false");
      o.assumed = a->get<bool>();
    }
    if (node.contains("declared")) o.says = says(node, i);
    return o;
  }

  [[nodiscard]] declared says(const json& node, std::size_t i) const {
    const std::string& found = label(node, {i, "declared"});
    for (const auto& [name, d] : declarations)
      if (found == name) return d;
    fail({i, "declared"}, "is " + show(node["declared"]), "idempotent, clobbers or saves");
  }

  [[nodiscard]] operation_kind kind(const json& node, std::size_t i) const {
    const std::string& found = label(node, {i, "kind"});
    for (const auto& [name, k] : access_kinds)
      if (found == name) return k;
    fail({i, "kind"}, "is " + show(node["kind"]),
         "kernel, memcpy, memset, event_record, event_wait or host_function");
  }

  void expect_set(const json& node, const place& at) const {
    if (!node.contains(at.field)) fail(at, "is missing", "[[address, bytes], ...], or [] for none");
  }

  [[nodiscard]] access_set set(const json& node, const place& at) const {
    if (!node.contains(at.field)) return {};
    const json& list = array(node, at);
    std::vector<byte_range> ranges;
    ranges.reserve(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) {
      const place here{at.operation, at.field, k};
      constexpr auto most = std::numeric_limits<std::uint64_t>::max();
      if (!list[k].is_array() || list[k].size() != 2)
        fail(here,
             list[k].is_array() ? "has " + std::to_string(list[k].size()) + " elements"
                                : "is " + show(list[k]),
             "two: an address and a number of bytes");
      const std::uint64_t first = whole_of(list[k][0], here, 0, most - 1);
      ranges.push_back({first, first + whole_of(list[k][1], here, 1, most - first)});
    }
    return access_set(std::move(ranges));
  }
};

inline void put_access_set(std::ostream& out, std::string_view field, const access_set& s,
                           bool if_empty) {
  if (s.empty() && !if_empty) return;
  out << ",\"" << field << "\":[";
  const char* separator = "";
  for (const byte_range& r : s.ranges()) {
    out << separator << '[' << r.first << ',' << r.bytes() << ']';
    separator = ",";
  }
  out << ']';
}

} // namespace detail

/// Reads an access trace: {"model": "...", "operations": [{"kind": "kernel", "name": "...",
/// "reads": [[address, bytes], ...], "writes": [...], "writes_first": [...], "assumed": true,
/// "declared": "idempotent"}, ...]}. Required are `model`, `operations` and `kind`; `reads` for
/// kernels and copies; `writes` or `writes_first` for kernels, copies and memsets. [] means none.
/// `name` names the text in errors.
///
/// Errors   bad_profile, one line: file, JSON pointer, what is wrong, what was expected.
/// Cost     O(text).
[[nodiscard]] inline access_trace parse_access_trace(std::string_view text, std::string name) {
  if (text.size() > max_access_trace_bytes)
    throw error(errc::bad_profile, name + ": too large, expected at most " +
                                       std::to_string(max_access_trace_bytes >> 20) + " MiB");
  return detail::access_reader(std::move(name)).read(text);
}

/// Reads an access trace from a file.
///
/// Errors   those of parse_access_trace; io if the file cannot be read.
[[nodiscard]] inline access_trace load_access_trace(const std::filesystem::path& path) {
  return parse_access_trace(read_text(path, "an access trace's file", max_access_trace_bytes),
                            path.string());
}

/// Writes what load_access_trace reads, one operation a line. Equal traces give equal bytes.
///
/// Errors   none; the caller checks the stream.
inline void write_access_trace(std::ostream& out, const access_trace& t) {
  out << "{\"model\": ";
  trace::put_text(out, t.model);
  out << ", \"operations\": [";
  const char* separator = "\n";
  for (const operation_access& o : t.operations) {
    out << separator << "{\"kind\":";
    for (const auto& [name, k] : detail::access_kinds)
      if (k == o.kind) out << '"' << name << '"';
    if (!o.name.empty()) {
      out << ",\"name\":";
      trace::put_text(out, o.name);
    }
    detail::put_access_set(out, "reads", o.reads, detail::states_reads(o.kind));
    detail::put_access_set(out, "writes", o.writes, detail::states_writes(o.kind));
    detail::put_access_set(out, "writes_first", o.writes_first, false);
    if (o.assumed) out << ",\"assumed\":true";
    for (const auto& [name, d] : detail::declarations)
      if (d == o.says) out << ",\"declared\":\"" << name << '"';
    out << '}';
    separator = ",\n";
  }
  out << "\n]}\n";
}

/// Writes an access trace to a file.
///
/// Errors   those of write_access_trace; io if the file cannot be written.
inline void write_access_trace(const std::filesystem::path& path, const access_trace& t) {
  std::ofstream out(path, std::ios::binary);
  write_access_trace(out, t);
  out.close();
  if (!out) throw error(errc::io, path.string() + ": cannot be written, expected a writable path");
}

} // namespace gsched
