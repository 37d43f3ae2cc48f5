// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/partition/gpu_shape.hpp>

#include <nlohmann/json.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched {

/// Where measurements come from: the GPU, and the versions of what ran on it. The file machine.json
/// beside the files with measurements.
struct machine {
  std::string gpu;                ///< the driver's name: "NVIDIA H200"
  std::string compute_capability; ///< "9.0"
  sm_count sms{};
  std::vector<std::uint32_t> sm_groups; ///< the SMs of each group that a partition can have
  byte_count l2{};                      ///< 0 where it is not known, as of memory
  byte_count memory{};
  std::string driver;                           ///< "580.65.06"; empty where it is not known
  std::string cuda;                             ///< "13.0"
  std::map<std::string, std::string> libraries; ///< versions by name, such as torch and cudnn
  std::string gsched;
  std::string date; ///< "2026-11-20"

  bool operator==(const machine&) const = default;

  /// The sizes that partitions can have.
  [[nodiscard]] gpu_shape shape() const noexcept {
    return {sms, sm_count{sm_groups.empty() ? sms.count() : sm_groups.front()}};
  }
};

/// The limits of the machine's SMs.
///
/// Errors   bad_profile for a compute capability that is not MAJOR.MINOR; as limits_for.
[[nodiscard]] inline architecture_limits limits_of(const machine& m) {
  const std::string& text = m.compute_capability;
  const char* const end = text.data() + text.size();
  std::uint32_t major = 0, minor = 0;
  const auto [point, ec] = std::from_chars(text.data(), end, major);
  if (ec == std::errc{} && point != end && *point == '.') {
    const auto [stop, wrong] = std::from_chars(point + 1, end, minor);
    if (wrong == std::errc{} && stop == end) return limits_for(major, minor);
  }
  throw error(errc::bad_profile,
              m.gpu + ": compute capability '" + text + "', expected one as 9.0");
}

/// Why measurements of two machines cannot be used together, as "NVIDIA H100, not NVIDIA H200";
/// empty if they can.
[[nodiscard]] inline std::string gpu_difference(const machine& found, const machine& expected) {
  if (found.gpu != expected.gpu) return found.gpu + ", not " + expected.gpu;
  if (found.compute_capability != expected.compute_capability)
    return "compute capability " + found.compute_capability + ", not " +
           expected.compute_capability;
  if (found.sms != expected.sms)
    return std::to_string(found.sms.count()) + " SMs, not " + std::to_string(expected.sms.count());
  if (found.sm_groups != expected.sm_groups) return "other groups of SMs";
  return {};
}

/// The versions that differ between two machines, as "driver 580.65.06, not 570.1; torch 2.11, not
/// 2.10". Versions that one of them lacks are not compared; empty if there is no difference.
[[nodiscard]] inline std::string version_difference(const machine& found, const machine& expected) {
  std::string all;
  const auto compare = [&](const std::string& name, const std::string& a, const std::string& b) {
    if (a.empty() || b.empty() || a == b) return;
    all += (all.empty() ? "" : "; ") + name + " " + a + ", not " + b;
  };
  compare("driver", found.driver, expected.driver);
  compare("CUDA", found.cuda, expected.cuda);
  for (const auto& [name, version] : found.libraries)
    if (const auto other = expected.libraries.find(name); other != expected.libraries.end())
      compare(name, version, other->second);
  compare("gsched", found.gsched, expected.gsched);
  return all;
}

/// A larger file is an error; its text is not parsed.
inline constexpr std::size_t max_machine_bytes = std::size_t{1} << 20;

