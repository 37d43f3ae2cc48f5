// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu_works.hpp"
#include "measure/probe_list.hpp"
#include "measure/row_file.hpp"
#include "measure/session.hpp"
#include "measure/solo_row.hpp"
#include "measure/whole_graph.hpp"

#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/counting.hpp>
#include <gsched/cuda_tools/profiling.hpp>
#include <gsched/interference/common_work.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

/// A graph to count, and its undisturbed time, which is measured before the profiler is loaded.
/// Probes have gigabytes, so each is made when it is timed, and again when it is counted.
struct counted_graph {
  cuda::profiling_options facts;
  std::shared_ptr<const cuda::program> program; ///< of a probe: between make() and let_go()
  std::optional<cuda::probe_options> probe{};
  std::shared_ptr<cuda::probe> owner{}; ///< of a probe's program
  std::uint64_t rounds = 0;             ///< of the probe, the same both times
  cuda::replay_times alone{};
  void make(sm_count sms) {
    if (!probe) return;
    owner = std::make_shared<cuda::probe>(*probe, sms);
    cuda::program_options how;
    how.name = name();
    how.measure = false;
    if (rounds == 0) rounds = owner->rounds_for(probe_us);
    program = std::make_shared<cuda::program>(owner->finite(rounds), how);
  }
  void let_go() {
    if (!probe) return;
    program.reset();
    owner.reset();
  }
  [[nodiscard]] std::string name() const {
    return facts.model + "_b" + std::to_string(facts.batch);
  }
};

counted_graph counted(const measured_graph& g) {
  counted_graph c;
  c.facts.model = g.model;
  c.facts.batch = g.batch;
  c.facts.dtype = g.dtype;
  c.facts.input = g.input;
  c.facts.output = g.output;
  c.program = g.instances.front();
  return c;
}

counted_graph counted(const cuda::probe_options& p) {
  counted_graph c;
  c.facts.model = p.name();
  c.probe = p;
  return c;
}

/// The SMs on which each kernel is measured too: how its time grows on fewer tells whether it is
/// persistent. None where the GPU has no such groups of SMs.
std::vector<sm_count> fewer_sms(const session& s) {
  constexpr std::size_t enough_groups = 4;
  const std::uint32_t all = s.gpu.sms.count();
  if (s.on.groups().size() < enough_groups) return {};
  return {sm_count{all / 2}, sm_count{all * 3 / 4}};
}

/// Sets `common_work` by these times. They are not kept: a chain on fewer SMs takes its time from
/// the latency of its graph there.
void mark_persistent(profile& p) {
  for (profile_operation& o : p.operations) {
    if (o.counters)
      o.counters->common_work = common_work_of(o.work, o.work.max_blocks_per_sm, p.sms.count());
    o.work.by_sms.clear();
  }
}

/// How long counting may take without a hang: a graph runs some 150 times for it, kernel by kernel.
std::chrono::seconds counting_limit(double solo_us) {
  constexpr double runs = 600;
  return std::chrono::seconds{120 + static_cast<long>(runs * 1e-6 * solo_us)};
}

} // namespace

part_report measure_counters(session& s, double until) {
  namespace fs = std::filesystem;
  part_report report;
  report.name = name_of(part::counters);
  const fs::path folder = s.how.out / "profiles";
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw common::run_error(errc::io, folder.string() + ": cannot be made (" + failed.message() +
                                          "), expected a folder");
  row_file file(s.how.out / "solo_metrics.csv", solo_metrics_columns(), 2, solo_metrics_newer);
  const auto is_there = [&](const std::string& model, std::uint32_t batch) {
    const std::string number = std::to_string(batch);
    const bool there =
        file.has({model, number}) && fs::exists(folder / (model + "_b" + number + ".json"), failed);
    report.kept += there ? 1 : 0;
    return there;
  };
  std::vector<counted_graph> missing;
  for (const measured_graph& g : s.graphs)
    if (!is_there(g.model, g.batch)) {
      missing.push_back(counted(g));
      missing.back().facts.partitions = fewer_sms(s);
    }
  if (s.ticks != nullptr && !s.measures(*s.ticks) && !is_there(s.ticks->model, s.ticks->batch))
    missing.push_back(counted(*s.ticks));
  // Also the probes, where they stand beside graphs or are asked for.
  const bool with_probes = !s.how.probes.all() || s.how.has(part::probes) ||
                           fs::exists(s.how.out / "probes.csv", failed);
  for (const cuda::probe_options& p :
       with_probes ? with_kernels(chosen(probe_list(s.gpu.sms, s.gpu.l2.count()), s.how.probes))
                   : std::vector<cuda::probe_options>{})
    if (!is_there(p.name(), 1)) missing.push_back(counted(p));
  {
    cuda::replayer replays({.progressed = s.progressed()});
    std::vector<counted_graph> timed;
    for (counted_graph& c : missing) {
      s.dog.step(report.name + ", " + c.name() + " alone", std::chrono::seconds{120});
      std::vector<double> times;
      try {
        c.make(s.gpu.sms);
        const cuda::placed_graph placed(*c.program, nullptr);
        for (int round = 0; round < 3; ++round) replays.alone(placed, times);
      } catch (const error& e) { // a probe that fits on no SM, or whose memory the GPU lacks
        if (!c.probe || !gpu_works()) throw;
        report.leave_out(c.facts.model, e.what());
        continue;
      }
      c.let_go();
      c.alone = cuda::summarize(std::move(times));
      timed.push_back(std::move(c));
    }
    missing = std::move(timed);
  }
  std::set<std::string> lacking; // counters of pipes and waits
  bool permitted = true;
  { // its end completes the report
    steps all(s, report, missing.size(), until);
    for (counted_graph& c : missing) {
      if (!all.begin(c.name(), counting_limit(c.alone.median))) break;
      try {
        c.make(s.gpu.sms);
        const whole_graph graph(*c.program);
        profile p = cuda::profile_graph(graph.get(), c.facts);
        cuda::counting_report counts = cuda::count_kernels(graph.get(), {}, p);
        for (std::string& name : counts.missing) lacking.insert(std::move(name));
        report.spread(counts.widest, counts.widest_of);
        mark_persistent(p);
        row_file::row row = solo_metrics_row(p, c.alone);
        write_profile(folder / (c.name() + ".json"), p);
        if (!file.has({row[0], row[1]})) file.add({std::move(row)});
        ++report.measured;
      } catch (const error& e) {
        if (e.code() == errc::io) throw common::run_error(errc::io, e.what()); // no place
        if (e.code() == errc::no_device) { // not permitted: so for all
          if (s.how.parts.size() == 1) throw;
          report.notes.emplace_back(e.what());
          ++report.failed;
          permitted = false;
          break;
        }
        report.leave_out(c.name(), e.what());
      }
      c.let_go();
    }
  }
  if (!permitted) report.failed += std::exchange(report.left_out, 0); // not for lack of time
  if (!lacking.empty())
    report.notes.push_back(fmt::format("the profiles have 0 for counters that this GPU lacks: {}",
                                       fmt::join(lacking, ", ")));
  return report;
}

} // namespace measure
