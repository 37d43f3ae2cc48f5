// SPDX-License-Identifier: Apache-2.0
#include "interference/report.hpp"

#include "interference/paper.hpp"

#include "common/report/json.hpp"

#include <gsched/io/coefficients_json.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

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

std::string shown(const corun_side& s) { return fmt::format("{}_b{}", s.model, s.batch); }

std::string shown(const std::set<model_batch>& those) {
  std::string all;
  for (const auto& [model, batch] : those)
    all += fmt::format("{}{}_b{}", all.empty() ? "" : ", ", model, batch);
  return all;
}

void note(std::ostream& out, const std::string& file, const workloads* from) {
  if (from != nullptr && !from->without_profile().empty())
    fmt::print(out, "{}: no profile, so estimated from solo metrics alone: {}\n", file,
               shown(from->without_profile()));
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

json side_json(const corun_side& s) {
  return {{"model", s.model}, {"batch", s.batch}, {"sms", s.sms.count()}};
}

/// Names what the prediction of a group is extrapolated in, if it is.
void add_beyond(json& one, const seen_range& seen, const known_group& g) {
  const std::string beyond = beyond_seen(seen, g);
  if (!beyond.empty()) one["beyond_the_fit"] = beyond;
}

json predictions_json(const findings& f, const group_set& groups, const seen_range& seen) {
  json all = json::array();
  for (const prediction& p : f.test_predictions) {
    const known_group& g = groups.groups[p.group];
    const corun_side& row = g.sides[p.side].row;
    json one{{"of", side_json(row)},
             {"measured", rounded(row.slowdown())},
             {"predicted", rounded(p.slowdown)}};
    json others = json::array();
    for (std::size_t i = 0; i < g.sides.size(); ++i)
      if (i != p.side) others.push_back(side_json(g.sides[i].row));
    one["beside"] = others.size() == 1 ? others[0] : others;
    add_beyond(one, seen, g);
    all.push_back(std::move(one));
  }
  return all;
}

/// Errors of the rows that belong to a suite of probes, or of all where it is empty.
struct probe_errors {
  std::vector<double> victims, probes;
};

std::set<std::string> suites_of(const options& o) {
  std::set<std::string> names;
  for (const known_group& g : o.probes.groups) names.insert(g.name);
  return names;
}

/// A row beside a probe, with the predicted slow-downs of both sides, the probe's first.
struct probe_row {
  const known_group* group = nullptr;
  std::vector<double> slow;

  [[nodiscard]] bool of_probes() const { return group->sides[1].row.model.starts_with("probe_"); }
};

std::vector<probe_row> rows_of_probes(const options& o, const interference_coefficients& c) {
  std::vector<probe_row> rows;
  for (const known_group& g : o.probes.groups) rows.push_back({&g, predict(c, g, true)});
  return rows;
}

std::vector<double> slowdowns_of_kernels(const options& o, const interference_coefficients& c) {
  std::vector<double> slow;
  for (const known_group& g : o.kernels.groups)
    slow.push_back(predict(c, g, true, nullptr, g.window)[1]);
  return slow;
}

/// Errors of single kernels, by the probe beside them, and of all.
std::map<std::string, std::vector<double>> errors_of_kernels(const options& o,
                                                             const std::vector<double>& slow) {
  std::map<std::string, std::vector<double>> by_probe;
  for (std::size_t i = 0; i < slow.size(); ++i) {
    const known_group& g = o.kernels.groups[i];
    const double e = relative_error(slow[i], g.sides[1].row.slowdown());
    by_probe[g.name].push_back(e);
    by_probe["all"].push_back(e);
  }
  return by_probe;
}

template <class If>
probe_errors errors_of(const std::vector<probe_row>& rows, If counts) {
  probe_errors e;
  for (const probe_row& r : rows) {
    if (!counts(r)) continue;
    e.probes.push_back(relative_error(r.slow[0], r.group->sides[0].row.slowdown()));
    e.victims.push_back(relative_error(r.slow[1], r.group->sides[1].row.slowdown()));
  }
  return e;
}

/// Errors of all rows by what is beside a probe and where, then those of each suite: a name, and
/// the errors.
std::vector<std::pair<std::string, probe_errors>>
errors_beside_probes(const options& o, const std::vector<probe_row>& rows) {
  std::vector<std::pair<std::string, probe_errors>> all;
  for (const bool probes : {false, true})
    for (const bool shared : {false, true})
      all.emplace_back(fmt::format("{}, {}", probes ? "all probes" : "all graphs",
                                   shared ? "shared SMs" : "SMs of their own"),
                       errors_of(rows, [&](const probe_row& r) {
                         return r.of_probes() == probes && r.group->shared == shared;
                       }));
  for (const std::string& suite : suites_of(o))
    all.emplace_back(suite,
                     errors_of(rows, [&](const probe_row& r) { return r.group->name == suite; }));
  std::erase_if(all, [](const auto& named) { return named.second.victims.empty(); });
  return all;
}

void print_rules(std::ostream& out, const group_set& groups, const std::string& file,
                 const std::vector<rule_result>& rules, double safe) {
  const bool any = std::any_of(groups.groups.begin(), groups.groups.end(),
                               [](const known_group& g) { return g.shared; });
  if (!any) return;
  fmt::print(out, "\n{}: which groups may share all SMs, slowed at most {:.2f} times\n", file,
             safe);
  fmt::print(out, "{:<24}{:>36}{:>36}\n", "", "as many as the law", "by the rule's own limit");
  fmt::print(out, "{:<24}{:>10}{:>12}{:>14}{:>10}{:>12}{:>14}\n", "rule", "admitted", "false safe",
             "false unsafe", "admitted", "false safe", "false unsafe");
  for (const rule_result& r : rules)
    fmt::print(out, "{:<24}{:>10}{:>12}{:>14}{:>10}{:>12}{:>14}\n", r.name, r.as_many.admitted,
               r.as_many.false_safe, r.as_many.false_unsafe, r.its_own.admitted,
               r.its_own.false_safe, r.its_own.false_unsafe);
}

json rules_json(const std::vector<rule_result>& rules) {
  json all = json::array();
  for (const rule_result& r : rules)
    all.push_back({{"rule", r.name},
                   {"admitted", r.as_many.admitted},
                   {"false_safe", r.as_many.false_safe},
                   {"false_unsafe", r.as_many.false_unsafe},
                   {"own_limit",
                    {{"admitted", r.its_own.admitted},
                     {"false_safe", r.its_own.false_safe},
                     {"false_unsafe", r.its_own.false_unsafe}}}});
  return all;
}

} // namespace

