// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/app_json.hpp"

#include "parts/values.hpp"

#include <gsched/job/checked_json.hpp>
#include <gsched/job/text_file_json.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace serve_partitions {

namespace {

using gsched::duration;
using gsched::errc;
using gsched::error;
using gsched::latency_table;
using gsched::to_us;
using gsched::sim::app;
using gsched::sim::app_stage;

constexpr std::size_t max_app_bytes = std::size_t{1} << 20;

class app_reader : gsched::detail::json_fields {
public:
  app_reader(std::string file, const latency_table& t)
      : json_fields(file), file_(std::move(file)), table_(t) {}

  [[nodiscard]] app read(std::string_view text) {
    const json document = parse_once(text);
    if (!document.is_object()) fail({}, "is " + kind_of(document), "an object");
    known(document, "", {"gsched_app", "name", "about", "stages"});
    static_cast<void>(whole<std::uint64_t>(document, {.field = "gsched_app"}, 1, 1));
    app a;
    a.name = label(document, {.field = "name"});
    const json& stages = array(document, {.field = "stages"});
    if (stages.empty() || stages.size() > app::most_stages)
      fail({.field = "stages"}, "has " + std::to_string(stages.size()) + " elements", "1 to 16");
    for (std::size_t i = 0; i < stages.size(); ++i) read_stage(a, stages[i], i);
    return a;
  }

private:
  void known(const json& node, const std::string& path, const std::vector<std::string>& fields) {
    for (const auto& [key, value] : node.items())
      if (std::find(fields.begin(), fields.end(), key) == fields.end())
        fail({.field = path + key}, "is not a field", "one that the format has");
  }

  void read_stage(app& a, const json& node, std::size_t i) {
    const std::string path = "stages/" + std::to_string(i) + "/";
    const auto where = [&](const json& value, const char* field) {
      if (!value.is_object()) fail({.field = path}, "is " + kind_of(value), "an object");
      if (!value.contains(field)) fail({.field = path + field}, "is missing", "a value");
      return value.at(field);
    };
    const json model = where(node, "model"), name = where(node, "name");
    known(node, path, {"name", "model", "requests", "after"});
    if (!model.is_string()) fail({.field = path + "model"}, "is " + show(model), "a string");
    if (!name.is_string()) fail({.field = path + "name"}, "is " + show(name), "a string");
    const auto found = table_.find(model.get<std::string>());
    if (!found)
      throw error(errc::unknown_name, file_ + ": /" + path + "model is " + show(model) +
                                          ", expected a model of the table");
    app_stage s{*found, 1, {}};
    if (node.contains("requests"))
      s.requests = static_cast<std::uint32_t>(
          whole_of(node.at("requests"), {.field = path + "requests"}, 1, 1000));
    if (node.contains("after")) {
      if (!node.at("after").is_array())
        fail({.field = path + "after"}, "is " + show(node.at("after")), "an array");
      for (const json& before : node.at("after")) {
        const auto at = std::find(names_.begin(), names_.end(), before);
        if (at == names_.end())
          fail({.field = path + "after"}, "has " + show(before), "names of stages above");
        s.after.push_back(static_cast<std::size_t>(at - names_.begin()));
      }
    }
    names_.push_back(name);
    a.stages.push_back(std::move(s));
  }

  std::string file_;
  const latency_table& table_;
  std::vector<json> names_;
};

} // namespace

app parse_app(std::string_view text, std::string name, const latency_table& t,
              std::span<const duration> slos) {
  app a = app_reader(std::move(name), t).read(text);
  std::vector<duration> until;
  for (const app_stage& s : a.stages) {
    duration from{};
    for (const std::size_t before : s.after) from = std::max(from, until[before]);
    until.push_back(from + slos[s.model]);
    a.slo = std::max(a.slo, until.back());
  }
  check(a);
  return a;
}

std::vector<duration> stage_slos(const app& a, std::span<const duration> slos) {
  std::vector<duration> until(a.stages.size()), after(a.stages.size()); // the slowest way there, on
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    for (const std::size_t before : a.stages[s].after) until[s] = std::max(until[s], until[before]);
    until[s] += slos[a.stages[s].model];
  }
  for (std::size_t s = a.stages.size(); s-- > 0;)
    for (const std::size_t before : a.stages[s].after)
      after[before] = std::max(after[before], slos[a.stages[s].model] + after[s]);
  std::vector<duration> each;
  for (std::size_t s = 0; s < a.stages.size(); ++s)
    each.push_back(duration{static_cast<duration::rep>(
        to_us(slos[a.stages[s].model]) * 1e3 * (to_us(a.slo) / to_us(until[s] + after[s])))});
  return each;
}

app read_app(const std::string& file_or_name, const latency_table& t,
             std::span<const duration> slos) {
  const std::filesystem::path ships = parts::shipped("apps") / (file_or_name + ".json");
  const std::filesystem::path file =
      std::filesystem::exists(ships) ? ships : std::filesystem::path(file_or_name);
  return parse_app(
      gsched::detail::whole_text(file, "an app's file, or one that ships", max_app_bytes),
      file.string(), t, slos);
}

} // namespace serve_partitions
