// SPDX-License-Identifier: Apache-2.0
// Measures the parameters of the GPU simulator on a GPU, and writes them as a preset.

#include "calibrate/experiments.hpp"
#include "calibrate/options.hpp"
#include "calibrate/report.hpp"
#include "calibrate/self_check.hpp"

#include "common/cli/main.hpp"
#include "common/cli/run_error.hpp"
#include "common/run/step_watchdog.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/io/preset_json.hpp>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace calibrate;
using gsched::errc;
using gsched::error;
using list = std::vector<std::unique_ptr<experiment>>;

void note(const std::string& line) { std::fprintf(stderr, "calibrate: %s\n", line.c_str()); }

/// Adds an experiment. If this GPU or host cannot run it, the preset keeps default values.
template <class Make>
void add(list& to, common::step_watchdog& dog, const char* what, errc passed_over, Make make) {
  dog.step(what, std::chrono::seconds{60});
  try {
    to.push_back(make());
  } catch (const error& e) {
    if (e.code() != passed_over) throw;
    note(std::string(what) + " left out: " + e.what());
  }
}

void run_rounds(list& of, samples& into, common::step_watchdog& dog, const options& o) {
  const double until = now_us() + 1e6 * o.seconds;
  const int most = o.quick ? 3 : 25;
  for (int r = 0; r < most && (r < 3 || now_us() < until); ++r)
    for (std::unique_ptr<experiment>& e : of) {
      if (!e) continue;
      dog.step(e->name(), std::chrono::seconds{30});
      try {
        e->round(into);
      } catch (const error& why) {
        if (why.code() != errc::too_small) throw;
        note(std::string(e->name()) + " ended: " + why.what());
        e.reset();
      }
    }
  dog.step("ending the experiments", std::chrono::seconds{30});
  of.clear();
}

queue_counts count_queues(const options& o, common::step_watchdog& dog) try {
  queue_counts counts;
  for (const std::uint32_t connections : {8u, 32u, 128u}) {
    dog.step("counting hardware queues", std::chrono::seconds{60});
    counts[connections] = count_in_child(o.gpu, connections);
  }
  return counts;
} catch (const error& e) { // everything else has been measured
  note(e.what());
  return {};
}

int check(const options& o, const gsched::cuda::gpu& gpu) {
  gsched::preset_provenance from;
  const gsched::sim::preset p = gsched::load_preset(o.check, &from);
  const std::string differs =
      gsched::mismatch(p, from, {gpu.name, gpu.sm.major, gpu.sm.minor, gpu.sms});
  if (!differs.empty()) throw common::run_error(errc::bad_option, o.check + ": " + differs);
  std::printf("%s: preset %s is of this GPU, %s\n", o.check.c_str(), p.name.c_str(),
              gpu.name.c_str());
  return 0;
}

int simulate(const options& o) {
  const gsched::sim::preset& p = *o.simulated;
  gsched::cuda::gpu as;
  as.name = p.name;
  as.sm = p.sm;
  as.sms = p.sms;
  findings found = conclude(measure_simulated(p), {}, as);
  found.from.driver = found.from.runtime = found.from.host = "simulated";
  report(o, std::move(found));
  return 0;
}

int measure(const options& o, const gsched::cuda::gpu& gpu, common::step_watchdog& dog) {
  std::printf("%s, %u SMs, compute capability %u.%u\n", gpu.name.c_str(), gpu.sms.count(),
              gpu.sm.major, gpu.sm.minor);
  std::fflush(stdout);
  samples measured;
  rig on(gpu);
  list graphs;
  add(graphs, dog, "submitting and polling", errc::too_small, [&] { return device_costs(gpu); });
  add(graphs, dog, "latencies", errc::too_small, [&] { return latencies(on); });
  add(graphs, dog, "block notifications", errc::too_small, [&] { return block_notifications(on); });
  add(graphs, dog, "gaps", errc::too_small, [&] { return gaps(on); });
  add(graphs, dog, "copies and sets", errc::too_small, [&] { return transfers(on); });
  add(graphs, dog, "gates", errc::too_small, [&] { return gates(on); });
  add(graphs, dog, "preemptible kernels", errc::too_small, [&] { return preemptible_kernels(on); });
  add(graphs, dog, "green contexts", errc::device_failed, [&] { return green_contexts(on); });
  run_rounds(graphs, measured, dog, o);

  list direct; // last: kernels launched on their own streams slow the graphs of the process
  add(direct, dog, "direct launches", errc::too_small, [&] { return direct_launches(on); });
  run_rounds(direct, measured, dog, o);

  report(o, conclude(measured, o.queues ? count_queues(o, dog) : queue_counts{}, gpu));
  return 0;
}

int run(const options& o) {
  if (o.simulated) return simulate(o);
  common::step_watchdog dog("calibrate");
  dog.step("finding the GPU", std::chrono::seconds{60});
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  if (!o.check.empty()) return check(o, gpu);
  if (!o.count_queues) return measure(o, gpu, dog);
  dog.step("counting hardware queues", std::chrono::seconds{30});
  const queue_figures q = count_here(gpu);
  std::printf("%u %u\n", q.grids, q.chains);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("calibrate", argc, argv, parse_options, run);
}
