// SPDX-License-Identifier: Apache-2.0
#include "measure/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/device_option.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/cuda/built_in_graphs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/partition/gpu_shape.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

namespace measure {

namespace {

using common::in_quotes;
using common::refuse;

constexpr const char* details =
    R"(
Measures graphs on a GPU for plan, serve_partitions and interference, and writes tables into a folder:
  machine.json                 the GPU, and the versions of driver, CUDA and libraries
  latency_batch_partition.csv  latency: each graph alone, by SMs
  corun_pairs.csv              pairs: two graphs at once, on SMs of their own and on the same ones
  corun_groups.csv             pairs: more than two at once, likewise
  start_pairs.csv              starts: each graph beside one that only starts kernels
  probes.csv                   probes: graphs beside kernels that use one resource each
  held_up.csv                  probes: which kernels wait for sleeping blocks to end
  kernels.csv                  kernels: each kernel by itself beside probes (not of `all`)
  profiles, solo_metrics.csv   counters: profiles with hardware counters, and their sums
Medians are over rounds in which all variants take turns; 10th and 90th percentiles stand beside
them. Rows are written as soon as they are measured. The same command again keeps them and measures
those that are missing; on another GPU, or with another driver or library, it refuses the folder.
Sizes of partitions are those that the GPU has.

Graphs are built-in ones, stand-ins of profiles, adaptors' (docs/guide/adaptor.md), or modules of
PyTorch: python -m gsched.measure has the same options.

Examples
  measure latency --models saxpy,sort --out mine
  measure all --adaptor ./libmine.so:mine_b8 --minutes 5 --out mine
  measure pairs --models tools/data/profiles/lenet_b1.json,tools/data/profiles/vgg16_b1.json --out mine
  measure pairs --models saxpy,sort --beside sort --groups 0 --out mine
  plan --table mine/latency_batch_partition.csv --rates saxpy=1000

Exit code: 0 where all that was asked for is there; 1 for a failure, a missing GPU among them; 2 for a
usage or input error; 3 where the GPU hangs; 4 where it is incomplete: --minutes left steps, an error
left out graphs, rows or counters, or somebody else used the GPU and some rows may be wrong. Notes say which.)";

constexpr std::array known_parts{part::latency, part::pairs,   part::starts,
                                 part::probes,  part::kernels, part::counters};

struct raw_options {
  std::string out, models, sms, beside, probes, split = "both", groups = "12", group_sizes = "3,4",
                                                minutes = "20", window = "15", seed = "1";
  std::vector<std::string> adaptors, libraries;
  common::device_option device{{.simulated = false, .preset = false}};
  common::output_options output;
  bool anew = false, busy = false;
};

constexpr gsched::sm_count some_sms = gsched::gpu_shape{}.sms; // lists have the same kinds on all
constexpr std::uint64_t some_l2 = 1 << 26;

/// "sleep, copy, read", each once, with the break after each eighth.
std::string kinds_of(const std::vector<gsched::cuda::probe_options>& probes,
                     const std::string& line_break = "") {
  std::string all;
  std::size_t count = 0;
  for (const gsched::cuda::probe_description& d : gsched::cuda::probe_kinds()) {
    if (std::none_of(probes.begin(), probes.end(),
                     [&](const gsched::cuda::probe_options& p) { return p.kind == d.kind; }))
      continue;
    if (count > 0) all += count % 8 == 0 && !line_break.empty() ? "," + line_break : ", ";
    all += d.name;
    ++count;
  }
  return all;
}

void declare(common::command_line& line, raw_options& raw, const std::vector<part>& parts) {
  const auto has = [&](part p) { return std::find(parts.begin(), parts.end(), p) != parts.end(); };
  line.group("Graphs");
  line.option("--models", raw.models, "NAME,...",
              "saxpy, sort, ticks, or profiles' files (stand-ins)");
  line.option(
      "--adaptor", raw.adaptors, "LIB[:NAME[=TEXT]]",
      "The graph of an adaptor, as NAME or NAME_bBATCH, with TEXT\nfor its init; may be given "
      "several times");
  line.group("Measurements");
  line.option("-o,--out", raw.out, "DIR", "Folder of the tables; it is made if it is not there");
  raw.device.declare(line, false, "cuda:0");
  if (has(part::latency))
    line.option("--sms", raw.sms, "N,...",
                "latency: on so many SMs; default: on all sizes that a\npartition can have");
  if (has(part::pairs)) {
    line.option("--beside", raw.beside, "NAME[_bBATCH],...",
                "pairs: only those with one of these graphs; two are enough for\ninterference "
                "calibrate; default: all pairs");
    line.option("--groups", raw.groups, "N", "pairs: so many groups of more than two graphs");
    line.option("--group-sizes", raw.group_sizes, "N,...", "pairs: of so many graphs, in turn");
    line.option("--seed", raw.seed, "N", "pairs: their order, and the groups");
  }
  if (has(part::pairs) || has(part::starts))
    line.option("--window", raw.window, "MS",
                "pairs, starts: graphs run together for so long, at least");
  if (has(part::probes) || has(part::kernels) || has(part::counters))
    line.option(
        "--probes", raw.probes, (std::string(gsched::cuda::probe_form) + ",...").c_str(),
        ("These probes alone, such as fp32,copy:4096:34; a KIND alone\nis each of the usual "
         "probes that are of it; default: all.\nKINDs: " +
         kinds_of(has(part::probes) || has(part::counters) ? probe_list(some_sms, some_l2)
                                                           : kernel_probes(some_sms, some_l2),
                  "\n"))
            .c_str());
  if (has(part::probes))
    line.option(
        "--split", raw.split, "SMS",
        "probes: shared, all SMs for both; own, half of them for\neach; a number, so many for "
        "the graph, rounded up to whole\ngroups, and the rest for the probe; or both, which is "
        "shared\nand own in turn");
  line.option("--minutes", raw.minutes, "M",
              "In all; what is not measured by then is left to another run");
  line.flag("--anew", raw.anew, "Remove what the folder has from other runs");
  line.flag("--busy", raw.busy, "Measure although the GPU seems to be in use");
  line.option("--library", raw.libraries, "NAME=VERSION", "Also written into machine.json");
  line.group("Output");
  raw.output.declare(line, {.json = "What was measured and left out"});
}

/// "./libx.so:resnet_b8=text", with the batch after the last _b, and text for the adaptor.
adaptor_choice to_adaptor(const std::string& text) {
  adaptor_choice a;
  const std::size_t equals = std::min(text.find('='), text.size());
  if (equals < text.size()) a.parameters = text.substr(equals + 1);
  const std::string what = text.substr(0, equals);
  const std::size_t colon = what.rfind(':');
  a.library = common::to_file("--adaptor", what.substr(0, colon), "a shared library");
  std::string name =
      colon == std::string::npos ? a.library.stem().string() : what.substr(colon + 1);
  if (colon == std::string::npos && name.starts_with("lib")) name.erase(0, 3);
  const std::size_t at = name.rfind("_b");
  if (at != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto [stop, ec] = std::from_chars(name.data() + at + 2, end, a.batch);
    if (ec != std::errc{} || stop != end || a.batch == 0)
      a.batch = 1;
    else
      name.resize(at);
  }
  if (name.empty() || name.find_first_of(",\"\n") != std::string::npos)
    refuse("--adaptor", in_quotes(text), "LIB:NAME, without commas in the name");
  a.model = name;
  return a;
}

/// "copy" stands for each of the usual probes that are of the kind, "copy:4096:34" and "copy:" for
/// one.
void add_probe(probe_choice& to, const std::string& text,
               const std::vector<gsched::cuda::probe_options>& usual) {
  try {
    gsched::cuda::probe_options p = gsched::cuda::parse_probe(text);
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) {
      if (std::none_of(usual.begin(), usual.end(),
                       [&](const gsched::cuda::probe_options& u) { return u.kind == p.kind; }))
        throw gsched::error(gsched::errc::bad_option, "kernels has no usual probe of " + text +
                                                          ", expected " + kinds_of(usual) +
                                                          ", or KIND:LEVEL");
      to.kinds.push_back(p.kind);
      return;
    }
    if (p.level == 0) p.level = gsched::cuda::probe_kind_of(text.substr(0, colon)).usual_level;
    to.exactly.push_back(p);
  } catch (const gsched::error& e) {
    const bool unknown = e.code() == gsched::errc::unknown_name;
    throw gsched::error(unknown ? gsched::errc::unknown_name : gsched::errc::bad_option,
                        std::string("--probes: ") + e.what());
  }
}

