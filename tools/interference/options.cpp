// SPDX-License-Identifier: Apache-2.0
#include "interference/options.hpp"

#include "interference/calibration.hpp"
#include "interference/probes.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/cli/output_options.hpp"
#include "common/input/measured_on.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/input/table_options.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/latency_csv.hpp>
#include <gsched/io/machine_json.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/preset.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace interference {

namespace {

using namespace gsched;
using namespace common;

constexpr std::array<subject, subjects> all_laws{subject::disjoint, subject::disjoint_means,
                                                 subject::shared_kernels};

constexpr const char* laws_and_examples =
    R"(
Graphs that run at the same time on one GPU slow each other. The program predicts by how much: the
median time of a replay beside the others, over the time alone on the same SMs. An error is
|predicted - measured| / measured. One law of contention makes all predictions; its coefficients
are never negative.

Laws
  disjoint        graphs on SMs of their own, kernel beside kernel; they share L2 and DRAM
  disjoint_means  the same from the mean L2 and DRAM use of each graph, as planners do it
  shared_kernels  graphs that may all use all SMs, kernel beside kernel
A kernel takes what its counters say. In a profile without counters, the solo metrics of the graph
are distributed over its kernels; a model without a profile is estimated from its solo metrics, and
reported. Graphs whose demand exceeds what the fit has seen are reported as extrapolated.

Errors are those on held-out rows: each row is predicted by a fit without that row, and each model
by a fit without any row in which it occurs. Rows of --test-corun, --test-groups, --test-probes and
--test-kernels are predicted by the fit on all of --corun.

CSV files
  --corun        model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us
  --test-groups  group,model,batch,sms,solo_us,corun_us: a row for each graph of a group
  --test-probes  probe,victim,batch,victim_sms,probe_sms,kind,blocks,alone_us,beside_us,
                 probe_rate_alone,probe_rate_beside, as gsched measures them
  --test-kernels probe,model,batch,operation,blocks,threads,alone_us,beside_us,held_up, likewise
  --solo         model,batch,solo_us,l2_pct,dram_pct,sm_active_pct of a replay alone on all SMs;
                 if it has them also ipc,l1_pct,dram_bytes,l2_sectors,starts,exposed_pct
                 and, from calibrate, sensitivity,pressure,l2_loss,start_loss_us,mean_pressure
  --probes       as --test-probes
  --starts       as --corun

Calibration
  Counters do not say all of a graph. calibrate finds up to five numbers for it, and writes the
  solo metrics with them; predictions use them, and plans all but start_loss_us.
  start_loss_us  what it loses as a kernel of another graph starts on other SMs, which empties its
               L1 caches: of --starts, pairs with a graph of kernels that do nothing (measure
               starts); without it, it is estimated from the waits of the profile's kernels
  l2_loss      how much longer it takes when neighbours push its data out of L2: of --probes, a graph
               beside a copy by few blocks (measure probes --probes copy:4096:4 --split own)
  mean_pressure  what its mean use does not tell of how much it slows others; for plans and
               disjoint_means. No measurement beside others is needed: all graphs of --table are
               predicted beside each other, kernel by kernel, each on half of the SMs
  sensitivity, of --corun, how much more or less it is slowed than the law says, and slows others,
  pressure     on SMs of their own. For a new graph, two others are enough: measure pairs --beside.

Examples
  interference evaluate
      the errors of each law, on the pairs that ship with gsched
  interference fit --out h200.json
      the same, and a file of coefficients
  interference evaluate --test-corun mine.csv --test-solo mine_solo.csv --profiles my_profiles
      the errors for other models
  interference evaluate --coefficients h200 --corun mine.csv --solo mine_solo.csv
      the same without a fit
  interference predict --graphs resnet50:8,vgg16:32,lenet:1
      three graphs that share all SMs
  interference predict --graphs resnet50:8@64,vgg16:32@68
      two on SMs of their own
  interference calibrate --corun mine/corun_pairs.csv --solo mine/solo_metrics.csv
                         --profiles mine/profiles --out mine/calibrated.csv
      solo metrics with the sensitivity and the pressure of each graph
  interference calibrate --table mine/latency_batch_partition.csv --solo mine/solo_metrics.csv
                         --profiles mine/profiles --out mine/calibrated.csv
      solo metrics for plans: from means nearly as exact as kernel by kernel
  interference calibrate --probes mine/probes.csv --solo mine/solo_metrics.csv
                         --profiles mine/profiles --out mine/calibrated.csv
      solo metrics with what each graph loses of L2
  interference calibrate --starts mine/start_pairs.csv --solo mine/solo_metrics.csv
                         --profiles mine/profiles --out mine/calibrated.csv
      solo metrics with what each graph loses by starts
  interference paper
      the measurements of Elvinger et al. (SoCC 2025), predicted from their utilisations

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)";

