// SPDX-License-Identifier: Apache-2.0
//
// Serves real-time and best-effort clients on one GPU in several modes and compares them.
#include "realtime/options.hpp"
#include "realtime/platform.hpp"
#include "realtime/plot.hpp"
#include "realtime/report.hpp"
#include "realtime/run.hpp"

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

int serve(const realtime::options& o) {
  const std::unique_ptr<realtime::platform> on = realtime::open_platform(o);
  std::vector<gsched::profile> models;
  for (const std::filesystem::path& p : o.profiles)
    models.push_back(common::load_model(p, on->sm()));
  if (o.pad_slow_down) realtime::check_counters(o, models);
  const realtime::workload_facts facts = realtime::facts_of(*on, o, models);
  std::optional<common::timeline> record;
  if (!o.trace.empty()) {
    std::vector<std::string> names;
    for (const realtime::client_spec& c : o.work.clients) names.push_back(c.name);
    record.emplace(names, o.modes.size());
  }
  const std::vector<realtime::run_result> runs =
      realtime::run_modes(*on, o, facts, models, record ? &*record : nullptr);
  if (!o.quiet) realtime::write_table(std::cout, o, facts, runs, isatty(STDOUT_FILENO) == 1);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& out) { realtime::write_json(out, o, facts, runs); });
  if (record) record->save("realtime", o.trace);
  if (!o.plot.empty()) realtime::draw_plot(o, facts, runs);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("realtime", argc, argv, realtime::parse_options, serve);
}
