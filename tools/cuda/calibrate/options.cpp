// SPDX-License-Identifier: Apache-2.0
#include "calibrate/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/device_option.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/report/today.hpp"

#include <gsched/io/preset_json.hpp>

namespace calibrate {

namespace {

constexpr const char* details =
    R"(Times are medians over rounds in which all experiments take turns; the spread is that between the
quartiles. Ends and gaps of segments, gates and preemptible kernels are those of cuda::device. What
needs many models to be fitted (scaling, contention) stays as in sim:h200; the preset says which
values those are. Kernels are launched one by one only at the end, and on many streams only in
other processes, as that slows down every graph that comes after.

Examples
  calibrate --compare
  calibrate --out mine.json && serve_mix --device mine.json
  calibrate --check mine.json
  calibrate --device mine.json
      what the simulator does with a preset should be what the preset says

Exit code: 0; 1 for a failure or another GPU's preset; 2 for a usage or input error; 3 where the
GPU hangs.)";

} // namespace

std::optional<options> parse_options(int argc, const char* const* argv) {
  options o;
  o.date = common::today();
  std::string seconds = "20";
  bool no_queues = false;
  common::command_line line(
      "calibrate", "Measures what driving a GPU costs, and writes it as a preset of the simulator.",
      details);
  common::device_option device;
  device.declare(line, false, "cuda:0");
  line.option("--out", o.out, "FILE", "Write the preset to this file");
  line.option("--json", o.json, "FILE", "Write the table to this file");
  line.option("--check", o.check, "FILE",
              "Measure nothing: say whether this preset is one of this GPU");
  line.flag("--compare", o.compare, "Beside each value, that of sim:h200");
  line.option("--name", o.name, "NAME", "Of the preset; default: sim: and the GPU's");
  line.option("--date", o.date, "DATE", "Written into the preset; default: today");
  line.option("--seconds", seconds, "S", "Time for the rounds of measurement");
  line.flag("--quick", o.quick, "Three rounds");
  line.flag("--no-queues", no_queues, "Do not count hardware queues, in processes of their own");
  line.group(""); // not in --help
  line.flag("--count-queues", o.count_queues, "");
  if (!line.parse(argc, argv)) return std::nullopt;
  common::device_choice chosen;
  device.read(chosen);
  o.gpu = chosen.gpu.value_or(0);
  o.seconds = common::to_number("--seconds", seconds, {0.1, 3600, false, "seconds"});
  o.queues = !no_queues;
  const bool on_gpu = chosen.gpu.has_value();
  if (!o.check.empty() && !on_gpu)
    common::refuse("--check", "given with a simulated --device", "a GPU, such as cuda:0");
  line.refuse_unused(
      o.check.empty(),
      {"--out", "--json", "--compare", "--name", "--date", "--seconds", "--quick", "--no-queues"},
      "beside --check, which measures nothing", "one of both");
  line.refuse_unused(on_gpu, {"--seconds", "--quick", "--no-queues", "--count-queues"},
                     "with a simulated --device", "a GPU, such as cuda:0");
  line.refuse_unused(!o.out.empty(), {"--name"}, "without --out",
                     "a file for the preset beside it");
  line.refuse_unused(!o.out.empty() || !o.json.empty(), {"--date"}, "without --out or --json",
                     "a file to write it to beside it");
  // Check files before the first call of the driver.
  if (!o.check.empty())
    static_cast<void>(gsched::load_preset(common::to_file("--check", o.check, "a preset's file")));
  if (!on_gpu)
    o.simulated = chosen.preset.empty() ? gsched::sim::h200() : gsched::load_preset(chosen.preset);
  common::check_outputs({{"--out", o.out}, {"--json", o.json}});
  return o;
}

} // namespace calibrate