/// The options as typed.
struct raw_options {
  std::string corun = shipped("corun_pairs.csv").string(),
              solo = shipped("solo_metrics.csv").string(), test_corun, test_groups, test_probes,
              test_kernels, test_solo, streams, starts, table, sms, laws, coefficients, out, graphs,
              safe = "1.2";
  std::vector<std::string> profiles;
  bool once = false, neutral = false;
  output_options output;
};

void declare(command_line& line, raw_options& raw) {
  const auto shared = [&] {
    line.option("--corun", raw.corun, "FILE", "Measured pairs to fit on");
    line.option("--solo", raw.solo, "FILE", "L2 and DRAM throughput of each model alone");
    line.option("--test-corun", raw.test_corun, "FILE", "Pairs to predict, which no fit uses");
    line.option("--test-groups", raw.test_groups, "FILE", "The same of two or more graphs");
    line.option("--test-probes", raw.test_probes, "FILE",
                "The same of graphs beside endless probes");
    line.option("--test-kernels", raw.test_kernels, "FILE",
                "The same of single kernels of graphs beside endless probes");
    line.option("--test-solo", raw.test_solo, "FILE",
                "Models that --solo lacks; its rows have precedence");
    declare_profiles(line, raw.profiles);
    line.option("--sms", raw.sms, "N",
                "SMs of the GPU; default: what machine.json beside --corun says");
    line.option("--laws", raw.laws, "LAW,...",
                "Some of disjoint,disjoint_means,shared_kernels; default: all");
    line.option("--safe", raw.safe, "X",
                "Slow-down up to which a pair counts as safe, where rules\nare compared");
    line.flag("--once", raw.once, "One fit, without leaving rows out");
    line.flag("--neutral-start", raw.neutral,
              "Start the fit at values that do not depend on these pairs");
    raw.output.declare(line);
  };
  line.subcommand("fit", "Errors and coefficients");
  shared();
  line.option("--out", raw.out, "FILE", "The coefficients");
  line.subcommand("evaluate", "Errors");
  shared();
  line.option("--coefficients", raw.coefficients, "F",
              "Evaluate these, h200 or a file, without a fit");
  line.subcommand("predict", "Slow-downs of named graphs side by side");
  line.option("--graphs", raw.graphs, "MODEL:BATCH[@SMS],...",
              "The graphs; either all or none on SMs of their own");
  line.option("--solo", raw.solo, "FILE", "L2 and DRAM throughput of each model alone");
  declare_profiles(line, raw.profiles);
  line.option("--sms", raw.sms, "N",
              "SMs of the GPU; default: what machine.json beside --solo says");
  line.option("--coefficients", raw.coefficients, "F", "h200 or a file; default: h200");
  raw.output.declare(line, {.progress = false});
  line.subcommand("calibrate", "What is particular about each graph, from a few measurements");
  line.option(
      "--corun", raw.corun, "FILE",
      "Measured pairs; those on SMs of their own count. Default:\nthose that ship, if none of the "
      "next three is given");
  line.option("--probes", raw.streams, "FILE", "Graphs beside slow copies on other SMs");
  line.option("--starts", raw.starts, "FILE", "Pairs with a graph that only starts kernels");
  line.option("--table", raw.table, "FILE", "Latencies by batch size and SMs; needs --profiles");
  line.option("--solo", raw.solo, "FILE", "L2 and DRAM throughput of each model alone");
  declare_profiles(line, raw.profiles);
  line.option("--sms", raw.sms, "N",
              "SMs of the GPU; default: what machine.json beside --corun says");
  line.option("--coefficients", raw.coefficients, "F", "h200 or a file; default: h200");
  line.option("--out", raw.out, "FILE", "The rows of --solo, with what was found");
  raw.output.declare(line);
  line.subcommand("paper", "Measurements of a paper, and what the law predicts");
  line.option("--coefficients", raw.coefficients, "F", "h200 or a file; default: h200");
  raw.output.declare(line, {.progress = false});
}

