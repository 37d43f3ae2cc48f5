// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/preset.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// The origin of a preset's values. All fields are free text.
struct preset_provenance {
  std::string gpu;    ///< as the driver names it: "NVIDIA H200"
  std::string driver; ///< "580.95" or "CUDA 13.0"
  std::string runtime;
  std::string date;
  std::string host;
  /// JSON pointers of values that are the library's defaults, not measured: "/laws/scaling".
  std::vector<std::string> kept;

  bool operator==(const preset_provenance&) const = default;
};

} // namespace gsched

namespace gsched::detail {

/// Passes each field of a preset to visitor `v`, with its name in the file and its range. Reader
/// and writer both use it, so neither can miss a field. A new field of the structure breaks the
/// structured bindings below at compile time.
template <class Preset, class Visitor>
void visit_fields(Preset& p, Visitor& v) {
  constexpr double big = 1e9;
  constexpr double some = 1e-3; // least divisor: times stay within the range of duration
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
    auto& [scaling, contention, replay, graph, leaving, slack, contended] = g;
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
      auto& [l2_latency, dram_latency, warps, l2, dram, older, clock] = law;
      v.number("l2_latency", l2_latency, 0, 100);
      v.number("dram_latency", dram_latency, 0, 100);
      v.number("warps", warps, 0, 100);
      v.number("l2", l2, 0.01, 100);
      v.number("dram", dram, 0.01, 100);
      v.number("older", older, 0, 1);
      v.number("clock", clock, 0, 100);
    });
    v.group("replay", replay, [&](auto& law) {
      auto& [gap_us, start_us] = law;
      v.number("gap_us", gap_us, 0, 1e6);
      v.number("start_us", start_us, 0, 1e6);
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

/// Whether two sets of limits are equal. A file holds only the compute capability.
[[nodiscard]] inline bool same_limits(const architecture_limits& x, const architecture_limits& y) {
  const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,
               a18] = x;
  const auto& [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15, b16, b17,
               b18] = y;
  return a0 == b0 && a1 == b1 && a2 == b2 && a3 == b3 && a4 == b4 && a5 == b5 && a6 == b6 &&
         a7 == b7 && a8 == b8 && a9 == b9 && a10 == b10 && a11 == b11 && a12 == b12 && a13 == b13 &&
         a14 == b14 && a15 == b15 && a16 == b16 && a17 == b17 && std::ranges::equal(a18, b18);
}

/// Writes a preset's fields into a JSON document, in the order of visit_fields.
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
  /// Divides, so that the shortest decimal form is printed: 2.29.
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

namespace gsched::detail {

/// Reads a preset's fields from a JSON document. Unknown fields are errors: a misspelt field would
/// silently keep a default.
class preset_reader : json_fields {
public:
  static constexpr std::uint64_t version = 3;

  explicit preset_reader(std::string file) : json_fields(std::move(file)) {}

  [[nodiscard]] sim::preset read(std::string_view text, preset_provenance& f) {
    const json document = parse_once(text);
    if (!document.is_object()) fail({}, "is " + kind_of(document), "an object");
    node_ = &document;
    std::uint32_t of_version = 0;
    count("gsched_preset", of_version, version, version);
    group("measured", f, [&](auto&) {
      text_of("gpu", f.gpu);
      text_of("driver", f.driver);
      text_of("runtime", f.runtime);
      text_of("date", f.date);
      text_of("host", f.host);
      list("kept", f.kept);
    });
    sim::preset p;
    visit_fields(p, *this);
    refuse_unknown();
    if (p.host.block_notification > p.host.segment_notification)
      fail({.field = "host/block_notice_us"}, "is above segment_notice_us",
           "at most that, as ends come last");
    p.check();
    return p;
  }

  void text(const char* key, std::string& s) {
    text_of(key, s);
    if (s.empty()) fail({.field = at_}, "is empty", "a name");
  }
  void architecture(const char* key, architecture_limits& l) {
    std::string capability;
    text_of(key, capability);
    for (const architecture_row& row : architecture_rows)
      if (capability == std::to_string(row.major) + "." + std::to_string(row.minor)) {
        l = limits_of(row);
        return;
      }
    fail({.field = at_}, "is " + show(capability),
         "a known compute capability, 7.0 to 12.1, such as \"9.0\"");
  }
  void count(const char* key, std::uint32_t& n, std::uint64_t least, std::uint64_t most) {
    const json& value = find(key, range(least, most));
    n = static_cast<std::uint32_t>(whole_of(value, {.field = at_}, least, most));
  }
  void count(const char* key, sm_count& n, std::uint64_t least, std::uint64_t most) {
    std::uint32_t raw = 0;
    count(key, raw, least, most);
    n = sm_count{raw};
  }
  void time(const char* key, duration& d) {
    const json& value = find(key, "a time in microseconds");
    d = time_of(value, {.field = at_}, false);
  }
  void number(const char* key, double& x, double least, double most) {
    const std::string expected = "a number from " + json(least).dump() + " to " + json(most).dump();
    const json& value = find(key, expected);
    if (!value.is_number()) fail({.field = at_}, "is " + show(value), expected);
    x = value.get<double>() + 0.0; // -0.0 is 0
    if (!(x >= least && x <= most)) fail({.field = at_}, "is " + show(value), expected);
  }
  void flag(const char* key, bool& b) {
    const json& value = find(key, "true or false");
    if (!value.is_boolean()) fail({.field = at_}, "is " + show(value), "true or false");
    b = value.get<bool>();
  }
  template <class Group, class Fields>
  void group(const char* key, Group& into, Fields fields) {
    const json& inner = find(key, "an object");
    if (!inner.is_object()) fail({.field = at_}, "is " + show(inner), "an object");
    const json* const outer = std::exchange(node_, &inner);
    const std::string outer_path = std::exchange(path_, at_ + "/");
    std::vector<std::string_view> outer_seen = std::exchange(seen_, {});
    fields(into);
    refuse_unknown();
    node_ = outer;
    path_ = outer_path;
    seen_ = std::move(outer_seen);
  }

  /// Reads a group if it exists. Files from before the group was added keep its defaults.
  template <class Group, class Fields>
  void optional_group(const char* key, Group& into, Fields fields) {
    if (node_->contains(key)) return group(key, into, fields);
    seen_.push_back(key);
  }

private:
  const json& find(const char* key, const std::string& expected) {
    seen_.push_back(key);
    at_ = path_ + key;
    const auto found = node_->find(key);
    if (found == node_->end()) fail({.field = at_}, "is missing", expected);
    return *found;
  }
  void text_of(const char* key, std::string& s) {
    const json& value = find(key, "a string");
    s = line_of(value, {.field = at_});
  }
  [[nodiscard]] std::string line_of(const json& value, const place& at) const {
    if (!value.is_string()) fail(at, "is " + show(value), "a string");
    const auto& s = value.get_ref<const std::string&>();
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::any_of(s.begin(), s.end(), control))
      fail(at, "has a control character", "text of one line");
    return s;
  }
  void list(const char* key, std::vector<std::string>& texts) {
    const json& value = find(key, "an array");
    if (!value.is_array()) fail({.field = at_}, "is " + show(value), "an array");
    texts.clear();
    for (std::size_t i = 0; i < value.size(); ++i)
      texts.push_back(line_of(value[i], {.field = at_, .element = i}));
  }
  void refuse_unknown() {
    for (const auto& [key, value] : node_->items())
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) {
        std::string known;
        for (const std::string_view k : seen_) known.append(known.empty() ? "" : ", ").append(k);
        fail({.field = path_.empty() ? path_ : std::string_view(path_).substr(0, path_.size() - 1)},
             "has the unknown key " + show(json(key)), "only " + known);
      }
  }

  const json* node_ = nullptr;
  std::string path_; ///< of node_, with a trailing slash
  std::string at_;   ///< path of the last field looked up
  std::vector<std::string_view> seen_;
};

} // namespace gsched::detail

