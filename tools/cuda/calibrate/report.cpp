// SPDX-License-Identifier: Apache-2.0
#include "calibrate/report.hpp"

#include "common/report/save.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <ostream>
#include <sstream>

namespace calibrate {

namespace {

using nlohmann::json;

json as_json(const gsched::sim::preset& p) {
  std::ostringstream out;
  gsched::write_preset(out, p);
  return json::parse(out.str());
}

/// `compare` adds the values of h200().
void print_table(const findings& f, bool compare) {
  const json other = compare ? as_json(gsched::sim::h200()) : json();
  fmt::print("{:<34} {:>10} {:<9} {:>8}{} {}\n", "what", "value", "unit", "spread",
             compare ? fmt::format(" {:>10} {:>6}", "sim:h200", "ratio") : "", " how");
  for (const row& r : f.rows) {
    std::string beside;
    if (compare && r.pointer.empty()) beside = fmt::format(" {:>10} {:>6}", "", "");
    if (compare && !r.pointer.empty()) {
      const double theirs = other.at(json::json_pointer(r.pointer)).get<double>();
      const std::string ratio = theirs > 0 ? fmt::format("{:.2f}", r.value / theirs) : "";
      beside = fmt::format(" {:>10.3f} {:>6}", theirs, ratio);
    }
    fmt::print("{:<34} {:>10.3f} {:<9} {:>8.3f}{}  {}\n", r.what, r.value, r.unit, r.spread, beside,
               r.how);
  }
  for (const std::string& pointer : f.from.kept) fmt::print("kept as in sim:h200: {}\n", pointer);
  std::fflush(stdout);
}

void write_rows(std::ostream& out, const findings& f) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const row& r : f.rows)
    rows.push_back({{"what", r.what},
                    {"value", r.value},
                    {"unit", r.unit},
                    {"spread", r.spread},
                    {"how", r.how},
                    {"preset_field", r.pointer}});
  const nlohmann::ordered_json document{
      {"gpu", f.from.gpu},   {"driver", f.from.driver}, {"runtime", f.from.runtime},
      {"date", f.from.date}, {"host", f.from.host},     {"kept", f.from.kept},
      {"rows", rows}};
  out << document.dump(2, ' ', true, json::error_handler_t::replace) << '\n';
}

} // namespace

void report(const options& o, findings found) {
  if (!o.name.empty()) found.preset.name = o.name;
  found.from.date = o.date;
  print_table(found, o.compare);
  if (!o.out.empty())
    common::save(o.out,
                 [&](std::ostream& to) { gsched::write_preset(to, found.preset, found.from); });
  if (!o.json.empty()) common::save(o.json, [&](std::ostream& to) { write_rows(to, found); });
}

} // namespace calibrate