/// The GPU on which the files of the options were measured: by machine.json beside the pairs, or
/// beside the solo metrics where there are none; otherwise an H200. Refuses files of different
/// GPUs.
measured_gpu gpu_of(const raw_options& raw, command what) {
  std::vector<measured_file> files;
  if (what != command::predict && !raw.corun.empty()) files.push_back({"--corun", raw.corun});
  files.push_back({"--solo", raw.solo});
  for (const auto& [option, file] : {std::pair{"--test-corun", raw.test_corun},
                                     {"--test-groups", raw.test_groups},
                                     {"--test-probes", raw.test_probes},
                                     {"--probes", raw.streams},
                                     {"--starts", raw.starts},
                                     {"--table", raw.table},
                                     {"--test-kernels", raw.test_kernels},
                                     {"--test-solo", raw.test_solo}})
    if (!file.empty()) files.push_back({option, file});
  if (!raw.coefficients.empty())
    files.push_back({"--coefficients", to_law_file("--coefficients", raw.coefficients)});
  if (!raw.profiles.empty())
    for (measured_file& f : profile_catalogue(raw.profiles).one_of_each_folder())
      files.push_back(std::move(f));
  measured_gpu gpu;
  gpu.known = check_machines("interference", files);
  const sim::preset usual = sim::h200();
  gpu.sms = gpu.known ? gpu.known->sms : usual.sms;
  gpu.sm = gpu.known ? limits_of(*gpu.known) : usual.sm;
  if (!raw.sms.empty()) gpu.sms = sm_count{to_small_count("--sms", raw.sms, 1, 100000)};
  return gpu;
}

profile_set read_profiles(const std::vector<std::string>& where, const architecture_limits& sm) {
  profile_set all;
  const profile_catalogue known(where);
  for (const auto& [name, file] : known.files()) {
    profile p = load_model(file, sm);
    const model_batch key{p.model, p.batch};
    if (!all.emplace(key, std::move(p)).second)
      throw error(errc::bad_profile, file.string() + ": " + key.first + ", batch " +
                                         std::to_string(key.second) +
                                         " was read already, expected each once");
  }
  return all;
}

bool has_groups(const group_set& set, subject law) {
  return std::any_of(set.groups.begin(), set.groups.end(), [&](const known_group& g) {
    return g.shared == (law == subject::shared_kernels);
  });
}

void read_laws(options& o, const raw_options& raw) {
  if (o.pairs.groups.empty()) refuse("--corun", o.corun + " has no rows", "some");
  const std::vector<std::string> asked =
      raw.laws.empty() ? std::vector<std::string>{} : to_list("--laws", raw.laws);
  for (const std::string& name : asked)
    if (std::none_of(all_laws.begin(), all_laws.end(),
                     [&](subject s) { return name_of(s) == name; }))
      refuse("--laws", "unknown law " + in_quotes(name),
             "disjoint, disjoint_means or shared_kernels", errc::unknown_name);
  for (const subject law : all_laws) {
    const bool wanted =
        asked.empty() || std::find(asked.begin(), asked.end(), name_of(law)) != asked.end();
    if (!wanted) continue;
    if (has_groups(o.pairs, law))
      o.laws.push_back(law);
    else if (!asked.empty() || !o.out.empty())
      refuse("--corun", o.corun + " has no pairs for " + std::string(name_of(law)), "some");
  }
  if (!o.out.empty() && o.laws.size() < all_laws.size())
    refuse("--out", "only some of the laws", "all of them, for a file of coefficients");
}

std::vector<corun_side> sides_of(const corun_pair& p) { return {p.side[0], p.side[1]}; }

