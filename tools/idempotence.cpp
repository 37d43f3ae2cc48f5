// SPDX-License-Identifier: Apache-2.0
//
// Finds for each operation of a model whether it can be stopped and run again, from where, and why.
// Source: Han et al., ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 4.4.
#include "idempotence/network.hpp"
#include "idempotence/options.hpp"
#include "idempotence/report.hpp"

#include "common/cli/main.hpp"
#include "common/report/save.hpp"

#include <gsched/io/access_json.hpp>
#include <gsched/preempt/idempotence.hpp>

#include <cstddef>
#include <iostream>
#include <vector>

namespace {

int serve(const idempotence::options& o) {
  std::vector<idempotence::finding> findings;
  if (o.from == idempotence::place::file)
    findings.push_back({o.trace.filename().string(), gsched::load_access_trace(o.trace)});
  else
    findings = idempotence::trace_network(o);
  if (!o.save.empty())
    common::save(o.save,
                 [&](std::ostream& to) { gsched::write_access_trace(to, findings.front().trace); });
  std::vector<std::vector<gsched::idempotence_verdict>> verdicts;
  for (idempotence::finding& f : findings) {
    idempotence::declare(f.trace, o);
    verdicts.push_back(gsched::find_verdicts(f.trace));
    if (o.quiet) continue;
    if (verdicts.size() > 1) std::cout << '\n';
    idempotence::print(std::cout, f, verdicts.back());
  }
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) { write_json(to, findings, verdicts); });
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("idempotence", argc, argv, idempotence::parse_options, serve);
}
