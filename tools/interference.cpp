// SPDX-License-Identifier: Apache-2.0
//
// How much graphs on one GPU slow each other: fits the law of contention on measured pairs, reports
// its errors on held-out rows, predicts, and calibrates graphs. Source: Elvinger et al., SoCC 2025,
// sections 4 and 5.1, doi:10.1145/3772052.3772270.
#include "interference/calibration.hpp"
#include "interference/options.hpp"
#include "interference/report.hpp"
#include "interference/study.hpp"

#include "common/cli/main.hpp"
#include "common/report/progress.hpp"
#include "common/report/save.hpp"

#include <gsched/io/coefficients_json.hpp>

#include <iostream>
#include <vector>

namespace {

using namespace interference;

int calibrate_graphs(const options& o) {
  std::size_t done = 0;
  const calibrated_by by{o.pairs, o.probes, o.starting, o.table ? &*o.table : nullptr};
  common::progress_bar bar("calibrating", steps_of_calibration(*o.fitted_with, by), o.progress);
  const calibration found = calibrate(*o.fitted_with, by, o.begin, [&] { bar.update(++done); });
  if (!o.out.empty())
    common::save(o.out, [&](std::ostream& to) { write_calibrated(to, o.solo, found); });
  if (!o.quiet) print_calibration(std::cout, o, found);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) { write_calibration(to, o, found); });
  return 0;
}

int run(const options& o) {
  if (o.what == command::calibrate) return calibrate_graphs(o);
  if (o.what == command::predict || o.what == command::paper) {
    const bool paper = o.what == command::paper;
    if (!o.quiet) (paper ? print_paper : print_predictions)(std::cout, o);
    if (!o.json.empty())
      common::save(o.json,
                   [&](std::ostream& to) { (paper ? write_paper : write_predictions)(to, o); });
    return 0;
  }
  gsched::interference_coefficients c = o.begin;
  std::vector<findings> all;
  if (o.given) {
    for (const subject law : o.laws) all.push_back(judge(o.pairs, law, c));
  } else {
    std::size_t done = 0;
    common::progress_bar bar("fitting", fits_of(o.pairs, o.once), o.progress);
    all = study(o.pairs, o.laws, o.once, c, [&] { bar.update(++done); });
  }
  for (findings& f : all) test(f, o.test, o.given ? nullptr : &o.pairs, c);
  rule_tables rules;
  if (!o.quiet || !o.json.empty())
    rules = {compare_rules(o.pairs, c, o.safe), compare_rules(o.test, c, o.safe)};
  if (!o.quiet) print(std::cout, o, all, c, rules);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) { write_json(to, o, all, c, rules); });
  if (!o.out.empty())
    common::save(o.out, [&](std::ostream& to) { gsched::write_coefficients(to, c); });
  return 0;
}

int serve(const options& o) {
  const int status = run(o);
  if (!o.assumed.empty() && !o.quiet) std::cerr << "interference: " << o.assumed << '\n';
  return status;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("interference", argc, argv, parse_options, serve);
}
