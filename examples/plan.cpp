// SPDX-License-Identifier: Apache-2.0
//
// Says which partitions of which GPUs serve which models at which rates, by several planners.
// Source: Choi et al., USENIX ATC 2022.
#include "plan/options.hpp"
#include "plan/planners.hpp"
#include "plan/plot.hpp"
#include "plan/report.hpp"

#include "parts/main.hpp"
#include "parts/progress.hpp"
#include "parts/save.hpp"

#include <iostream>
#include <string>
#include <vector>

namespace {

/// What `f(planner, question)` says, by scenario, then planner.
template <class F>
auto ask_all(const plan::options& o, F f) {
  std::vector<decltype(f(o.planners[0], plan::question_of(o, 0)))> all;
  parts::progress_bar bar("planning", o.scenarios.size() * o.planners.size(), o.progress);
  for (std::size_t s = 0; s < o.scenarios.size(); ++s) {
    const plan::question q = plan::question_of(o, s);
    for (const plan::planner_choice& planner : o.planners) {
      all.push_back(f(planner, q));
      bar.update(all.size());
    }
  }
  return all;
}

int serve(const plan::options& o) {
  for (const std::string& line : o.table->doubts()) std::cerr << "plan: " << line << '\n';
  if (o.max_scale) {
    const std::vector<double> scales = ask_all(o, plan::max_scale);
    plan::print_scales(std::cout, o, scales);
    if (!o.json.empty())
      parts::save(o.json, [&](std::ostream& to) { plan::write_scales_json(to, o, scales); });
    return 0;
  }
  const plan::answers all = ask_all(o, plan::ask);
  plan::print(std::cout, o, all);
  if (!o.json.empty()) parts::save(o.json, [&](std::ostream& to) { plan::write_json(to, o, all); });
  if (!o.plot.empty()) plan::draw_plot(o, all);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return parts::run_main("plan", argc, argv, plan::parse_options, serve);
}
