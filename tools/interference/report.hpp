// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/calibration.hpp"
#include "interference/options.hpp"
#include "interference/rules.hpp"
#include "interference/study.hpp"

#include <gsched/interference/coefficients.hpp>

#include <iosfwd>
#include <vector>

namespace interference {

/// The rules compared on the pairs, and on the test rows.
struct rule_tables {
  std::vector<rule_result> pairs;
  std::vector<rule_result> test;
};

/// Tables of errors, and the coefficients of a fit.
void print(std::ostream& out, const options& o, const std::vector<findings>& all,
           const gsched::interference_coefficients& c, const rule_tables& rules);

/// All of it, with a line for each prediction of a test row. Errors are parts of 1.
void write_json(std::ostream& out, const options& o, const std::vector<findings>& all,
                const gsched::interference_coefficients& c, const rule_tables& rules);

/// The slow-downs of the graphs of --graphs.
void print_predictions(std::ostream& out, const options& o);
void write_predictions(std::ostream& out, const options& o);

/// The factors of each graph, and the errors without and with them.
void print_calibration(std::ostream& out, const options& o, const calibration& found);
void write_calibration(std::ostream& out, const options& o, const calibration& found);

/// Published measurements beside predictions.
void print_paper(std::ostream& out, const options& o);
void write_paper(std::ostream& out, const options& o);

} // namespace interference