void read_coefficients(options& o, const raw_options& raw) {
  o.begin = load_coefficients(
      to_law_file("--coefficients", raw.coefficients.empty() ? "h200" : raw.coefficients));
  o.given = true;
}

/// MODEL:BATCH[@SMS].
corun_side to_side(const std::string& text, sm_count device, bool& on_all) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    refuse("--graphs", "no batch in " + in_quotes(text), "MODEL:BATCH or MODEL:BATCH@SMS");
  const std::size_t at = text.find('@', colon);
  corun_side s;
  s.model = text.substr(0, colon);
  s.batch = to_small_count(
      "--graphs",
      text.substr(colon + 1, at == std::string::npos ? std::string::npos : at - colon - 1), 1,
      1u << 20);
  s.sms = device;
  on_all = at == std::string::npos;
  if (!on_all) s.sms = sm_count{to_small_count("--graphs", text.substr(at + 1), 1, device.count())};
  return s;
}

void read_graphs(options& o, const raw_options& raw, sm_count device) {
  if (raw.graphs.empty()) refuse("--graphs", "not given", "two graphs or more");
  std::vector<corun_side> sides;
  std::size_t with_all = 0, sum = 0, from = 0;
  while (from <= raw.graphs.size()) { // not to_list: a graph may be there twice
    const std::size_t comma = std::min(raw.graphs.find(',', from), raw.graphs.size());
    bool on_all = false;
    sides.push_back(to_side(raw.graphs.substr(from, comma - from), device, on_all));
    with_all += on_all;
    sum += sides.back().sms.count();
    from = comma + 1;
  }
  if (sides.size() < 2) refuse("--graphs", "one graph", "two or more");
  if (with_all != 0 && with_all != sides.size())
    refuse("--graphs", "some have SMs of their own", "all or none");
  if (with_all == 0 && sum > device.count())
    refuse("--graphs", std::to_string(sum) + " SMs", "at most " + std::to_string(device.count()));
  o.test.add(*o.tested_with, sides, "--graphs");
}

void read_tests(options& o, const raw_options& raw, sm_count device) {
  if (!raw.test_corun.empty())
    for (const corun_pair& p :
         load_corun_pairs(to_file("--test-corun", raw.test_corun, "a CSV file"), device))
      o.test.add(*o.tested_with, sides_of(p), raw.test_corun);
  if (!raw.test_groups.empty())
    for (const corun_group& g :
         load_corun_groups(to_file("--test-groups", raw.test_groups, "a CSV file"), device))
      o.test.add(*o.tested_with, g.sides, raw.test_groups);
  if (!raw.test_probes.empty())
    read_probes(o.probes, *o.tested_with, to_file("--test-probes", raw.test_probes, "a CSV file"),
                device);
  if (!raw.test_kernels.empty())
    read_kernels(o.kernels, *o.tested_with,
                 to_file("--test-kernels", raw.test_kernels, "a CSV file"), device);
}

/// Refuses solo metrics without a row of a graph, to which what is found goes.
void expect_row(const known_side& s, const solo_table& solo, const std::string& file) {
  if (solo.find(s.row.model, s.row.batch) == nullptr)
    throw error(errc::bad_profile, file + ": no row of " + s.row.model + ", batch " +
                                       std::to_string(s.row.batch) +
                                       ", expected one of each graph that was measured");
}
void expect_rows(const group_set& pairs, const solo_table& solo, const std::string& file) {
  for (const known_group& g : pairs.groups)
    for (const known_side& s : g.sides)
      if (!g.shared && !s.row.model.starts_with("probe_")) expect_row(s, solo, file);
}

