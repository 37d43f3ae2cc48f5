// SPDX-License-Identifier: Apache-2.0
#include "common/cli/output_options.hpp"

#include "common/cli/option_values.hpp"
#include "common/gnuplot.hpp"

#include <unistd.h>

namespace common {

void output_options::declare(command_line& line, const output_help& help) {
  has_progress_ = help.progress;
  line.group("Output");
  line.option("--json", json_, "FILE", help.json);
  if (help.trace != nullptr) line.option("--trace", trace_, "FILE", help.trace);
  if (help.plot != nullptr) line.option("--plot", plot_, "FILE", help.plot);
  line.flag("-q,--quiet", quiet_, "No table");
  if (has_progress_) line.flag("--no-progress", no_progress_, "No progress bar on a terminal");
}

void output_options::read(outputs& into, std::vector<output_option> more) const {
  into.json = json_;
  into.trace = trace_;
  into.plot = plot_;
  into.quiet = quiet_;
  into.progress = has_progress_ && !no_progress_ && !quiet_ && isatty(STDERR_FILENO) == 1;
  std::vector<output_option> all{
      {"--json", into.json}, {"--trace", into.trace}, {"--plot", into.plot}};
  all.insert(all.end(), more.begin(), more.end());
  check_outputs(all);
  if (into.plot.empty()) return;
  const auto type = into.plot.extension();
  if (type != ".svg" && type != ".png" && type != ".pdf")
    refuse("--plot", in_quotes(into.plot.string()) + " has an unknown type", ".svg, .png or .pdf");
  if (!gnuplot_found())
    refuse("--plot", "gnuplot is not on the path", "it installed (package gnuplot-nox)");
}

} // namespace common
