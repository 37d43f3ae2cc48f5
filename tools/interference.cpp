// SPDX-License-Identifier: Apache-2.0
//
// How much graphs on one GPU slow each other: fits three laws on measured pairs, and reports the
// error of each on held-out rows. Sources: Choi et al., USENIX ATC 2022, section 4.4; Elvinger
// et al., SoCC 2025, section 5.1, doi:10.1145/3772052.3772270.
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

int serve(const options& o) {
  gsched::interference_coefficients c = o.begin;
  std::vector<findings> all;
  {
    std::size_t fits = 0, done = 0;
    if (!o.given)
      for (const subject law : o.laws) fits += fits_of(*o.pairs, law, o.once);
    common::progress_bar bar("fitting", fits, o.progress && !o.given);
    for (const subject law : o.laws) {
      all.push_back(o.given ? judge(*o.pairs, law, c)
                            : study(*o.pairs, law, o.once, c, [&] { bar.update(++done); }));
      if (o.test) test(all.back(), *o.test, o.given ? nullptr : o.pairs.get(), c);
    }
  }
  if (!o.quiet) print(std::cout, o, all, c);
  if (!o.json.empty()) common::save(o.json, [&](std::ostream& to) { write_json(to, o, all, c); });
  if (!o.out.empty())
    common::save(o.out, [&](std::ostream& to) { gsched::write_coefficients(to, c); });
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("interference", argc, argv, parse_options, serve);
}
