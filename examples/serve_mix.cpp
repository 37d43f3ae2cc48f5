// SPDX-License-Identifier: Apache-2.0
//
// Serves a mix of models from profile files under a list of policies and compares them.
#include "serve_mix/options.hpp"
#include "serve_mix/platform.hpp"
#include "serve_mix/plot.hpp"
#include "serve_mix/report.hpp"
#include "serve_mix/run.hpp"

#include "parts/catalogue.hpp"
#include "parts/save.hpp"
#include "parts/timeline.hpp"

#include <gsched/core/error.hpp>

#include <unistd.h>

#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr int failed_while_running = 1;
constexpr int bad_input = 2;

/// Malformed input is the caller's, wherever it is noticed.
bool is_input(const gsched::error& e) {
  return e.code() != gsched::errc::io && e.code() != gsched::errc::device_failed &&
         e.code() != gsched::errc::no_device;
}

int serve(const serve_mix::options& o) {
  const std::unique_ptr<serve_mix::platform> on = serve_mix::open_platform(o);
  std::vector<gsched::profile> models;
  for (const serve_mix::mix_entry& m : o.mix)
    models.push_back(parts::load_model(m.profile, on->sm()));
  const serve_mix::workload_facts facts = serve_mix::facts_of(*on, o, models);
  std::optional<parts::timeline> record;
  if (!o.trace.empty()) {
    std::vector<std::string> names;
    for (const serve_mix::mix_entry& m : o.mix) names.push_back(m.name);
    record.emplace(names);
  }
  std::vector<serve_mix::run_result> runs;
  for (const std::string& policy : o.policies) {
    if (record) record->begin_run(policy);
    runs.push_back(
        serve_mix::run_policy(*on, policy, o, facts, models, record ? &*record : nullptr));
    if (record) record->end_run();
  }
  if (!o.quiet) serve_mix::write_table(std::cout, o, facts, runs, isatty(STDOUT_FILENO) == 1);
  if (!o.json.empty())
    parts::save(o.json, [&](std::ostream& out) { serve_mix::write_json(out, o, facts, runs); });
  if (record) {
    parts::save(o.trace, [&](std::ostream& out) { record->write(out); });
    if (record->dropped() > 0)
      std::cerr << "serve_mix: " << o.trace.string() << ": " << record->dropped()
                << " events beyond the first " << (1u << 20) << " left out\n";
  }
  if (!o.plot.empty()) serve_mix::draw_plot(o, facts, runs);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::optional<serve_mix::options> o;
  try {
    o = serve_mix::parse_options(argc, argv);
    if (!o) return 0;
  } catch (const std::exception& e) {
    std::cerr << "serve_mix: " << e.what() << '\n';
    return bad_input;
  }
  try {
    return serve(*o);
  } catch (const gsched::error& e) {
    std::cerr << "serve_mix: " << e.what() << '\n';
    return is_input(e) ? bad_input : failed_while_running;
  } catch (const std::exception& e) {
    std::cerr << "serve_mix: " << e.what() << '\n';
    return failed_while_running;
  }
}
