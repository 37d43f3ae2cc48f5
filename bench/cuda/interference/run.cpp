// SPDX-License-Identifier: Apache-2.0
#include "interference/power.hpp"
#include "interference/suites.hpp"

#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda_tools/counting.hpp>
#include <gsched/cuda_tools/installed_driver.hpp>
#include <gsched/cuda_tools/other_work.hpp>
#include <gsched/cuda_tools/profiling.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <optional>
#include <set>

namespace interference {

namespace cuda = gsched::cuda;
using json = nlohmann::ordered_json;

namespace {

json row_of(const experiment& e, const cuda::beside_result& r) {
  const auto times = [](const cuda::replay_times& t) {
    return json{{"count", t.count},
                {"mean_us", t.mean},
                {"p10_us", t.p10},
                {"median_us", t.median},
                {"p90_us", t.p90}};
  };
  return {{"suite", e.suite},
          {"victim", e.victim.name()},
          {"probe", e.probe.name()},
          {"shared", e.split.victim.count() == 0},
          {"victim_sms", r.victim_sms.count()},
          {"probe_sms", r.probe_sms.count()},
          {"victim_sms_seen", r.victim_sms_seen},
          {"probe_sms_seen", r.last.sms},
          {"probe_clock_mhz", r.last.clock_mhz},
          {"alone", times(r.alone)},
          {"beside", times(r.beside)},
          {"held_up", r.held_up},
          {"slowdown", r.victim_slowdown()},
          {"together_us", r.together_us},
          {"in_turn_us", r.in_turn_us},
          {"probe_rate_alone", r.probe_rate_alone},
          {"probe_rate_beside", r.probe_rate_beside}};
}

json row_of(const power_load& load, const power_result& r, const power_result& idle) {
  const auto readings = [](const cuda::power_readings& p) {
    return json{{"sm_mhz", p.sm_mhz},
                {"least_sm_mhz", p.least_sm_mhz},
                {"memory_mhz", p.memory_mhz},
                {"watts", p.watts},
                {"most_watts", p.most_watts},
                {"limit_watts", p.limit_watts},
                {"celsius", p.celsius},
                {"busy_percent", p.busy_percent},
                {"memory_percent", p.memory_percent},
                {"throttled", p.reasons},
                {"samples", p.count}};
  };
  return {{"suite", "power"},
          {"load", load.name},
          {"probe", load.probe ? json(load.probe->name()) : json()},
          {"alone", readings(r.alone)},
          {"beside", readings(r.beside)},
          {"load_clock_mhz", r.load_mhz},
          {"victim_sms", r.victim_sms.count()},
          {"load_sms", r.load_sms.count()},
          {"victim_us", r.victim.median},
          {"victim_slowdown", r.victim.median / idle.victim.median},
          {"clock_ratio", idle.beside.sm_mhz / r.beside.sm_mhz}};
}

/// The suite power: clocks and power of each load, and how far lower clocks slow a victim. Returns
/// whether all loads ran; without NVML there are none.
template <class Save>
bool run_power(const run_options& o, ::experiment::watchdog& watch, json& rows, Save save) {
  constexpr double seconds = 1.5; // of samples
  std::optional<power_result> idle;
  const auto list = [](const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
    return all.empty() ? std::string("none") : all;
  };
  fmt::print("{:10} {:16} {:>8} {:>7} {:>8} {:>6} {:>6} {:>11} {:>8} {:>9} {:>7} {:>7}  {}\n",
             "suite", "load", "W alone", "SM MHz", "mem MHz", "busy %", "mem %", "SM MHz, two",
             "counted", "victim", "slower", "clock", "lower clocks for");
  try {
    for (const power_load& load : power_loads()) {
      watch.step("power of " + load.name, 40);
      const power_result r = measure_power(load, o.gpu, o.victim_us, seconds);
      if (!idle) idle = r;
      const json& row = rows.emplace_back(row_of(load, r, *idle));
      fmt::print("{:10} {:16} {:8.0f} {:7.0f} {:8.0f} {:6.0f} {:6.0f} {:11.0f} {:8.0f} {:9.1f} "
                 "{:7.3f} {:7.3f}  {}\n",
                 "power", load.name, r.alone.watts, r.alone.sm_mhz, r.alone.memory_mhz,
                 r.alone.busy_percent, r.alone.memory_percent, r.beside.sm_mhz, r.load_mhz,
                 r.victim.median, row["victim_slowdown"].get<double>(),
                 row["clock_ratio"].get<double>(), list(r.alone.reasons));
      std::fflush(stdout);
      save();
    }
    return true;
  } catch (const gsched::error& wrong) {
    fmt::print(stderr, "gsched.gpu.interference: power: {}\n", wrong.what());
    rows.push_back({{"suite", "power"}, {"error", wrong.what()}});
    save();
    return false;
  }
}

/// The SMs of the first groups that have at least so many.
gsched::sm_count in_whole_groups(gsched::sm_count sms, const std::vector<std::uint32_t>& groups) {
  const auto end = groups.begin() + static_cast<std::ptrdiff_t>(cuda::groups_for(sms, groups));
  return gsched::sm_count{std::accumulate(groups.begin(), end, 0u)};
}

/// Profiles of the probes, with counters where asked for, each one written once.
class profiles {
public:
  profiles(const run_options& o, gsched::sm_count sms) : options_(o), sms_(sms) {}