void print(std::ostream& out, const options& o, const std::vector<findings>& all,
           const interference_coefficients& c, const rule_tables& rules) {
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
  for (const auto& [name, e] : errors_beside_probes(o, rows_of_probes(o, c))) {
    line(out, "probes", name + ": slowed by one", summary_of(e.victims));
    line(out, "", name + ": that one", summary_of(e.probes));
  }
  if (o.probes.held_up > 0)
    fmt::print(out, "{} rows of --test-probes left out: a kernel waits until the probe ends\n",
               o.probes.held_up);
  if (o.probes.transfers > 0)
    fmt::print(out, "{} rows of --test-probes left out: copies between host and GPU\n",
               o.probes.transfers);
  for (const auto& [name, errors] : errors_of_kernels(o, slowdowns_of_kernels(o, c)))
    line(out, "kernels", name, summary_of(errors));
  if (o.kernels.held_up + o.kernels.brief > 0)
    fmt::print(out,
               "rows of --test-kernels left out: {} of kernels that wait until the probe ends, "
               "{} of kernels of less than 10 us\n",
               o.kernels.held_up, o.kernels.brief);
  note(out, o.corun, o.fitted_with.get());
  note(out, o.test_corun, o.tested_with.get());
  for (const auto& [groups, which] : {std::pair{&o.test.groups, "other rows"},
                                      std::pair{&o.probes.groups, "rows of --test-probes"},
                                      std::pair{&o.kernels.groups, "rows of --test-kernels"}}) {
    std::size_t beyond = 0;
    for (const known_group& g : *groups) beyond += !beyond_seen(c.seen, g).empty();
    if (beyond > 0)
      fmt::print(out, "{} of {} {} exceed the demands that the fit has seen (--json names them)\n",
                 beyond, groups->size(), which);
  }
  print_rules(out, o.pairs, o.corun, rules.pairs, o.safe);
  if (!o.test.groups.empty()) print_rules(out, o.test, "other rows", rules.test, o.safe);
  if (o.what != command::fit) return;
  std::ostringstream text;
  write_coefficients(text, c);
  out << "coefficients " << text.str();
}

