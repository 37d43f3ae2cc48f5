// SPDX-License-Identifier: Apache-2.0
//
// Serves a mix of models from profile files under a list of policies and compares them.
#include "serve_mix/options.hpp"
#include "serve_mix/platform.hpp"
#include "serve_mix/plot.hpp"
#include "serve_mix/report.hpp"
#include "serve_mix/run.hpp"

#include "common/cli/main.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/report/save.hpp"
#include "common/timeline.hpp"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

int serve(const serve_mix::options& o) {
  const std::unique_ptr<serve_mix::platform> on = serve_mix::open_platform(o);
  std::vector<gsched::profile> models;
  for (const serve_mix::mix_entry& m : o.mix)
    models.push_back(common::load_model(m.profile, on->sm()));
  const serve_mix::workload_facts facts = serve_mix::facts_of(*on, o, models);
  std::optional<common::timeline> record;
  if (!o.trace.empty()) {
    std::vector<std::string> names;
    for (const serve_mix::mix_entry& m : o.mix) names.push_back(m.name);
    record.emplace(names, serve_mix::runs_of(o).size());
  }
  const std::vector<serve_mix::run_result> runs =
      serve_mix::run_policies(*on, o, facts, models, record ? &*record : nullptr);
  if (!o.quiet) serve_mix::write_table(std::cout, o, facts, runs, isatty(STDOUT_FILENO) == 1);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& out) { serve_mix::write_json(out, o, facts, runs); });
  if (record) record->save("serve_mix", o.trace);
  if (!o.plot.empty()) serve_mix::draw_plot(o, facts, runs);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("serve_mix", argc, argv, serve_mix::parse_options, serve);
}