void read_split(const std::string& text, options& to) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    to.split = sm_split::own;
    to.victim_sms =
        gsched::sm_count{static_cast<std::uint32_t>(common::to_count("--split", text, 1, 100000))};
    return;
  }
  to.split = common::to_choice<sm_split>(
      "--split", text,
      {{"both", sm_split::both}, {"shared", sm_split::shared}, {"own", sm_split::own}});
}

options read(const raw_options& raw, const std::string& chosen, bool captured) {
  options o;
  for (const part p : known_parts)
    if ((chosen == "all" && p != part::kernels) || chosen == name_of(p)) o.parts.push_back(p);
  if (raw.out.empty()) refuse("--out", "not given", "a folder for the tables");
  o.out = raw.out;
  common::device_choice device;
  raw.device.read(device);
  o.gpu = device.gpu.value_or(0);
  if (!raw.models.empty()) o.models = common::to_list("--models", raw.models);
  const auto& known = common::built_in_names();
  for (const std::string& m : o.models)
    if (m.ends_with(".json"))
      static_cast<void>(gsched::load_profile(common::to_file("--models", m, "a profile's file")));
    else if (std::find(known.begin(), known.end(), m) == known.end())
      refuse(
          "--models", "unknown graph " + in_quotes(m),
          "saxpy, sort, ticks or a profile's file (.json); --adaptor takes others, and python -m "
          "gsched.measure modules of PyTorch",
          gsched::errc::unknown_name);
  for (const std::string& a : raw.adaptors) o.adaptors.push_back(to_adaptor(a));
  if (o.models.empty() && o.adaptors.empty() && !captured)
    refuse("--models", "not given, nor --adaptor", "a graph to measure");
  for (const std::string& l : raw.libraries) {
    const std::size_t equals = l.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == l.size())
      refuse("--library", in_quotes(l), "NAME=VERSION");
    o.libraries[l.substr(0, equals)] = l.substr(equals + 1);
  }
  if (!raw.sms.empty())
    for (const std::uint32_t n : common::to_counts("--sms", raw.sms, 1, 100000))
      o.sms.emplace_back(n);
  std::sort(o.sms.begin(), o.sms.end());
  if (!raw.beside.empty()) o.beside = common::to_list("--beside", raw.beside);
  o.groups = common::to_count("--groups", raw.groups, 0, 10000);
  o.group_sizes.clear();
  for (const std::string& n : common::to_list("--group-sizes", raw.group_sizes))
    o.group_sizes.push_back(common::to_count("--group-sizes", n, 3, 32));
  if (!raw.probes.empty())
    for (const std::string& p : common::to_list("--probes", raw.probes))
      add_probe(o.probes, p,
                chosen == name_of(part::kernels) ? kernel_probes(some_sms, some_l2)
                                                 : probe_list(some_sms, some_l2));
  read_split(raw.split, o);
  o.minutes = common::to_number("--minutes", raw.minutes, {0, 10000, true, "minutes"});
  o.window_ms = common::to_number("--window", raw.window, {1, 10000, false, "milliseconds"});
  o.seed = common::to_count("--seed", raw.seed, 0, ~std::uint64_t{0} - 1);
  o.anew = raw.anew;
  o.busy = raw.busy;
  raw.output.read(o);
  std::error_code ignored;
  if (std::filesystem::exists(o.out, ignored) && !std::filesystem::is_directory(o.out, ignored))
    refuse("--out", o.out.string() + " is a file", "a folder");
  return o;
}

} // namespace