/// Reads what write_machine writes. `name` names the text in errors. Unknown keys are ignored.
///
/// Errors   bad_profile, one line: file, JSON pointer, what is wrong, what was expected. Groups
///          have to make up all SMs.
/// Cost     O(text).
[[nodiscard]] inline machine parse_machine(std::string_view text, std::string name) {
  if (text.size() > max_machine_bytes)
    throw error(errc::bad_profile, name + ": too large, expected at most " +
                                       std::to_string(max_machine_bytes >> 20) + " MiB");
  constexpr std::uint32_t most_sms = 100000;
  const json_fields fields(std::move(name));
  const nlohmann::json document = fields.parse_once(text);
  if (!document.is_object()) fields.fail({}, "is " + json_fields::show(document), "a JSON object");
  const auto place = [](std::string_view field) {
    return json_fields::place{json_fields::none, field};
  };
  const auto label = [&](std::string_view field) {
    return document.contains(field) ? fields.label(document, place(field)) : std::string();
  };
  const auto bytes = [&](std::string_view field) {
    if (!document.contains(field)) return byte_count{};
    return byte_count{
        fields.whole<std::uint64_t>(document, place(field), 0, std::uint64_t{1} << 50)};
  };
  machine m;
  m.gpu = fields.label(document, place("gpu"));
  if (m.gpu.empty()) fields.fail(place("gpu"), "is empty", "the GPU's name");
  m.compute_capability = fields.label(document, place("compute_capability"));
  m.sms = sm_count{fields.whole<std::uint32_t>(document, place("sms"), 1, most_sms)};
  const nlohmann::json& groups = fields.array(document, place("sm_groups"));
  for (std::size_t i = 0; i < groups.size(); ++i)
    m.sm_groups.push_back(static_cast<std::uint32_t>(
        fields.whole_of(groups[i], {json_fields::none, "sm_groups", i}, 1, most_sms)));
  if (const auto sum = std::accumulate(m.sm_groups.begin(), m.sm_groups.end(), std::uint64_t{0});
      sum != m.sms.count())
    fields.fail(place("sm_groups"), "has " + std::to_string(sum) + " SMs",
                "all " + std::to_string(m.sms.count()));
  m.l2 = bytes("l2_bytes");
  m.memory = bytes("memory_bytes");
  m.driver = label("driver");
  m.cuda = label("cuda");
  if (const auto libraries = document.find("libraries"); libraries != document.end()) {
    if (!libraries->is_object())
      fields.fail(place("libraries"), "is " + json_fields::show(*libraries),
                  "an object of versions");
    for (const auto& [key, version] : libraries->items())
      m.libraries[key] = fields.label(*libraries, place(key));
  }
  m.gsched = label("gsched");
  m.date = label("date");
  return m;
}

/// Reads a machine from a file.
///
/// Errors   those of parse_machine; io if the file cannot be read.
[[nodiscard]] inline machine load_machine(const std::filesystem::path& path) {
  return parse_machine(read_text(path, "a machine's file", max_machine_bytes), path.string());
}

/// The machine of a file with measurements: machine.json beside it, or one folder above, as for the
/// profiles of a folder. Empty if there is none.
///
/// Errors   as load_machine.
[[nodiscard]] inline std::optional<machine> machine_of(const std::filesystem::path& measurements) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::absolute(measurements, ignored);
  for (const std::filesystem::path& folder : {file.parent_path(), file.parent_path().parent_path()})
    if (const auto found = folder / "machine.json"; std::filesystem::exists(found, ignored))
      return load_machine(found);
  return std::nullopt;
}

/// Writes what parse_machine reads. Equal machines give equal bytes.
///
/// Errors   none; the caller checks the stream.
inline void write_machine(std::ostream& out, const machine& m) {
  nlohmann::ordered_json document{{"gpu", m.gpu},
                                  {"compute_capability", m.compute_capability},
                                  {"sms", m.sms.count()},
                                  {"sm_groups", m.sm_groups},
                                  {"l2_bytes", m.l2.count()},
                                  {"memory_bytes", m.memory.count()},
                                  {"driver", m.driver},
                                  {"cuda", m.cuda},
                                  {"libraries", nlohmann::ordered_json::object()},
                                  {"gsched", m.gsched},
                                  {"date", m.date}};
  for (const auto& [name, version] : m.libraries) document["libraries"][name] = version;
  out << document.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

} // namespace gsched
