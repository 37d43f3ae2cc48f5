// SPDX-License-Identifier: Apache-2.0
#include "realtime/options.hpp"

#include "realtime/workload_json.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/input/table_options.hpp"

#include <gsched/io/read_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

namespace realtime {

namespace {

constexpr const char* modes_and_examples =
    R"(Modes, each on the same arrivals
  rt_only           real-time clients alone: the baseline of the other modes
  seq               one request at a time, real-time requests first
  streams           a stream for each client, whole graphs, no scheduling
  streams_priority  the same, with a higher priority for the streams of real-time clients
  preempt           a real-time request preempts best-effort work, which resumes where it was
                    suspended once no real-time request is left
  preempt_pad       as preempt, and best-effort work also runs beside real-time work, on a few SMs
                    (--side) or within its kernels (--pad), where that slows it down by no more
                    than --tolerance

A workload is a JSON file of clients: class (real_time or best_effort), model (a profile) and
arrivals (uniform, poisson, a closed loop with think time, or a trace). Rates can be given as parts
of the model's throughput alone, which is measured first. tools/data/README.md describes the format.
These ship: disb_a to disb_e, driving, pair_*, and long_*, whose models' profiles are constructed
and not measured.

Units: times of the device are in microseconds (US). The latency of a real-time request counts from
its arrival to its reply; slowdown is its mean over that of rt_only. Throughput sums, over clients,
requests a second over those of the model alone. Work done is best-effort work, with parts of
requests, over the time that real-time work leaves.
On a simulated GPU the same arguments and seed give the same results, byte for byte, except for
wall_s. On a GPU (--device cuda), models run as kernels of the same size and time that compute
nothing.

Examples
  realtime
      a real-time client beside a best-effort one, in every mode: a table
  realtime --workload disb_e --mode rt_only,preempt --json runs.json --plot runs.svg
      five random real-time clients beside five best-effort ones
  realtime --workload pair_bert_vgg16 --mode preempt --trace timeline.json
      when work was suspended: open the trace in ui.perfetto.dev
  realtime --workload disb_b --mode preempt --floor 0.1
      real-time work without pause, and a tenth of the time for best-effort work
  realtime --workload mine.json --profiles mine/ --requests 1000 --seed 7
      a workload of your own
  realtime --workload disb_a --device cuda
      on the machine's first GPU

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)";

/// The options as typed.
struct raw_options {
  std::string workload = "disb_a", mode = "all", seconds = "2", requests, seed = "1", lanes = "2",
              real_time_lanes = "1", floor = "0", side = "8,16,32", pad = "needed",
              pad_places = "8", pad_slow_down = "none", tolerance = "5", leaves = "never", before,
              reserve = "none", reserve_fixed, long_operation = "100", reserve_slow_down = "10",
              reserve_tail = "50", reserve_share = "80";
  std::vector<std::string> profiles;
  segment_options segments{"200", "3200"};
  device_option device;
  threads_option threads;
  output_options output;
};

void declare(command_line& line, raw_options& raw) {
  line.group("Workload");
  line.option("--workload", raw.workload, "NAME", "One that ships, or FILE.json");
  declare_profiles(line, raw.profiles);
  line.option("--seconds", raw.seconds, "S", "Device time of each mode's run");
  line.option(
      "--requests", raw.requests, "N",
      "Real-time requests of each mode's run, in place of\n--seconds; with both, the run ends "
      "at the first");
  line.option("--seed", raw.seed, "N", "Of all random numbers");
  line.group("Scheduling");
  line.option("--mode", raw.mode, "M,...", "all, or some of the modes below");
  raw.segments.declare(line);
  line.option("--lanes", raw.lanes, "N", "Streams that best-effort requests share");
  line.option("--rt-lanes", raw.real_time_lanes, "N",
              "rt_only, preempt*: streams of real-time requests");
  line.group("Preemption (preempt, preempt_pad)");
  line.option("--floor", raw.floor, "X",
              "Part of the time, below 1, that best-effort work gets\neven if real-time work never "
              "ends");
  line.option("--leaves", raw.leaves, "HOW",
              "Where a running best-effort kernel can be preempted:\nnever (only between two "
              "kernels), between_blocks or\nat_checkpoints. Segments of preemptible kernels take "
              "at\nmost 50 us");
  line.option(
      "--reserve", raw.reserve, "SMS,...",
      "Best-effort models with long kernels leave one of these\nnumbers of SMs to real-time "
      "requests, learned for each\nmodel; rising, at most 4; or none");
  line.option("--reserve-fixed", raw.reserve_fixed, "SMS",
              "In place of --reserve: always that many");
  line.option("--long-operation", raw.long_operation, "US", "From which time a kernel is long");
  line.option("--reserve-slow-down", raw.reserve_slow_down, "PERCENT",
              "The target of --reserve: how much longer real-time\nrequests may take in the mean "
              "because of what was\nrunning when they came ...");
  line.option("--reserve-tail", raw.reserve_tail, "PERCENT",
              "... and the slowest in a hundred ...");
  line.option("--reserve-share", raw.reserve_share, "PERCENT",
              "... and the part of the remaining time that the\nbest-effort model keeps");
  line.group("Co-location (preempt_pad)");
  line.option("--side", raw.side, "SMS,...",
              "Sizes of the partition to try for best-effort work\nbeside, at most 4; or none");
  line.option(
      "--pad", raw.pad, "RULE",
      "Kernels of waiting best-effort requests run within\nreal-time kernels, on which an SM "
      "still holds all of its\nblocks (own), or as many as they need (needed); or none");
  line.option(
      "--pad-places", raw.pad_places, "N",
      "Operations of a best-effort model at which co-location\ncan begin, at most: each takes "
      "a graph for each real-time\nmodel");
  line.option("--pad-slow-down", raw.pad_slow_down, "PERCENT",
              "Kernels carry at most as much as slows them by that, as\npredicted for an H200 from "
              "the counters in the profiles;\nor none, for the rule of --pad alone");
  line.option("--tolerance", raw.tolerance, "PERCENT",
              "How much longer real-time requests may take for it");
  line.group("Device");
  raw.device.declare(line, true);
  raw.threads.declare(line, "Threads on which modes are simulated in parallel, with\nthe same "
                            "results; default: all of this machine, 1 for a\nGPU or with --trace");
  line.option(
      "--before", raw.before, "COMMAND",
      "A shell command to run before each mode: one that makes a\ncontext on the GPU brings "
      "the graphs of all modes to one\nspeed (docs/research/cliff.md)");
  raw.output.declare(line, {.trace = "A timeline of each mode's run, for ui.perfetto.dev",
                            .plot = "Latency and throughput by mode: .svg, .png or .pdf\n(needs "
                                    "gnuplot)"});
}

std::filesystem::path find_workload(const std::string& text) {
  if (text.ends_with(".json")) return to_file("--workload", text, "a workload's file");
  std::vector<std::string> names;
  std::error_code ec;
  for (std::filesystem::directory_iterator at(shipped("workloads"), ec), end; !ec && at != end;
       at.increment(ec)) {
    if (at->path().extension() != ".json") continue;
    if (at->path().stem() == text) {
      record_input("--workload", at->path());
      return at->path();
    }
    names.push_back(at->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  refuse("--workload", "unknown workload " + in_quotes(text),
         fmt::format("FILE.json, or one of {}", fmt::join(names, ", ")),
         gsched::errc::unknown_name);
}

std::vector<mode> to_modes(const std::string& text) {
  std::vector<mode> modes;
  if (text == "all") {
    for (std::size_t i = 0; i < std::size(mode_names); ++i) modes.push_back(static_cast<mode>(i));
    return modes;
  }
  for (const std::string& name : to_list("--mode", text)) {
    const auto at = std::find(std::begin(mode_names), std::end(mode_names), name);
    if (at == std::end(mode_names))
      refuse("--mode", "unknown mode " + in_quotes(name),
             fmt::format("all, or some of {}", fmt::join(mode_names, ",")),
             gsched::errc::unknown_name);
    const auto m = static_cast<mode>(at - std::begin(mode_names));
    if (std::find(modes.begin(), modes.end(), m) != modes.end())
      refuse("--mode", in_quotes(name) + " is named twice", "each mode once");
    modes.push_back(m);
  }
  return modes;
}

std::vector<gsched::sm_count> to_sizes(std::string_view option, const std::string& text) {
  std::vector<gsched::sm_count> sizes;
  if (text == "none") return sizes;
  for (const std::uint32_t n : to_counts(option, text, 1, 1024)) sizes.emplace_back(n);
  if (sizes.size() > 4) refuse(option, fmt::format("{} sizes", sizes.size()), "at most 4");
  return sizes;
}

void read_reserve(options& o, const raw_options& raw) {
  o.reserve = to_sizes("--reserve", raw.reserve);
  for (std::size_t i = 1; i < o.reserve.size(); ++i)
    if (o.reserve[i] <= o.reserve[i - 1])
      refuse("--reserve", in_quotes(raw.reserve) + " does not rise", "sizes that rise");
  if (!raw.reserve_fixed.empty()) {
    if (!o.reserve.empty()) refuse("--reserve-fixed", "--reserve is given too", "one of the two");
    o.reserve_fixed = true;
    if (const auto n = to_count("--reserve-fixed", raw.reserve_fixed, 0, 1024); n > 0)
      o.reserve.emplace_back(static_cast<std::uint32_t>(n));
  }
  o.long_operation = gsched::from_us(
      to_number("--long-operation", raw.long_operation, {0, 1e9, true, "microseconds"}));
  o.reserve_slow_down =
      to_number("--reserve-slow-down", raw.reserve_slow_down, {0, 1000, false, "percent"}) / 100;
  o.reserve_tail =
      to_number("--reserve-tail", raw.reserve_tail, {0, 10000, false, "percent"}) / 100;
  o.reserve_share =
      to_number("--reserve-share", raw.reserve_share, {0, 100, false, "percent"}) / 100;
}

void read_work(options& o, const raw_options& raw) {
  o.file = find_workload(raw.workload);
  o.work = parse_workload(gsched::read_text(o.file, "a workload's file", max_workload_bytes),
                          o.file.string());
  profile_catalogue known(raw.profiles);
  if (raw.profiles.empty()) known.add_directory(shipped("constructed"));
  for (std::size_t i = 0; i < o.work.clients.size(); ++i) {
    const client_spec& c = o.work.clients[i];
    const std::string where = fmt::format("{}: clients/{}", o.file.string(), i);
    o.profiles.push_back(known.find(where + "/model", c.model));
    if (c.arrivals.law == arrival_law::trace)
      record_input(where + "/arrivals/file", o.file.parent_path() / c.arrivals.file);
  }
  const bool any = std::any_of(o.work.clients.begin(), o.work.clients.end(),
                               [](const client_spec& c) { return c.real_time(); });
  if (!any)
    throw gsched::error(gsched::errc::bad_profile,
                        o.file.string() + ": no real-time client, expected one or more");
}

options read(const raw_options& raw, const command_line& line) {
  options o;
  raw.device.read(o);
  read_work(o, raw);
  o.modes = to_modes(raw.mode);
  const bool counts_requests = line.is_given("--requests");
  if (line.is_given("--seconds") || !counts_requests)
    o.length =
        gsched::from_us(1e6 * to_number("--seconds", raw.seconds, {0, 1e5, true, "seconds"}));
  if (counts_requests) o.requests = to_count("--requests", raw.requests, 1, 100'000'000);
  o.seed = to_count("--seed", raw.seed, 0, std::numeric_limits<std::uint64_t>::max());
  o.lanes = to_small_count("--lanes", raw.lanes, 1, 1024);
  o.real_time_lanes = to_small_count("--rt-lanes", raw.real_time_lanes, 1, 1024);
  static_cast<segment_settings&>(o) = raw.segments.read(line);
  o.floor = to_number("--floor", raw.floor, {0, 0.99});
  o.side = to_sizes("--side", raw.side);
  read_reserve(o, raw);
  o.pad = to_choice<std::optional<gsched::level_rule>>("--pad", raw.pad,
                                                       {{"none", std::nullopt},
                                                        {"own", gsched::level_rule::own},
                                                        {"needed", gsched::level_rule::needed}});
  if (raw.pad_slow_down != "none") {
    o.pad_slow_down =
        to_number("--pad-slow-down", raw.pad_slow_down, {0, 1000, false, "percent, or none"}) / 100;
    o.law = to_law_file("--pad-slow-down", "h200");
  }
  o.pad_places = to_count("--pad-places", raw.pad_places, 2, 4096);
  o.tolerance = to_number("--tolerance", raw.tolerance, {0, 1000, false, "percent"}) / 100;
  o.leaves = to_choice<gsched::preemptibility>(
      "--leaves", raw.leaves,
      {{"never", gsched::preemptibility::never},
       {"between_blocks", gsched::preemptibility::between_blocks},
       {"at_checkpoints", gsched::preemptibility::at_checkpoints}});
  o.before = raw.before;
  raw.output.read(o);
  o.threads = raw.threads.read(o, o);
  if (o.threads > 1 && line.is_given("--threads") && !o.before.empty())
    refuse("--threads", "more than one beside --before", "1, or no --before");
  return o;
}

/// Segments of preemptible kernels are short, as those kernels of a preempted segment that have not
/// started pass through the GPU all the same, one by one.
void shorten_segments(options& o, const command_line& line) {
  constexpr gsched::duration longest = std::chrono::microseconds{50};
  if (o.leaves == gsched::preemptibility::never) return;
  for (const auto& [option, time] :
       {std::pair("--quantum", o.quantum), {"--most-quantum", o.most_quantum}})
    if (line.is_given(option) && time > longest)
      refuse(option, fmt::format("{} us with kernels that leave (--leaves)", gsched::to_us(time)),
             fmt::format("at most {}", gsched::to_us(longest)));
  o.quantum = std::min(o.quantum, longest);
  if (!line.is_given("--most-quantum")) o.most_quantum = o.quantum;
}

/// Refuses options that have no effect in the modes asked for.
void check_used(const command_line& line, const options& o) {
  const auto some = [&](std::initializer_list<mode> of) {
    return std::find_first_of(o.modes.begin(), o.modes.end(), of.begin(), of.end()) !=
           o.modes.end();
  };
  line.refuse_unused(some({mode::rt_only, mode::preempt, mode::preempt_pad}),
                     {"--quantum", "--most-quantum", "--overshoot", "--rt-lanes"},
                     "without a mode that schedules", "rt_only, preempt or preempt_pad in --mode");
  line.refuse_unused(some({mode::preempt, mode::preempt_pad}),
                     {"--lanes", "--floor", "--leaves", "--reserve", "--reserve-fixed",
                      "--long-operation", "--reserve-slow-down", "--reserve-tail",
                      "--reserve-share"},
                     "without a mode that preempts", "preempt or preempt_pad in --mode");
  line.refuse_unused(some({mode::preempt_pad}),
                     {"--side", "--pad", "--pad-places", "--pad-slow-down", "--tolerance"},
                     "without the mode preempt_pad", "it in --mode");
  line.refuse_unused(!o.reserve.empty() || o.reserve_fixed, {"--long-operation"},
                     "without --reserve or --reserve-fixed", "one of them");
  const bool learns = !o.reserve.empty() && !o.reserve_fixed;
  line.refuse_unused(learns, {"--reserve-slow-down", "--reserve-tail", "--reserve-share"},
                     "without --reserve", "sizes to choose from in --reserve");
  line.refuse_unused(o.pad.has_value(), {"--pad-places", "--pad-slow-down"}, "beside --pad none",
                     "--pad own or needed");
  line.refuse_unused(o.pad.has_value() || !o.side.empty(), {"--tolerance"},
                     "beside --pad none and --side none", "one of them");
}

} // namespace

std::optional<options> parse_options(int argc, const char* const* argv) {
  raw_options raw;
  command_line line("realtime",
                    "Serves real-time and best-effort clients on one GPU in a list of modes, and "
                    "compares\nreal-time latency and the work that gets done.",
                    modes_and_examples);
  declare(line, raw);
  if (!line.parse(argc, argv)) return std::nullopt;
  options o = read(raw, line);
  shorten_segments(o, line);
  check_used(line, o);
  return o;
}

} // namespace realtime