std::unique_ptr<options> read(const raw_options& raw, command what) {
  auto made = std::make_unique<options>();
  options& o = *made;
  o.what = what;
  if (what == command::paper) {
    read_coefficients(o, raw);
    return made;
  }
  o.once = raw.once;
  o.corun = raw.corun;
  o.solo = raw.solo;
  o.test_corun = raw.test_corun;
  o.test_solo = raw.test_solo;
  o.streams = raw.streams;
  o.starts = raw.starts;
  o.safe = to_number("--safe", raw.safe, {1, 1000});
  const measured_gpu gpu = gpu_of(raw, what);
  if (!gpu.known && raw.sms.empty())
    o.assumed = fmt::format("{}: no machine.json beside it, so {} SMs are assumed, as of an H200; "
                            "--sms states others",
                            what == command::predict || raw.corun.empty() ? raw.solo : raw.corun,
                            gpu.sms.count());
  const sm_count device = gpu.sms;
  const bool tests =
      !(raw.test_corun + raw.test_groups + raw.test_probes + raw.test_kernels).empty();
  if (!tests && !raw.test_solo.empty()) refuse("--test-solo", "given without --test-corun", "both");
  if (!raw.coefficients.empty() || what == command::predict || what == command::calibrate) {
    if (raw.neutral) refuse("--neutral-start", "given beside --coefficients", "one of both");
    read_coefficients(o, raw);
  }
  if (raw.neutral) o.begin = neutral_coefficients();
  o.out = raw.out;

  o.profiles = read_profiles(raw.profiles, gpu.sm);
  solo_table solo = load_solo_table(to_file("--solo", raw.solo, "a CSV file"));
  if (what != command::predict) {
    // The pairs that ship go with the profiles that ship, whatever the tests use.
    const bool ships = raw.corun == raw_options{}.corun;
    o.fit_profiles = ships && !raw.profiles.empty() ? read_profiles({}, gpu.sm) : o.profiles;
    o.fitted_with = std::make_unique<workloads>(solo, raw.solo, o.fit_profiles, gpu);
    if (!raw.corun.empty())
      for (const corun_pair& p :
           load_corun_pairs(to_file("--corun", raw.corun, "a CSV file"), device))
        o.pairs.add(*o.fitted_with, sides_of(p), raw.corun);
    if (what == command::calibrate) {
      if (!raw.streams.empty())
        read_probes(o.probes, *o.fitted_with, to_file("--probes", raw.streams, "a CSV file"),
                    device);
      if (!raw.starts.empty())
        for (const corun_pair& p :
             load_corun_pairs(to_file("--starts", raw.starts, "a CSV file"), device))
          o.starting.add(*o.fitted_with, sides_of(p), raw.starts);
      if (!raw.table.empty())
        o.table = load_latency_table(to_file("--table", raw.table, "a CSV file"));
      if (!o.out.empty()) {
        for (const known_group& g : o.starting.groups)
          if (const known_side* const side = beside_starts(g)) expect_row(*side, solo, raw.solo);
        expect_rows(o.pairs, solo, raw.solo);
        expect_rows(o.probes, solo, raw.solo);
      }
      return made;
    }
    read_laws(o, raw);
  }
  if (!raw.test_solo.empty())
    solo.override_with(load_solo_table(to_file("--test-solo", raw.test_solo, "a CSV file")));
  o.tested_with = std::make_unique<workloads>(
      std::move(solo), raw.test_solo.empty() ? raw.solo : raw.test_solo + " or " + raw.solo,
      o.profiles, gpu);
  if (what == command::predict)
    read_graphs(o, raw, device);
  else
    read_tests(o, raw, device);
  return made;
}

} // namespace

std::unique_ptr<options> parse_options(int argc, char** argv) {
  raw_options raw;
  command_line line("interference",
                    "Fits, evaluates and predicts how much graphs on one GPU slow each other.",
                    laws_and_examples);
  declare(line, raw);
  if (!line.parse(argc, argv)) return nullptr;
  const std::string chosen = line.chosen();
  const command what = chosen == "fit"         ? command::fit
                       : chosen == "predict"   ? command::predict
                       : chosen == "paper"     ? command::paper
                       : chosen == "calibrate" ? command::calibrate
                                               : command::evaluate;
  if (what == command::calibrate && !line.is_given("--corun") &&
      !(raw.streams + raw.starts + raw.table).empty())
    raw.corun.clear();
  std::unique_ptr<options> o = read(raw, what);
  raw.output.read(*o, {{"--out", o->out}});
  if (what == command::evaluate)
    line.refuse_unused(!o->given, {"--once"}, "beside --coefficients, which are not fitted",
                       "one of both");
  return o;
}

} // namespace interference
