// SPDX-License-Identifier: Apache-2.0
#include "interference/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/cli/output_options.hpp"
#include "common/input/profile_catalogue.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace interference {

namespace {

using namespace gsched;
using namespace common;

constexpr std::array<subject, 3> all_laws{subject::disjoint, subject::shared,
                                          subject::shared_kernels};

constexpr const char* laws_and_examples =
    R"(
Two graphs that run at the same time on one GPU slow each other. The program predicts by how
much: the median time of a replay beside the other graph, over the time alone on the same SMs. An
error is |predicted - measured| / measured.

Laws
  disjoint        graphs on SMs of their own: c1 l2_own + c2 l2_other + c3 dram_own
                  + c4 dram_other + c5, from the parts of L2 and DRAM throughput that each takes
                  when alone (gpu-lets)
  shared          graphs that both may use all SMs: the same form, with its own coefficients
  shared_kernels  the same pairs, kernel beside kernel from the models' profiles; a model without
                  a profile is estimated from its solo metrics, and reported

Errors are those on held-out rows: each row is predicted by a fit without that row, and each model
by a fit without any row in which it occurs, on either side. Pairs of --test-corun are predicted by
the fit on all of --corun.

CSV files
  --corun  model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us
  --solo   model,batch,solo_us,l2_pct,dram_pct,sm_active_pct: of a replay alone on all SMs

Examples
  interference evaluate
      the errors of each law, on the pairs that ship with gsched
  interference fit --out h200.json
      the same, and a file of coefficients
  interference evaluate --test-corun mine.csv --test-solo mine_solo.csv --profiles my_profiles
      the errors for other models
  interference evaluate --coefficients h200.json --corun mine.csv --solo mine_solo.csv
      the same without a fit

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)";

/// The options as typed.
struct raw_options {
  std::string corun = shipped("corun_pairs.csv").string(),
              solo = shipped("solo_metrics.csv").string(), test_corun, test_solo, sms = "132", laws,
              coefficients, out;
  std::vector<std::string> profiles;
  bool once = false, neutral = false;
  output_options output;
};

void declare(command_line& line, raw_options& raw) {
  const auto shared = [&] {
    line.option("--corun", raw.corun, "FILE", "Measured pairs to fit on");
    line.option("--solo", raw.solo, "FILE", "L2 and DRAM throughput of each model alone");
    line.option("--test-corun", raw.test_corun, "FILE", "Pairs to predict, which no fit uses");
    line.option("--test-solo", raw.test_solo, "FILE",
                "Models that --solo lacks; its rows have precedence");
    declare_profiles(line, raw.profiles);
    line.option("--sms", raw.sms, "N", "SMs of the GPU");
    line.option("--laws", raw.laws, "LAW,...",
                "Some of disjoint,shared,shared_kernels; default: all");
    line.flag("--once", raw.once, "One fit of each law, without leaving rows out");
    line.flag("--neutral-start", raw.neutral,
              "shared_kernels: start the fit at values that do not depend\non these pairs");
    raw.output.declare(line);
  };
  line.subcommand("fit", "Errors and coefficients");
  shared();
  line.option("--out", raw.out, "FILE", "The coefficients");
  line.subcommand("evaluate", "Errors");
  shared();
  line.option("--coefficients", raw.coefficients, "FILE", "Evaluate these, without a fit");
}

profile_set read_profiles(const std::vector<std::string>& where) {
  const architecture_limits sm = limits_for(9, 0);
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

bool has_pairs(const pair_set& set, subject law) {
  return std::any_of(set.pairs().begin(), set.pairs().end(),
                     [&](const known_pair& p) { return p.shared == (law != subject::disjoint); });
}

void read_laws(options& o, const raw_options& raw) {
  const std::vector<std::string> asked =
      raw.laws.empty() ? std::vector<std::string>{} : to_list("--laws", raw.laws);
  for (const std::string& name : asked)
    if (std::none_of(all_laws.begin(), all_laws.end(),
                     [&](subject s) { return name_of(s) == name; }))
      refuse("--laws", "unknown law " + in_quotes(name), "disjoint, shared or shared_kernels",
             errc::unknown_name);
  for (const subject law : all_laws) {
    const bool wanted =
        asked.empty() || std::find(asked.begin(), asked.end(), name_of(law)) != asked.end();
    if (!wanted) continue;
    if (has_pairs(*o.pairs, law))
      o.laws.push_back(law);
    else if (!asked.empty() || !o.out.empty())
      refuse(o.out.empty() ? "--laws" : "--out",
             o.corun + " has no pairs for " + std::string(name_of(law)), "some");
  }
  if (o.laws.empty()) refuse("--corun", o.corun + " has no rows", "some");
  if (!o.out.empty() && o.laws.size() < all_laws.size())
    refuse("--out", "only some of the laws", "all of them, for a file of coefficients");
}

options read(const raw_options& raw, bool fit) {
  options o;
  o.fit = fit;
  o.once = raw.once;
  o.corun = raw.corun;
  o.solo = raw.solo;
  o.test_corun = raw.test_corun;
  o.test_solo = raw.test_solo;
  const sm_count device{static_cast<std::uint32_t>(to_count("--sms", raw.sms, 1, 100000))};
  if (raw.test_corun.empty() && !raw.test_solo.empty())
    refuse("--test-solo", "given without --test-corun", "both");
  if (!raw.coefficients.empty()) {
    if (raw.neutral) refuse("--neutral-start", "given beside --coefficients", "one of both");
    o.begin =
        load_coefficients(to_file("--coefficients", raw.coefficients, "a file of coefficients"));
    o.given = true;
  }
  if (raw.neutral) o.begin.shared_kernels = neutral_law();
  o.out = raw.out;

  const profile_set profiles = read_profiles(raw.profiles);
  solo_table solo = load_solo_table(to_file("--solo", raw.solo, "a CSV file"));
  o.pairs = std::make_unique<pair_set>(
      load_corun_pairs(to_file("--corun", raw.corun, "a CSV file"), device), solo, profiles, device,
      raw.corun, raw.solo);
  read_laws(o, raw);
  if (raw.test_corun.empty()) return o;
  if (!raw.test_solo.empty())
    solo.override_with(load_solo_table(to_file("--test-solo", raw.test_solo, "a CSV file")));
  o.test = std::make_unique<pair_set>(
      load_corun_pairs(to_file("--test-corun", raw.test_corun, "a CSV file"), device), solo,
      profiles, device, raw.test_corun,
      raw.test_solo.empty() ? raw.solo : raw.test_solo + " or " + raw.solo);
  return o;
}

} // namespace

std::optional<options> parse_options(int argc, char** argv) {
  raw_options raw;
  command_line line("interference",
                    "Fits and evaluates how much graphs on one GPU slow each other.",
                    laws_and_examples);
  declare(line, raw);
  if (!line.parse(argc, argv)) return std::nullopt;
  options o = read(raw, line.chosen() == "fit");
  raw.output.read(o, {{"--out", o.out}});
  line.refuse_unused(!o.given, {"--once"}, "beside --coefficients, which are not fitted",
                     "one of both");
  const bool kernels =
      std::find(o.laws.begin(), o.laws.end(), subject::shared_kernels) != o.laws.end();
  line.refuse_unused(kernels, {"--neutral-start", "--profiles"}, "without the law shared_kernels",
                     "it in --laws");
  return o;
}

} // namespace interference
