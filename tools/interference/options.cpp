// SPDX-License-Identifier: Apache-2.0
#include "interference/options.hpp"

#include "common/catalogue.hpp"
#include "common/command_line.hpp"
#include "common/values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/occupancy/limits.hpp>

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace interference {

namespace {

using namespace gsched;
using namespace common;

constexpr std::array<subject, 3> all_laws{subject::disjoint, subject::shared,
                                          subject::shared_kernels};

constexpr const char* teaching =
    R"(Two graphs that run at the same time on one GPU slow each other. What is predicted is by how much:
the median time of a replay beside the other graph, over the time alone on the same SMs. An error is
|predicted - measured| / measured.

Laws
  disjoint        graphs on SMs of their own: c1 l2_own + c2 l2_other + c3 dram_own
                  + c4 dram_other + c5, from the parts of L2 and DRAM throughput that each takes
                  when alone (gpu-lets)
  shared          graphs that both may use all SMs: the same form, coefficients of its own
  shared_kernels  the same pairs, kernel beside kernel from the models' profiles; a model without
                  one is estimated from its solo metrics alone, and that is said

A fit is not judged by what it has seen. Each row is predicted by a fit without that row, and each
model by a fit without any row in which it occurs, on either side. Pairs of --test-corun are
predicted by the fit on all of --corun.

CSV files
  --corun  model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us
  --solo   model,batch,solo_us,l2_pct,dram_pct,sm_active_pct: of a replay alone on all SMs

Examples
  interference evaluate
      how far off each law is, on the pairs that ship with gsched
  interference fit --out h200.json
      the same, and a file of coefficients
  interference evaluate --test-corun mine.csv --test-solo mine_solo.csv --profiles my_profiles
      how far off it is for other models
  interference evaluate --coefficients h200.json --corun mine.csv --solo mine_solo.csv
      the same without a fit

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, told in one line.)";

struct words {
  std::string corun = common::shipped("corun_pairs.csv").string(),
              solo = common::shipped("solo_metrics.csv").string(), test_corun, test_solo,
              sms = "132", laws, coefficients, out, json;
  std::vector<std::string> profiles;
  bool once = false, neutral = false, no_progress = false;
};

profile_set read_profiles(const std::vector<std::string>& where) {
  const architecture_limits sm = limits_for(9, 0);
  profile_set all;
  const catalogue known(where);
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

void read_laws(options& o, const words& w) {
  const std::vector<std::string> asked =
      w.laws.empty() ? std::vector<std::string>{} : to_list("--laws", w.laws);
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

options read(const words& w, bool fit) {
  options o;
  o.fit = fit;
  o.once = w.once;
  o.progress = !w.no_progress && isatty(STDERR_FILENO) == 1;
  o.corun = w.corun;
  o.solo = w.solo;
  o.test_corun = w.test_corun;
  o.test_solo = w.test_solo;
  const sm_count device{static_cast<std::uint32_t>(to_count("--sms", w.sms, 1, 100000))};
  if (w.test_corun.empty() && !w.test_solo.empty())
    refuse("--test-solo", "given without --test-corun", "both");
  if (!w.coefficients.empty()) {
    if (w.neutral) refuse("--neutral-start", "given beside --coefficients", "one of both");
    o.begin =
        read_coefficients(to_file("--coefficients", w.coefficients, "a file of coefficients"));
    o.given = true;
  }
  if (w.neutral) o.begin.shared_kernels = neutral_law();
  o.json = w.json;
  o.out = w.out;

  const profile_set profiles = read_profiles(w.profiles);
  solo_table solo = read_solo_table(to_file("--solo", w.solo, "a CSV file"));
  o.pairs = std::make_unique<pair_set>(
      read_corun_pairs(to_file("--corun", w.corun, "a CSV file"), device), solo, profiles, device,
      w.corun, w.solo);
  read_laws(o, w);
  if (w.test_corun.empty()) return o;
  if (!w.test_solo.empty())
    solo.prefer(read_solo_table(to_file("--test-solo", w.test_solo, "a CSV file")));
  o.test = std::make_unique<pair_set>(
      read_corun_pairs(to_file("--test-corun", w.test_corun, "a CSV file"), device), solo, profiles,
      device, w.test_corun, w.test_solo.empty() ? w.solo : w.test_solo + " or " + w.solo);
  return o;
}

} // namespace

std::optional<options> parse_options(int argc, char** argv) {
  words w;
  CLI::App app("Fits and judges how much graphs on one GPU slow each other.");
  app.name("interference");
  app.require_subcommand(1);
  app.footer(teaching);
  CLI::App* const fit = app.add_subcommand("fit", "errors and coefficients");
  CLI::App* const evaluate = app.add_subcommand("evaluate", "errors");
  for (CLI::App* const sub : {fit, evaluate}) {
    const auto add = [&](const char* name, std::string& word, const char* type, const char* help) {
      sub->add_option(name, word, help)->type_name(type)->capture_default_str();
    };
    add("--corun", w.corun, "FILE", "measured pairs to fit on");
    add("--solo", w.solo, "FILE", "what each model asks for alone");
    add("--test-corun", w.test_corun, "FILE", "pairs to predict, which no fit sees");
    add("--test-solo", w.test_solo, "FILE", "of models that --solo has not; its rows come first");
    sub->add_option("--profiles", w.profiles,
                    "directories and files of profiles; default: those that ship with gsched")
        ->type_name("DIR_OR_FILES");
    add("--sms", w.sms, "N", "SMs of the GPU");
    add("--laws", w.laws, "LAW,...", "some of disjoint,shared,shared_kernels; default: all");
    sub->add_flag("--once", w.once, "one fit of each law, nothing left out");
    sub->add_flag("--neutral-start", w.neutral,
                  "shared_kernels: begin at values that know nothing of these pairs");
    add("--json", w.json, "FILE", "write all results to this file");
    sub->add_flag("--no-progress", w.no_progress, "no progress bar on a terminal");
  }
  fit->add_option("--out", w.out, "write the coefficients to this file")->type_name("FILE");
  evaluate->add_option("--coefficients", w.coefficients, "judge these, without a fit")
      ->type_name("FILE");
  if (!common::parse(app, argc, argv)) return std::nullopt;
  options o = read(w, fit->parsed());
  check_outputs({{"--json", o.json}, {"--out", o.out}});
  refuse_unused(app, !o.given, {"--once"}, "beside --coefficients, which are not fitted",
                "one of both");
  const bool kernels =
      std::find(o.laws.begin(), o.laws.end(), subject::shared_kernels) != o.laws.end();
  refuse_unused(app, kernels, {"--neutral-start"}, "without the law shared_kernels",
                "it in --laws");
  return o;
}

} // namespace interference
