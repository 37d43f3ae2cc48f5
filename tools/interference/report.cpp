// SPDX-License-Identifier: Apache-2.0
#include "interference/report.hpp"

#include "common/report/json.hpp"

#include <gsched/io/coefficients_json.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cstddef>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <string>

namespace interference {

namespace {

using namespace gsched;
using common::json;
using common::rounded;

void line(std::ostream& out, std::string_view law, const std::string& of,
          const std::optional<error_summary>& e) {
  if (!e) return;
  fmt::print(out, "{:<16}{:<44}{:>6}{:>8.1f}%{:>8.1f}%{:>8.1f}%{:>8.1f}%\n", law, of, e->count,
             100 * e->p50, 100 * e->p90, 100 * e->p95, 100 * e->max);
}

std::string shown(const std::set<model_batch>& those) {
  std::string all;
  for (const auto& [model, batch] : those)
    all += fmt::format("{}{}_b{}", all.empty() ? "" : ", ", model, batch);
  return all;
}

void note(std::ostream& out, const std::string& file, const std::set<model_batch>& without) {
  if (!without.empty())
    fmt::print(out, "{}: no profile, so estimated from solo metrics alone: {}\n", file,
               shown(without));
}

json summary_json(const error_summary& e) {
  return {{"predictions", e.count},
          {"p50", rounded(e.p50)},
          {"p90", rounded(e.p90)},
          {"p95", rounded(e.p95)},
          {"max", rounded(e.max)}};
}

json without_json(const std::set<model_batch>& those) {
  json all = json::array();
  for (const auto& [model, batch] : those) all.push_back({{"model", model}, {"batch", batch}});
  return all;
}

json predictions_json(const findings& f, const pair_set& pairs) {
  json all = json::array();
  for (const prediction& p : f.test_predictions) {
    const corun_pair& row = pairs.pairs()[p.pair].row;
    const auto side = [&](std::size_t i) {
      return json{{"model", row.side[i].model},
                  {"batch", row.side[i].batch},
                  {"sms", row.side[i].sms.count()}};
    };
    all.push_back({{"of", side(p.side)},
                   {"beside", side(1 - p.side)},
                   {"measured", rounded(row.side[p.side].slowdown())},
                   {"predicted", rounded(p.slowdown)}});
  }
  return all;
}

} // namespace

void print(std::ostream& out, const options& o, const std::vector<findings>& all,
           const interference_coefficients& c) {
  fmt::print(out, "{:<16}{:<44}{:>6}{:>9}{:>9}{:>9}{:>9}\n", "law", "errors of", "number", "p50",
             "p90", "p95", "max");
  for (const findings& f : all) {
    line(out, name_of(f.what),
         o.given ? "all rows, by these coefficients" : "rows the fit has seen", f.seen);
    line(out, "", fmt::format("rows left out, a {}th at a time", row_parts), f.rows_left_out);
    line(out, "", "whole models left out", f.models_left_out);
    for (const auto& [model, e] : f.by_model_left_out) line(out, "", "  " + model, e);
    line(out, "", "whole models left out, without profiles", f.without_profiles);
    line(out, "", "other rows", f.test);
    line(out, "", "  of models in the fit", f.test_known);
    line(out, "", "  with a model that is not", f.test_new);
  }
  if (std::any_of(all.begin(), all.end(),
                  [](const findings& f) { return f.what == subject::shared_kernels; })) {
    note(out, o.corun, o.pairs->without_profile());
    if (o.test) note(out, o.test_corun, o.test->without_profile());
  }
  if (!o.fit) return;
  std::ostringstream text;
  write_coefficients(text, c);
  out << "coefficients " << text.str();
}

void write_json(std::ostream& out, const options& o, const std::vector<findings>& all,
                const interference_coefficients& c) {
  json j{{"corun", o.corun}, {"solo", o.solo}};
  if (o.test) {
    j["test_corun"] = o.test_corun;
    j["test_solo"] = o.test_solo;
  }
  j["fitted"] = !o.given;
  j["models"] = o.pairs->models();
  std::ostringstream text;
  write_coefficients(text, c);
  const json coefficients = json::parse(text.str());
  for (const findings& f : all) {
    const std::string name(name_of(f.what));
    json errors{{"seen", summary_json(f.seen)}};
    const auto put = [&](const char* key, const std::optional<error_summary>& e) {
      if (e) errors[key] = summary_json(*e);
    };
    put("rows_left_out", f.rows_left_out);
    put("models_left_out", f.models_left_out);
    for (const auto& [model, e] : f.by_model_left_out)
      errors["models_left_out"]["by_model"][model] = summary_json(e);
    put("models_left_out_without_profiles", f.without_profiles);
    put("test", f.test);
    put("test_known_models", f.test_known);
    put("test_new_models", f.test_new);
    j["laws"][name] = {{"coefficients", coefficients.at(name)}, {"errors", std::move(errors)}};
    if (o.test) j["laws"][name]["test_predictions"] = predictions_json(f, *o.test);
  }
  j["without_profile"] = without_json(o.pairs->without_profile());
  if (o.test) j["test_without_profile"] = without_json(o.test->without_profile());
  out << j.dump(1) << '\n';
}

} // namespace interference
