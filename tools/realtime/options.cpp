// SPDX-License-Identifier: Apache-2.0
#include "realtime/options.hpp"

#include "realtime/command_line.hpp"
#include "realtime/workload_json.hpp"

#include "common/catalogue.hpp"

#include <gsched/io/text_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

namespace realtime {

namespace {

std::filesystem::path find_workload(const std::string& word) {
  if (word.ends_with(".json")) return to_file("--workload", word, "a workload's file");
  std::vector<std::string> names;
  std::error_code ec;
  for (std::filesystem::directory_iterator at(shipped("workloads"), ec), end; !ec && at != end;
       at.increment(ec)) {
    if (at->path().extension() != ".json") continue;
    if (at->path().stem() == word) {
      note_input("--workload", at->path());
      return at->path();
    }
    names.push_back(at->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  refuse("--workload", "unknown workload " + in_quotes(word),
         fmt::format("FILE.json, or one of {}", fmt::join(names, ", ")),
         gsched::errc::unknown_name);
}

std::vector<mode> to_modes(const std::string& words) {
  std::vector<mode> modes;
  if (words == "all") {
    for (std::size_t i = 0; i < std::size(mode_names); ++i) modes.push_back(static_cast<mode>(i));
    return modes;
  }
  for (const std::string& name : to_list("--mode", words)) {
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

gsched::leaving to_leaving(const std::string& word) {
  if (word == "never") return gsched::leaving::never;
  if (word == "between_blocks") return gsched::leaving::between_blocks;
  if (word == "at_checkpoints") return gsched::leaving::at_checkpoints;
  refuse("--leaves", "unknown way " + in_quotes(word), "never, between_blocks or at_checkpoints",
         gsched::errc::unknown_name);
}

std::optional<gsched::level_rule> to_pad(const std::string& word) {
  if (word == "none") return std::nullopt;
  if (word == "own") return gsched::level_rule::own;
  if (word == "needed") return gsched::level_rule::needed;
  refuse("--pad", "unknown rule " + in_quotes(word), "none, own or needed",
         gsched::errc::unknown_name);
}

std::vector<gsched::sm_count> to_sizes(std::string_view option, const std::string& words) {
  std::vector<gsched::sm_count> sizes;
  if (words == "none") return sizes;
  for (const std::uint32_t n : to_counts(option, words, 1, 1024)) sizes.emplace_back(n);
  if (sizes.size() > 4) refuse(option, fmt::format("{} sizes", sizes.size()), "at most 4");
  return sizes;
}

void read_reserve(options& o, const words& w) {
  o.reserve = to_sizes("--reserve", w.reserve);
  for (std::size_t i = 1; i < o.reserve.size(); ++i)
    if (o.reserve[i] <= o.reserve[i - 1])
      refuse("--reserve", in_quotes(w.reserve) + " does not rise", "sizes that rise");
  if (!w.reserve_fixed.empty()) {
    if (!o.reserve.empty()) refuse("--reserve-fixed", "--reserve is given too", "one of the two");
    o.reserve_fixed = true;
    if (const auto n = to_count("--reserve-fixed", w.reserve_fixed, 0, 1024); n > 0)
      o.reserve.emplace_back(static_cast<std::uint32_t>(n));
  }
  o.long_operation = gsched::from_us(
      to_number("--long-operation", w.long_operation, {0, 1e9, true, "microseconds"}));
  o.reserve_slow_down =
      to_number("--reserve-slow-down", w.reserve_slow_down, {0, 1000, false, "percent"}) / 100;
  o.reserve_tail = to_number("--reserve-tail", w.reserve_tail, {0, 10000, false, "percent"}) / 100;
  o.reserve_share = to_number("--reserve-share", w.reserve_share, {0, 100, false, "percent"}) / 100;
}

void read_work(options& o, const words& w) {
  o.file = find_workload(w.workload);
  o.work = parse_workload(
      gsched::detail::whole_text(o.file, "a workload's file", max_workload_bytes), o.file.string());
  catalogue known(w.profiles);
  if (w.profiles.empty()) known.add_directory(shipped("constructed"));
  for (std::size_t i = 0; i < o.work.clients.size(); ++i) {
    const client_spec& c = o.work.clients[i];
    const std::string where = fmt::format("{}: clients/{}", o.file.string(), i);
    o.profiles.push_back(known.find(where + "/model", c.model));
    if (c.arrivals.law == arrival_law::trace)
      note_input(where + "/arrivals/file", o.file.parent_path() / c.arrivals.file);
  }
  const bool any = std::any_of(o.work.clients.begin(), o.work.clients.end(),
                               [](const client_spec& c) { return c.real_time(); });
  if (!any)
    throw gsched::error(gsched::errc::bad_profile,
                        o.file.string() + ": no real-time client, expected one or more");
}

options read(const words& w, bool seconds_given, bool requests_given, bool most_given) {
  options o;
  read_device_words(o, w);
  read_work(o, w);
  o.modes = to_modes(w.mode);
  if (seconds_given || !requests_given)
    o.length = gsched::from_us(1e6 * to_number("--seconds", w.seconds, {0, 1e5, true, "seconds"}));
  if (requests_given) o.requests = to_count("--requests", w.requests, 1, 100'000'000);
  o.seed = to_count("--seed", w.seed, 0, std::numeric_limits<std::uint64_t>::max());
  o.lanes = static_cast<std::uint32_t>(to_count("--lanes", w.lanes, 1, 1024));
  o.real_time_lanes =
      static_cast<std::uint32_t>(to_count("--rt-lanes", w.real_time_lanes, 1, 1024));
  o.quantum = gsched::from_us(to_number("--quantum", w.quantum, {0, 1e9, true, "microseconds"}));
  o.most_quantum = to_us("--most-quantum", w.most_quantum, 1e9);
  if (!most_given) o.most_quantum = std::max(o.most_quantum, o.quantum);
  check_quanta(o.quantum, o.most_quantum);
  o.overshoot = to_number("--overshoot", w.overshoot, {0, 1e6});
  o.floor = to_number("--floor", w.floor, {0, 0.99});
  o.side = to_sizes("--side", w.side);
  read_reserve(o, w);
  o.pad = to_pad(w.pad);
  o.pad_places = to_count("--pad-places", w.pad_places, 2, 4096);
  o.tolerance = to_number("--tolerance", w.tolerance, {0, 1000, false, "percent"}) / 100;
  o.leaves = to_leaving(w.leaves);
  o.before = w.before;
  read_output_words(o, w);
  return o;
}

/// Of kernels that leave, those of a segment that have not started pass through the GPU all the
/// same, one by one: so segments are short.
void shorten_segments(options& o, const CLI::App& app) {
  constexpr gsched::duration longest = std::chrono::microseconds{50};
  if (o.leaves == gsched::leaving::never) return;
  for (const auto& [option, time] :
       {std::pair("--quantum", o.quantum), {"--most-quantum", o.most_quantum}})
    if (is_given(app, option) && time > longest)
      refuse(option, fmt::format("{} us with kernels that leave (--leaves)", gsched::to_us(time)),
             fmt::format("at most {}", gsched::to_us(longest)));
  o.quantum = std::min(o.quantum, longest);
  if (!is_given(app, "--most-quantum")) o.most_quantum = o.quantum;
}

/// Refuses options that none of the modes asked for uses.
void check_used(const CLI::App& app, const options& o) {
  const auto some = [&](std::initializer_list<mode> of) {
    return std::find_first_of(o.modes.begin(), o.modes.end(), of.begin(), of.end()) !=
           o.modes.end();
  };
  refuse_unused(app, some({mode::rt_only, mode::preempt, mode::preempt_pad}),
                {"--quantum", "--most-quantum", "--overshoot", "--rt-lanes"},
                "without a mode that schedules", "rt_only, preempt or preempt_pad in --mode");
  refuse_unused(app, some({mode::preempt, mode::preempt_pad}),
                {"--lanes", "--floor", "--leaves", "--reserve", "--reserve-fixed",
                 "--long-operation", "--reserve-slow-down", "--reserve-tail", "--reserve-share"},
                "without a mode that preempts", "preempt or preempt_pad in --mode");
  refuse_unused(app, some({mode::preempt_pad}), {"--side", "--pad", "--pad-places", "--tolerance"},
                "without the mode preempt_pad", "it in --mode");
  refuse_unused(app, !o.reserve.empty() || o.reserve_fixed, {"--long-operation"},
                "without --reserve or --reserve-fixed", "one of them");
  const bool learns = !o.reserve.empty() && !o.reserve_fixed;
  refuse_unused(app, learns, {"--reserve-slow-down", "--reserve-tail", "--reserve-share"},
                "without --reserve", "sizes to choose from in --reserve");
  refuse_unused(app, o.pad.has_value(), {"--pad-places"}, "beside --pad none",
                "--pad own or needed");
  refuse_unused(app, o.pad.has_value() || !o.side.empty(), {"--tolerance"},
                "beside --pad none and --side none", "one of them");
}

} // namespace

std::optional<options> parse_options(int argc, const char* const* argv) {
  CLI::App app;
  words w;
  declare(app, w);
  if (!parse(app, argc, argv)) return std::nullopt;
  options o = read(w, is_given(app, "--seconds"), is_given(app, "--requests"),
                   is_given(app, "--most-quantum"));
  o.threads = read_threads(w.threads, is_given(app, "--threads"), o, o);
  if (o.threads > 1 && is_given(app, "--threads") && !o.before.empty())
    refuse("--threads", "more than one beside --before", "1, or no --before");
  shorten_segments(o, app);
  check_used(app, o);
  return o;
}

} // namespace realtime
