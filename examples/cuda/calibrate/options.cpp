// SPDX-License-Identifier: Apache-2.0
#include "calibrate/options.hpp"

#include <gsched/core/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>

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

/// Before minutes are spent on what then cannot be written.
void expect_writable(const std::string& path) {
  if (path.empty()) return;
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) ||
      (!folder.empty() && !std::filesystem::is_directory(folder, ignored)))
    throw gsched::error(gsched::errc::io, path + ": cannot be written, expected a writable path");
}

} // namespace

std::optional<options> parse_options(int argc, const char* const* argv) {
  options o;
  o.date = today();
  CLI::App app("Measures what driving a GPU costs, and writes it as a preset of the simulator.");
  app.name("calibrate");
  app.add_option("--gpu", o.gpu, "Which GPU, by the runtime's number")->check(CLI::Range(0, 1023));
  app.add_option("--out", o.out, "Write the preset to this file");
  app.add_option("--json", o.json, "Write the table to this file");
  app.add_option("--check", o.check, "Measure nothing: say whether this preset is one of this GPU");
  app.add_option("--simulate", o.simulate,
                 "Measure the simulator with this preset instead of a GPU, as far as that goes:\n"
                 "what comes out should be what the preset says");
  app.add_flag("--compare", o.compare, "Beside each value, that of sim:h200");
  app.add_option("--name", o.name, "Of the preset; default: sim: and the GPU's");
  app.add_option("--date", o.date, "Written into the preset; default: today");
  app.add_option("--seconds", o.seconds, "Time for the rounds of measurement")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_flag("--quick", o.quick, "Three rounds");
  bool no_queues = false;
  app.add_flag("--no-queues", no_queues, "Do not count hardware queues, in processes of their own");
  app.add_flag("--count-queues", o.count_queues)->group("");
  app.footer(R"(
Times are medians over rounds in which all experiments take turns; the spread is that between the
quartiles. Ends and gaps of segments, gates and kernels that leave are those of cuda::device. What
needs many models to be fitted (scaling, contention) stays as in sim:h200; the preset says which
values those are. Kernels are launched one by one only at the end, and on many streams only in
other processes, as that slows down every graph that comes after.

Examples
  calibrate --compare
  calibrate --out mine.json && serve_mix --device mine.json
  calibrate --check mine.json

Exit code: 0; 1 for a failure or another GPU's preset; 2 for a usage error; 3 where the GPU hangs.)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    std::string line = e.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    throw gsched::error(gsched::errc::bad_option, line + ", expected what calibrate --help lists");
  }
  if (!(o.seconds > 0)) // not a number: in no range, and out of none
    throw gsched::error(gsched::errc::bad_option, "--seconds: no number, expected 0.1 to 3600");
  o.queues = !no_queues;
  expect_writable(o.out);
  expect_writable(o.json);
  return o;
}

} // namespace calibrate
