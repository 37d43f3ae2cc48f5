// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/workload/app.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// A larger app is an error; its text is not parsed.
inline constexpr std::size_t max_app_bytes = std::size_t{1} << 20;

} // namespace gsched

namespace gsched::detail {

/// Reads an app from JSON text for parse_app. Unknown keys are errors.
class app_reader : json_fields {

public:
  app_reader(std::string file, const latency_table& t)
      : json_fields(file), file_(std::move(file)), table_(t) {}

  [[nodiscard]] app read(std::string_view text) {
    if (text.size() > max_app_bytes)
      throw error(errc::bad_profile, file_ + ": is larger than a mebibyte, expected an app");
    const json document = parse_once(text);
    if (!document.is_object()) fail({}, "is " + kind_of(document), "an object");
    only(document, "", {"gsched_app", "name", "about", "stages"});
    static_cast<void>(whole<std::uint64_t>(document, {.field = "gsched_app"}, 1, 1));
    app a;
    a.name = name_of(document, "name", "");
    if (document.contains("about")) static_cast<void>(label(document, {.field = "about"}));
    const json& stages = array(document, {.field = "stages"});
    if (stages.empty() || stages.size() > app::most_stages)
      fail({.field = "stages"}, "has " + std::to_string(stages.size()) + " elements", "1 to 16");
    a.stages.reserve(stages.size());
    for (std::size_t i = 0; i < stages.size(); ++i)
      a.stages.push_back(stage_of(stages[i], "stages/" + std::to_string(i)));
    return a;
  }

private:
  [[nodiscard]] static std::string at(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "/" + key;
  }

  void only(const json& node, const std::string& path,
            std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : node.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        fail({.field = path}, "has the unknown key " + show(json(key)), "one that the format has");
  }

  /// A member that is a name: not empty, without control characters.
  [[nodiscard]] std::string name_of(const json& node, const char* key,
                                    const std::string& path) const {
    const std::string where = at(path, key);
    if (!node.contains(key)) fail({.field = where}, "is missing", "a name");
    const json& value = node.at(key);
    const auto is_control = [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    };
    if (!value.is_string()) fail({.field = where}, "is " + show(value), "a name");
    const auto& s = value.get_ref<const std::string&>();
    if (s.empty() || std::any_of(s.begin(), s.end(), is_control))
      fail({.field = where}, "is " + show(value), "a name one can print");
    return s;
  }

  [[nodiscard]] app_stage stage_of(const json& node, const std::string& path) {
    if (!node.is_object()) fail({.field = path}, "is " + show(node), "an object");
    only(node, path, {"name", "model", "requests", "after"});
    const std::string name = name_of(node, "name", path), model = name_of(node, "model", path);
    if (place_of(name) < names_.size())
      fail({.field = at(path, "name")},
           "is " + show(node.at("name")) + ", as that of a stage above", "a name of its own");
    const auto m = table_.find(model);
    if (!m)
      fail({.field = at(path, "model")}, "is " + show(node.at("model")), "a model of the table",
           errc::unknown_name);
    app_stage s{*m, 1, {}};
    if (const auto n = node.find("requests"); n != node.end())
      s.requests =
          static_cast<std::uint32_t>(whole_of(*n, {.field = at(path, "requests")}, 1, 1000));
    if (const auto after = node.find("after"); after != node.end()) {
      const std::string where = at(path, "after");
      if (!after->is_array()) fail({.field = where}, "is " + show(*after), "an array");
      for (const json& before : *after) {
        const std::size_t i =
            before.is_string() ? place_of(before.get_ref<const std::string&>()) : names_.size();
        if (i == names_.size())
          fail({.field = where}, "has " + show(before), "names of stages above");
        s.after.push_back(i);
      }
    }
    names_.push_back(name);
    return s;
  }

  [[nodiscard]] std::size_t place_of(const std::string& stage) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), stage) -
                                    names_.begin());
  }

  std::string file_;
  const latency_table& table_;
  std::vector<std::string> names_; ///< of stages
};

} // namespace gsched::detail

namespace gsched {

/// Reads an app: {"gsched_app": 1, "name", "about", "stages": [{"name", "model", "requests",
/// "after": [name of an earlier stage, ...]}, ...]}. Optional are "about", "requests" (1) and
/// "after" (none). The app's SLO is 0, as the file has none. `name` names the text in errors.
///
/// Errors   one line with file and JSON pointer: bad_profile; unknown_name for a model that is not
///          in the table.
/// Cost     O(text + stages x models).
[[nodiscard]] inline app parse_app(std::string_view text, std::string name,
                                   const latency_table& t) {
  return detail::app_reader(std::move(name), t).read(text);
}

/// Reads an app from a file.
///
/// Errors   those of parse_app; io if the file cannot be read.
[[nodiscard]] inline app load_app(const std::filesystem::path& file, const latency_table& t) {
  return parse_app(read_text(file, "an app's file", max_app_bytes), file.string(), t);
}

} // namespace gsched