const char* name_of(part p) noexcept {
  switch (p) {
  case part::latency: return "latency";
  case part::pairs: return "pairs";
  case part::starts: return "starts";
  case part::probes: return "probes";
  case part::kernels: return "kernels";
  case part::counters: return "counters";
  }
  return "";
}

std::optional<options> parse_options(int argc, const char* const* argv, bool captured) {
  raw_options raw;
  common::command_line line(
      "measure", "Measures how long graphs take on parts of a GPU, alone and beside each other.",
      details);
  line.subcommand("latency", "Each graph alone, by SMs");
  declare(line, raw, {part::latency});
  line.subcommand("pairs", "Graphs at the same time");
  declare(line, raw, {part::pairs});
  line.subcommand("starts", "Each graph beside one that only starts kernels");
  declare(line, raw, {part::starts});
  line.subcommand("probes", "Graphs, and probes, beside a probe of each resource of the GPU");
  declare(line, raw, {part::probes});
  line.subcommand("kernels", "Each kernel by itself, alone and beside probes");
  declare(line, raw, {part::kernels});
  line.subcommand("counters", "Profiles with hardware counters of each kernel");
  declare(line, raw, {part::counters});
  line.subcommand("all", "All of these but kernels");
  declare(line, raw, {part::latency, part::pairs, part::starts, part::probes, part::counters});
  if (!line.parse(argc, argv)) return std::nullopt;
  return read(raw, line.chosen(), captured);
}

} // namespace measure
