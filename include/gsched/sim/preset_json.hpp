// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/job/text_file_json.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/sim/preset_fields_json.hpp>
#include <gsched/sim/preset_reader_json.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace gsched::sim {

/// Where h200() comes from; examples/data/presets/h200.json is written with it.
[[nodiscard]] inline preset_provenance h200_provenance() {
  return {"NVIDIA H200", "580", "CUDA 13.0", "2026-11-20", "", {}};
}

/// A preset's JSON is refused beyond this size, before it is parsed.
inline constexpr std::size_t max_preset_bytes = std::size_t{1} << 20;

/// Reads one preset, and where it comes from into `from` if that is not null. `name` stands for the
/// text in errors.
/// Errors   bad_profile, one line: file, JSON pointer, what is wrong, what was expected. A field
///          that is missing, unknown, of the wrong type, out of range or there twice is refused.
[[nodiscard]] inline preset parse_preset(std::string_view text, std::string name,
                                         preset_provenance* from = nullptr) {
  if (text.size() > max_preset_bytes)
    throw error(errc::bad_profile, name + ": too large, expected at most " +
                                       std::to_string(max_preset_bytes >> 20) + " MiB");
  preset_provenance found;
  preset p = gsched::detail::preset_reader(std::move(name)).read(text, found);
  if (from != nullptr) *from = std::move(found);
  return p;
}

/// As parse_preset.
/// Errors   also io if there is no such file or it cannot be read.
[[nodiscard]] inline preset read_preset(const std::filesystem::path& path,
                                        preset_provenance* from = nullptr) {
  return parse_preset(gsched::detail::whole_text(path, "a preset's file", max_preset_bytes),
                      path.string(), from);
}

/// Writes what read_preset reads: equal presets give equal bytes, and what is read back is equal.
/// Errors   bad_option for a preset that no file can hold: values out of range, or SMs other than
///          those of its compute capability; look at the stream for the rest.
inline void write_preset(std::ostream& out, const preset& p, const preset_provenance& from = {}) {
  const architecture_limits known = limits_for(p.sm.major, p.sm.minor);
  if (!gsched::detail::same_limits(p.sm, known))
    throw error(errc::bad_option, "preset " + p.name + ": sm differs from compute capability " +
                                      std::to_string(p.sm.major) + "." +
                                      std::to_string(p.sm.minor) + ", expected its limits");
  nlohmann::ordered_json document{{"gsched_preset", gsched::detail::preset_reader::version},
                                  {"measured",
                                   {{"gpu", from.gpu},
                                    {"driver", from.driver},
                                    {"runtime", from.runtime},
                                    {"date", from.date},
                                    {"host", from.host},
                                    {"kept", from.kept}}}};
  gsched::detail::preset_writer fields(document);
  gsched::detail::visit_fields(p, fields);
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

/// Errors   also io if the file cannot be written.
inline void write_preset(const std::filesystem::path& path, const preset& p,
                         const preset_provenance& from = {}) {
  std::ofstream out(path, std::ios::binary);
  if (!out) throw error(errc::io, path.string() + ": cannot be opened, expected a writable path");
  write_preset(out, p, from);
  out.close();
  if (!out) throw error(errc::io, path.string() + ": cannot be written, expected a writable path");
}

/// What tells one GPU from another.
struct gpu_identity {
  std::string name; ///< as the driver says
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  sm_count sms{};
};

/// Why a preset is not one of this GPU, in one line; empty if it may be.
/// Differs  a preset that does not say which GPU it is of is judged by the SMs alone.
[[nodiscard]] inline std::string mismatch(const preset& p, const preset_provenance& from,
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

} // namespace gsched::sim
