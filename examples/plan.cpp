// SPDX-License-Identifier: Apache-2.0
//
// Says which partitions of which GPUs serve which models at which rates, by several planners.
// Source: Choi et al., USENIX ATC 2022.
#include "plan/options.hpp"
#include "plan/planners.hpp"
#include "plan/report.hpp"

#include "parts/main.hpp"
#include "parts/save.hpp"

#include <iostream>
#include <string>
#include <vector>

namespace {

int serve(const plan::options& o) {
  for (const std::string& line : o.table->doubts()) std::cerr << "plan: " << line << '\n';
  if (o.max_scale) {
    std::vector<double> scales;
    for (const auto& demands : o.scenarios)
      for (const std::string& planner : o.planners)
        scales.push_back(plan::max_scale(planner, *o.table, demands, o.gpus));
    plan::print_scales(std::cout, o, scales);
    if (!o.json.empty())
      parts::save(o.json, [&](std::ostream& to) { plan::write_scales_json(to, o, scales); });
    return 0;
  }
  plan::answers all;
  for (const auto& demands : o.scenarios)
    for (const std::string& planner : o.planners)
      all.push_back(plan::ask(planner, *o.table, demands, o.gpus));
  plan::print(std::cout, o, all);
  if (!o.json.empty()) parts::save(o.json, [&](std::ostream& to) { plan::write_json(to, o, all); });
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return parts::run_main("plan", argc, argv, plan::parse_options, serve);
}
