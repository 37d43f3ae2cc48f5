// SPDX-License-Identifier: Apache-2.0
#include "calibrate/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"

#include <gsched/io/preset_json.hpp>

#include <CLI/CLI.hpp>

#include <ctime>
#include <utility>

namespace calibrate {

namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

} // namespace

std::optional<options> parse_options(int argc, const char* const* argv) {
  options o;
  o.date = today();
  CLI::App app("Measures what driving a GPU costs, and writes it as a preset of the simulator.");
  app.name("calibrate");
  std::string gpu = "0";
  app.add_option("--gpu", gpu, "Which GPU, by the runtime's number");
  app.add_option("--out", o.out, "Write the preset to this file");
  app.add_option("--json", o.json, "Write the table to this file");
  app.add_option("--check", o.check, "Measure nothing: say whether this preset is one of this GPU");
  app.add_option("--simulate", o.simulate,
                 "Measure the simulator with this preset instead of a GPU, as far as that goes:\n"
                 "what comes out should be what the preset says");
  app.add_flag("--compare", o.compare, "Beside each value, that of sim:h200");
  app.add_option("--name", o.name, "Of the preset; default: sim: and the GPU's");
  app.add_option("--date", o.date, "Written into the preset; default: today");
  std::string seconds = "20";
  app.add_option("--seconds", seconds, "Time for the rounds of measurement")->capture_default_str();
  app.add_flag("--quick", o.quick, "Three rounds");
  bool no_queues = false;
  app.add_flag("--no-queues", no_queues, "Do not count hardware queues, in processes of their own");
  app.add_flag("--count-queues", o.count_queues)->group("");
  app.footer(R"(
Times are medians over rounds in which all experiments take turns; the spread is that between the
quartiles. Ends and gaps of segments, gates and preemptible kernels are those of cuda::device. What
needs many models to be fitted (scaling, contention) stays as in sim:h200; the preset says which
values those are. Kernels are launched one by one only at the end, and on many streams only in
other processes, as that slows down every graph that comes after.

Examples
  calibrate --compare
  calibrate --out mine.json && serve_mix --device mine.json
  calibrate --check mine.json

Exit code: 0; 1 for a failure or another GPU's preset; 2 for a usage or input error; 3 where the
GPU hangs.)");
  if (!common::parse(app, argc, argv)) return std::nullopt;
  o.gpu = static_cast<int>(common::to_count("--gpu", gpu, 0, 1023));
  o.seconds = common::to_number("--seconds", seconds, {0.1, 3600, false, "seconds"});
  o.queues = !no_queues;
  if (!o.check.empty() && !o.simulate.empty())
    common::refuse("--check", "given beside --simulate", "one of both");
  common::refuse_unused(
      app, o.check.empty(),
      {"--out", "--json", "--compare", "--name", "--date", "--seconds", "--quick", "--no-queues"},
      "beside --check, which measures nothing", "one of both");
  common::refuse_unused(app, o.simulate.empty(), {"--gpu", "--seconds", "--quick", "--no-queues"},
                        "beside --simulate, which needs no GPU", "one of both");
  common::refuse_unused(app, !o.out.empty(), {"--name"}, "without --out",
                        "a file for the preset beside it");
  common::refuse_unused(app, !o.out.empty() || !o.json.empty(), {"--date"},
                        "without --out or --json", "a file to write it to beside it");
  // Check files before the first call of the driver.
  for (const auto& [option, file] : {std::pair("--check", &o.check), {"--simulate", &o.simulate}})
    if (!file->empty())
      static_cast<void>(gsched::read_preset(common::to_file(option, *file, "a preset's file")));
  common::check_outputs({{"--out", o.out}, {"--json", o.json}});
  return o;
}

} // namespace calibrate
