// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/checked_json.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/sim/preset_fields_json.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Reads a preset's fields out of a document and refuses what is not as expected, fields that it
/// does not know included: a misspelt one would leave a default in place that nobody wanted.
class preset_reader : json_fields {
public:
  static constexpr std::uint64_t version = 1;

  explicit preset_reader(std::string file) : json_fields(std::move(file)) {}

  [[nodiscard]] sim::preset read(std::string_view text, sim::preset_provenance& f) {
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
    if (p.host.block_notice > p.host.segment_notice)
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

  /// A file from before there were such fields keeps their defaults.
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
  std::string path_; ///< of node_, with a slash behind it
  std::string at_;   ///< of the field that was last looked for
  std::vector<std::string_view> seen_;
};

} // namespace gsched::detail