void write_json(std::ostream& out, const options& o, const std::vector<findings>& all,
                const interference_coefficients& c, const rule_tables& rules) {
  json j{{"corun", o.corun}, {"solo", o.solo}};
  if (!o.test.groups.empty()) {
    j["test_corun"] = o.test_corun;
    j["test_solo"] = o.test_solo;
  }
  j["fitted"] = !o.given;
  j["models"] = o.pairs.models;
  std::ostringstream text;
  write_coefficients(text, c);
  j["coefficients"] = json::parse(text.str());
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
    j["laws"][name] = {{"errors", std::move(errors)}};
    if (!o.test.groups.empty())
      j["laws"][name]["test_predictions"] = predictions_json(f, o.test, c.seen);
  }
  const std::vector<probe_row> rows = rows_of_probes(o, c);
  for (const auto& [name, e] : errors_beside_probes(o, rows)) {
    j["probes"][name] = {{"victims", summary_json(summary_of(e.victims))},
                         {"probes", summary_json(summary_of(e.probes))}};
  }
  if (!o.probes.groups.empty() || o.probes.held_up + o.probes.transfers > 0) {
    j["probe_rows_held_up"] = o.probes.held_up;
    j["probe_rows_transfers"] = o.probes.transfers;
  }
  for (const probe_row& row : rows) {
    const known_group& g = *row.group;
    const std::vector<double>& slow = row.slow;
    json one{{"suite", g.name},
             {"victim", g.sides[1].row.model},
             {"probe", g.sides[0].row.model},
             {"shared", g.shared},
             {"measured", rounded(g.sides[1].row.slowdown())},
             {"predicted", rounded(slow[1])},
             {"probe_measured", rounded(g.sides[0].row.slowdown())},
             {"probe_predicted", rounded(slow[0])}};
    add_beyond(one, c.seen, g);
    j["probe_rows"].push_back(std::move(one));
  }
  const std::vector<double> slow_kernels = slowdowns_of_kernels(o, c);
  for (const auto& [name, errors] : errors_of_kernels(o, slow_kernels))
    j["kernels"][name] = summary_json(summary_of(errors));
  if (!slow_kernels.empty() || o.kernels.held_up + o.kernels.brief > 0) {
    j["kernel_rows_held_up"] = o.kernels.held_up;
    j["kernel_rows_brief"] = o.kernels.brief;
  }
  for (std::size_t i = 0; i < slow_kernels.size(); ++i) {
    const known_group& g = o.kernels.groups[i];
    json one{{"probe", g.name},
             {"model", g.sides[1].row.model},
             {"batch", g.sides[1].row.batch},
             {"operation", g.operation},
             {"measured", rounded(g.sides[1].row.slowdown())},
             {"predicted", rounded(slow_kernels[i])}};
    add_beyond(one, c.seen, g);
    j["kernel_rows"].push_back(std::move(one));
  }
  j["rules"] = rules_json(rules.pairs);
  if (!o.test.groups.empty()) j["test_rules"] = rules_json(rules.test);
  j["without_profile"] = without_json(o.fitted_with->without_profile());
  if (!o.test.groups.empty())
    j["test_without_profile"] = without_json(o.tested_with->without_profile());
  out << j.dump(1) << '\n';
}

void print_predictions(std::ostream& out, const options& o) {
  for (const known_group& g : o.test.groups) {
    const std::vector<double> slow = predict(o.begin, g, true);
    fmt::print(out, "{:<32}{:>6}{:>14}{:>14}{:>10}\n", "graph", "SMs", "alone us", "beside us",
               "slowed");
    for (std::size_t i = 0; i < g.sides.size(); ++i) {
      const corun_side& s = g.sides[i].row;
      const double us = to_us(s.solo);
      fmt::print(out, "{:<32}{:>6}{:>14.1f}{:>14.1f}{:>10.3f}\n", shown(s), s.sms.count(), us,
                 us * slow[i], slow[i]);
    }
    const std::string beyond = beyond_seen(o.begin.seen, g);
    if (!beyond.empty())
      fmt::print(out, "extrapolated: beyond what the fit has seen in {}\n", beyond);
  }
  note(out, "--profiles", o.tested_with.get());
}

void write_predictions(std::ostream& out, const options& o) {
  json all = json::array();
  for (const known_group& g : o.test.groups) {
    const std::vector<double> slow = predict(o.begin, g, true);
    for (std::size_t i = 0; i < g.sides.size(); ++i) {
      json one = side_json(g.sides[i].row);
      one["alone_us"] = rounded(to_us(g.sides[i].row.solo));
      one["slowdown"] = rounded(slow[i]);
      all.push_back(std::move(one));
    }
    out << json{{"graphs", all}, {"beyond_the_fit", beyond_seen(o.begin.seen, g)}}.dump(1) << '\n';
  }
}