  void write(const cuda::probe_options& how) {
    if (options_.profiles.empty() || !written_.insert(how.name()).second) return;
    cuda::probe one(how, sms_);
    CUgraph const graph = one.finite(one.rounds_for(options_.victim_us));
    cuda::profiling_options facts;
    facts.model = how.name();
    gsched::profile made = cuda::profile_graph(graph, facts);
    if (options_.counters)
      for (const std::string& name : cuda::count_kernels(graph, {}, made))
        if (missing_.insert(name).second)
          fmt::print(stderr,
                     "gsched.gpu.interference: this GPU lacks {}, which is 0 in the profiles\n",
                     name);
    std::ofstream to(options_.profiles + "/" + made.full_name() + ".json");
    gsched::write_profile(to, made);
    if (!to) throw gsched::error(gsched::errc::io, options_.profiles + ": cannot be written");
  }

private:
  const run_options& options_;
  gsched::sm_count sms_;
  std::set<std::string> written_, missing_;
};

} // namespace

bool run(const run_options& o) {
  ::experiment::watchdog watch("gsched.gpu.interference");
  watch.step("the GPU", 60);
  const cuda::gpu on = cuda::find_gpu(o.gpu);
  cuda::check(cudaSetDevice(o.gpu), "GPU");
  const auto look = [&] {
    watch.step("looking whether the GPU is idle", 60);
    return cuda::find_other_work(on);
  };
  if (!o.busy)
    if (const std::string line = look(); !line.empty())
      throw gsched::error(gsched::errc::device_failed, line + " --busy measures all the same");
  std::vector<experiment> all = o.experiments;
  for (const std::string& name : o.suites)
    for (experiment& e : suite(name, on.sms.count(), on.l2.count())) all.push_back(std::move(e));

  const std::vector<std::uint32_t> groups = cuda::group_sizes(o.gpu);
  json out{{"gpu", on.name},
           {"driver", cuda::installed_driver()},
           {"cuda", cuda::cuda_version(on.runtime_version)},
           {"sms", on.sms.count()},
           {"groups", groups},
           {"l2_bytes", on.l2.count()},
           {"rows", json::array()}};
  const auto save = [&] {
    if (o.json.empty()) return;
    std::ofstream to(o.json);
    to << out.dump(1) << '\n';
    to.close();
    if (!to) throw gsched::error(gsched::errc::io, o.json + ": cannot be written");
  };
  save(); // before anything is measured

  profiles files(o, on.sms);
  const double end = ::experiment::seconds_now() + o.seconds;
  std::size_t left_out = 0;
  std::size_t failed = 0;
  const bool has_power = std::find(o.suites.begin(), o.suites.end(), "power") != o.suites.end();
  if (has_power && !run_power(o, watch, out["rows"], save)) ++failed;
  if (!all.empty())
    fmt::print("{:10} {:>24} {:>32} {:>5} {:>9} {:>9} {:>6} {:>6} {:>5} {:>5}\n", "suite", "victim",
               "probe", "SMs", "alone", "beside", "slow", "rate", "gain", "MHz");
  for (const experiment& e : all) {
    if (::experiment::seconds_now() > end) {
      ++left_out;
      continue;
    }
    watch.step(e.victim.name() + " beside " + e.probe.name(), hangs_after(o));
    try {
      files.write(e.victim);
      files.write(e.probe);
      // The victim on its own SMs has a block on each of them, as the probe has.
      const gsched::sm_count mine =
          e.split.victim.count() == 0 ? on.sms : in_whole_groups(e.split.victim, groups);
      cuda::probe victim(e.victim, mine);
      cuda::beside_options how;
      how.gpu = o.gpu;
      how.turns = o.turns;
      how.turn_ms = o.turn_ms;
      how.together = 21;
      const cuda::beside_result r = cuda::measure_beside(
          victim.finite(victim.rounds_for(o.victim_us)), e.probe, e.split, how);
      out["rows"].push_back(row_of(e, r));
      fmt::print("{:10} {:>24} {:>32} {:>5} {:9.1f} {:9.1f} {:6.2f} {:6.2f} {:5.2f} {:5.0f}{}\n",
                 e.suite, e.victim.name(), e.probe.name(), r.victim_sms.count(), r.alone.median,
                 r.beside.median, r.victim_slowdown(),
                 r.probe_rate_beside > 0 ? r.probe_rate_alone / r.probe_rate_beside : 0,
                 r.together_us > 0 ? r.in_turn_us / r.together_us : 0, r.last.clock_mhz,
                 r.held_up ? " held up" : "");
    } catch (const gsched::error& wrong) {
      ++failed;
      fmt::print(stderr, "gsched.gpu.interference: {} beside {}: {}\n", e.victim.name(),
                 e.probe.name(), wrong.what());
      out["rows"].push_back({{"suite", e.suite},
                             {"victim", e.victim.name()},
                             {"probe", e.probe.name()},
                             {"error", wrong.what()}});
    }
    std::fflush(stdout);
    save();
  }
  const std::string other_work = look();
  if (!other_work.empty()) {
    fmt::print(stderr, "gsched.gpu.interference: at the end, {}\n", other_work);
    out["other_work"] = other_work;
    save();
  }
  watch.rest();
  if (left_out > 0)
    fmt::print(stderr, "gsched.gpu.interference: {} of {} left out after {} s\n", left_out,
               all.size(), o.seconds);
  return left_out == 0 && failed == 0;
}

} // namespace interference