namespace gsched {

/// The origin of h200(); tools/data/presets/h200.json is written with it.
[[nodiscard]] inline preset_provenance h200_provenance() {
  return {"NVIDIA H200", "580", "CUDA 13.0", "2026-11-20", "", {}};
}

/// A larger preset is an error; its text is not parsed.
inline constexpr std::size_t max_preset_bytes = std::size_t{1} << 20;

/// Reads a preset, and its origin into `from` if that is not null. `name` names the text in errors.
///
/// Errors   bad_profile, one line: file, JSON pointer, what is wrong, what was expected. A field
///          that is missing, unknown, duplicated, of the wrong type or out of range is an error.
[[nodiscard]] inline sim::preset parse_preset(std::string_view text, std::string name,
                                              preset_provenance* from = nullptr) {
  if (text.size() > max_preset_bytes)
    throw error(errc::bad_profile, name + ": too large, expected at most " +
                                       std::to_string(max_preset_bytes >> 20) + " MiB");
  preset_provenance found;
  sim::preset p = detail::preset_reader(std::move(name)).read(text, found);
  if (from != nullptr) *from = std::move(found);
  return p;
}

/// Reads a preset from a file.
///
/// Errors   those of parse_preset; io if the file cannot be read.
[[nodiscard]] inline sim::preset load_preset(const std::filesystem::path& path,
                                             preset_provenance* from = nullptr) {
  return parse_preset(read_text(path, "a preset's file", max_preset_bytes), path.string(), from);
}

/// Writes what load_preset reads. Equal presets give equal bytes, and reading them back gives an
/// equal preset.
///
/// Errors   bad_option for a preset that a file cannot hold: values out of range, or limits other
///          than those of its compute capability. The caller checks the stream.
inline void write_preset(std::ostream& out, const sim::preset& p,
                         const preset_provenance& from = {}) {
  const architecture_limits known = limits_for(p.sm.major, p.sm.minor);
  if (!detail::same_limits(p.sm, known))
    throw error(errc::bad_option, "preset " + p.name + ": sm differs from compute capability " +
                                      std::to_string(p.sm.major) + "." +
                                      std::to_string(p.sm.minor) + ", expected its limits");
  nlohmann::ordered_json document{{"gsched_preset", detail::preset_reader::version},
                                  {"measured",
                                   {{"gpu", from.gpu},
                                    {"driver", from.driver},
                                    {"runtime", from.runtime},
                                    {"date", from.date},
                                    {"host", from.host},
                                    {"kept", from.kept}}}};
  detail::preset_writer fields(document);
  detail::visit_fields(p, fields);
  std::string text;
  try {
    text = document.dump(2, ' ', true) + '\n';
    static_cast<void>(parse_preset(text, "preset"));
  } catch (const nlohmann::json::exception&) {
    throw error(errc::bad_option, "preset: has text that is not UTF-8, expected UTF-8");
  } catch (const error& e) {
    throw error(errc::bad_option, e.what());
  }
  out << text;
}

/// Writes a preset to a file.
///
/// Errors   those of write_preset; io if the file cannot be written.
inline void write_preset(const std::filesystem::path& path, const sim::preset& p,
                         const preset_provenance& from = {}) {
  std::ofstream out(path, std::ios::binary);
  if (!out) throw error(errc::io, path.string() + ": cannot be opened, expected a writable path");
  write_preset(out, p, from);
  out.close();
  if (!out) throw error(errc::io, path.string() + ": cannot be written, expected a writable path");
}

/// The properties that distinguish GPUs.
struct gpu_identity {
  std::string name; ///< as the driver names it
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  sm_count sms{};
};

/// One line that says why a preset is not of this GPU; empty if it may be.
///
/// Differs  a preset without a GPU name is compared by its SMs only.
[[nodiscard]] inline std::string mismatch(const sim::preset& p, const preset_provenance& from,
                                          const gpu_identity& gpu) {
  const auto said = [](const std::string& name, std::uint32_t major, std::uint32_t minor,
                       sm_count sms) {
    return (name.empty() ? "" : name + ", ") + std::to_string(sms.count()) +
           " SMs of compute capability " + std::to_string(major) + "." + std::to_string(minor);
  };
  const bool same = p.sms == gpu.sms && p.sm.major == gpu.major && p.sm.minor == gpu.minor &&
                    (from.gpu.empty() || from.gpu == gpu.name);
  if (same) return {};
  return "preset " + p.name + ": of " + said(from.gpu, p.sm.major, p.sm.minor, p.sms) +
         ", expected one of this GPU: " + said(gpu.name, gpu.major, gpu.minor, gpu.sms);
}

} // namespace gsched
