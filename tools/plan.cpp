// SPDX-License-Identifier: Apache-2.0
//
// Plans which partitions of which GPUs serve which models at which rates, by several planners.
// Source: Choi et al., USENIX ATC 2022.
#include "plan/options.hpp"
#include "plan/planners.hpp"
#include "plan/plot.hpp"
#include "plan/report.hpp"

#include "common/cli/main.hpp"
#include "common/report/progress.hpp"
#include "common/report/save.hpp"

#include <gsched/core/run_in_parallel.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

namespace {

/// The results of `f(planner, question, step)`, by scenario, then planner, in whatever order they
/// were made; f reports its progress by step(done, of).
template <class F>
auto ask_all(const plan::options& o, F f) {
  using answer = decltype(f(o.planners[0], plan::question_of(o, 0), plan::scale_progress{}));
  constexpr std::uint64_t parts = 100; // of one answer
  const std::size_t n = o.scenarios.size() * o.planners.size();
  common::shared_bar bar("planning", n, parts, o.progress);
  return gsched::run_in_parallel<answer>(n, std::min(o.threads, n), [&](std::size_t i) {
    const plan::question q = plan::question_of(o, i / o.planners.size());
    answer a = f(o.planners[i % o.planners.size()], q,
                 [&](std::uint64_t done, std::uint64_t of) { bar.update(i, done * parts / of); });
    bar.update(i, parts);
    return a;
  });
}

/// For a planner without a plan: searches the largest scale of the rates that has one.
void suggest(const plan::options& o, std::size_t planner, plan::answer& a) {
  const auto begin = std::chrono::steady_clock::now();
  common::progress_bar bar("largest scale, " + o.planners[planner].base, 100, o.progress);
  a.suggested =
      plan::max_scale(o.planners[planner], plan::question_of(o, 0),
                      [&](std::uint64_t done, std::uint64_t of) { bar.update(done * 100 / of); });
  a.suggesting = std::chrono::steady_clock::now() - begin;
}

int serve(const plan::options& o) {
  if (!o.assumed.empty()) std::cerr << "plan: " << o.assumed << '\n';
  for (const std::string& line : o.table->doubts()) std::cerr << "plan: " << line << '\n';
  if (o.max_scale) {
    const std::vector<double> scales = ask_all(o, plan::max_scale);
    if (!o.quiet) plan::print_scales(std::cout, o, scales);
    if (!o.json.empty())
      common::save(o.json, [&](std::ostream& to) { plan::write_scales_json(to, o, scales); });
    return 0;
  }
  plan::answers all = ask_all(
      o, [](const auto& planner, const auto& q, const auto&) { return plan::ask(planner, q); });
  if (o.suggests && o.scenarios.size() == 1)
    for (std::size_t p = 0; p < o.planners.size(); ++p)
      if (!all[p].plan) suggest(o, p, all[p]);
  if (!o.quiet) plan::print(std::cout, o, all);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) { plan::write_json(to, o, all); });
  if (!o.plot.empty()) plan::draw_plot(o, all);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("plan", argc, argv, plan::parse_options, serve);
}