void print_calibration(std::ostream& out, const options& o, const calibration& found) {
  const auto number = [](bool known, double x) { return known ? fmt::format("{:.3f}", x) : "-"; };
  fmt::print(out, "{:<40}{:>8}{:>14}{:>12}{:>10}{:>16}{:>15}\n", "graph", "pairs", "sensitivity",
             "pressure", "L2 loss", "start loss, us", "mean pressure");
  for (const auto& [graph, of] : found.graphs)
    fmt::print(out, "{:<40}{:>8}{:>14}{:>12}{:>10}{:>16}{:>15}\n",
               fmt::format("{}_b{}", graph.first, graph.second), of.pairs,
               number(of.pairs > 0, of.factors.sensitivity),
               number(of.pairs > 0, of.factors.pressure),
               number(of.streams > 0, of.lost.part.value_or(0)),
               number(of.at_start.known(), of.at_start.us.value_or(0)),
               number(of.mean_pressure.has_value(), of.mean_pressure.value_or(1)));
  if (o.pairs.groups.empty())
    return note(out,
                !o.streams.empty()  ? o.streams
                : !o.starts.empty() ? o.starts
                                    : o.solo,
                o.fitted_with.get());
  fmt::print(out, "\n{:<16}{:<44}{:>6}{:>9}{:>9}{:>9}{:>9}\n", "law", "errors on these pairs",
             "number", "p50", "p90", "p95", "max");
  line(out, "disjoint", "without factors", found.kernels_before);
  line(out, "", "with them", found.kernels_after);
  line(out, "disjoint_means", "without factors", found.means_before);
  line(out, "", "with them", found.means_after);
  note(out, o.corun, o.fitted_with.get());
}

void write_calibration(std::ostream& out, const options& o, const calibration& found) {
  json graphs = json::array();
  for (const auto& [graph, of] : found.graphs) {
    json one{{"model", graph.first},
             {"batch", graph.second},
             {"pairs", of.pairs},
             {"sensitivity", of.factors.sensitivity},
             {"pressure", of.factors.pressure}};
    if (of.streams > 0) one["l2_loss"] = *of.lost.part;
    if (of.at_start.known()) one["start_loss_us"] = *of.at_start.us;
    if (of.mean_pressure) one["mean_pressure"] = *of.mean_pressure;
    graphs.push_back(std::move(one));
  }
  const auto errors = [](const error_summary& before, const error_summary& after) {
    return json{{"without_factors", summary_json(before)}, {"with_factors", summary_json(after)}};
  };
  json all{{"corun", o.corun}, {"solo", o.solo}, {"graphs", graphs}};
  if (!o.streams.empty()) all["probes"] = o.streams;
  if (!o.starts.empty()) all["starts"] = o.starts;
  if (!o.pairs.groups.empty())
    all["laws"] = {{"disjoint", errors(found.kernels_before, found.kernels_after)},
                   {"disjoint_means", errors(found.means_before, found.means_after)}};
  out << all.dump(1) << '\n';
}

void print_paper(std::ostream& out, const options& o) {
  std::vector<double> errors;
  fmt::print(out, "{:<11}{:<60}{:>10}{:>11}{:>9}\n", "", "", "measured", "predicted", "error");
  for (const published& p : published_measurements(o.begin)) {
    const double e = relative_error(p.predicted, p.measured);
    if (!p.held) errors.push_back(e);
    fmt::print(out, "{:<11}{:<60}{:>10.2f}{:>11.2f}{:>8.1f}%{}\n", p.place, p.what, p.measured,
               p.predicted, 100 * e, p.held ? " gives the victim's demand" : "");
  }
  const error_summary e = summary_of(errors);
  fmt::print(out, "errors of {} rows: p50 {:.1f}%, p90 {:.1f}%, max {:.1f}%\n", e.count,
             100 * e.p50, 100 * e.p90, 100 * e.max);
}

void write_paper(std::ostream& out, const options& o) {
  json all = json::array();
  for (const published& p : published_measurements(o.begin))
    all.push_back({{"place", p.place},
                   {"what", p.what},
                   {"measured", rounded(p.measured)},
                   {"predicted", rounded(p.predicted)},
                   {"gives_the_victims_demand", p.held}});
  out << json{{"rows", all}}.dump(1) << '\n';
}

} // namespace interference
