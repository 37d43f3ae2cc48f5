// SPDX-License-Identifier: Apache-2.0
#include "measure/run.hpp"

#include "measure/folder.hpp"
#include "measure/held_up.hpp"
#include "measure/places.hpp"
#include "measure/session.hpp"
#include "measure/time_shares.hpp"

#include "common/cli/run_error.hpp"
#include "common/cuda/this_machine.hpp"
#include "common/report/json.hpp"
#include "common/report/save.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

/// Of the time of a run.
double weight_of(part p) noexcept {
  switch (p) {
  case part::latency: return 1;
  case part::pairs: return 2.5;
  case part::starts: return 0.3;
  case part::probes: return 1.5;
  case part::kernels: return 1.5;
  case part::counters: return 1.5;
  }
  return 1;
}

/// What a run needs before it makes graphs.
struct beginning {
  cuda::gpu gpu;
  machine here;
  places on; ///< of the GPU
};

/// Checks all that needs no graphs. Changes nothing.
beginning begin(const options& o, common::step_watchdog& dog) {
  // Partitions whose streams share a hardware queue block each other; the driver reads this once.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  dog.step("finding the GPU", std::chrono::seconds{60});
  const cuda::gpu gpu = cuda::find_gpu(o.gpu);
  cuda::check(cudaSetDevice(gpu.ordinal), "GPU");
  beginning b{gpu, common::this_machine(gpu), places(gpu.ordinal)};
  b.here.libraries = o.libraries;
  if (!o.anew) check_folder(o.out, b.here);
  if (o.has(part::latency)) check_latency(o, b.on);
  if (o.has(part::probes)) check_probes(o, b.on);
  if (o.busy) return b;
  if (const std::string line = look_for_other_work(gpu, dog); !line.empty())
    throw common::run_error(errc::device_failed, line + " --busy measures all the same");
  return b;
}

part_report measure(part p, session& s, double until) {
  switch (p) {
  case part::latency: return measure_latency(s, until);
  case part::pairs: return measure_pairs(s, until);
  case part::starts: return measure_starts(s, until);
  case part::probes: return measure_probes(s, until);
  case part::kernels: return measure_kernels(s, until);
  case part::counters: return measure_counters(s, until);
  }
  return {};
}

/// Whether a part needs the graph that only starts kernels: the counters need it where others have
/// been measured beside it.
bool needs_ticks(const options& o) {
  if (o.has(part::starts)) return true;
  std::error_code ignored;
  return o.has(part::counters) && !o.anew &&
         std::filesystem::exists(o.out / start_pairs_name, ignored);
}

/// The report of f(), with the seconds that it took.
template <class F>
part_report timed(const session& s, F f) {
  const double begun = s.now();
  part_report report = f();
  report.seconds = s.now() - begun;
  return report;
}

void print(const options& o, const machine& here, const std::vector<part_report>& all) {
  fmt::print("{}, {} SMs, driver {}, CUDA {}: {}\n", here.gpu, here.sms.count(),
             here.driver.empty() ? "unknown" : here.driver, here.cuda, o.out.string());
  for (const part_report& r : all) {
    fmt::print("{:<8} {:6} rows measured in {:.0f} s, {} kept", r.name, r.measured, r.seconds,
               r.kept);
    if (r.left_out > 0) fmt::print("; {} steps left out, expected more --minutes", r.left_out);
    fmt::print("\n");
    if (r.measured > 0 && !r.widest_row.empty())
      fmt::print("         widest spread {:.1f}%: {}\n", 100 * r.widest, r.widest_row);
    for (const std::string& n : r.notes) fmt::print("         {}\n", n);
  }
}

void write_json(std::ostream& to, const options& o, const machine& here,
                const std::vector<part_report>& all) {
  common::json document{
      {"gpu", here.gpu}, {"out", o.out.string()}, {"parts", common::json::array()}};
  for (const part_report& r : all)
    document["parts"].push_back({{"part", r.name},
                                 {"rows", r.measured},
                                 {"kept", r.kept},
                                 {"steps_left_out", r.left_out},
                                 {"failed", r.failed},
                                 {"looks_that_found_other_work", r.disturbed},
                                 {"seconds", common::rounded(r.seconds)},
                                 {"widest_spread", common::rounded(r.widest)},
                                 {"widest_row", r.widest_row},
                                 {"notes", r.notes}});
  to << document.dump(1) << '\n';
}

} // namespace

int check_machine(const options& o) {
  common::step_watchdog dog("measure");
  static_cast<void>(begin(o, dog));
  return 0;
}

int run(const options& o, std::span<const gsched_measure_graph> captured) {
  common::step_watchdog dog("measure");
  beginning at = begin(o, dog); // before the graphs are made, which takes long
  const cuda::gpu& gpu = at.gpu;
  const machine& here = at.here;
  dog.step("making graphs", std::chrono::seconds{300});
  std::vector<measured_graph> graphs = make_graphs(o, captured);
  const auto named = std::find_if(graphs.begin(), graphs.end(), is_ticks);
  const measured_graph* ticks = named != graphs.end() ? &*named : nullptr;
  std::optional<measured_graph> made; // where the options do not name it
  if (ticks == nullptr && needs_ticks(o)) ticks = &made.emplace(make_ticks());
  session s{o, gpu, graphs, ticks, at.on, dog};
  if (o.has(part::pairs)) check_pairs(s);
  open_folder(o.out, o.anew, here); // after all checks, as --anew removes files here
  std::vector<double> weights;
  for (const part p : o.parts) weights.push_back(weight_of(p));
  const time_shares shares(60 * o.minutes, weights);
  std::vector<part_report> all;
  for (std::size_t i = 0; i < o.parts.size(); ++i) {
    const double until = shares.until(i, s.now());
    // Kernels beside sleeping blocks share their SMs.
    if (o.parts[i] == part::probes && o.split != sm_split::own) {
      constexpr double places = 0.25; // of the probes' time
      const double end = s.now() + places * (until - s.now());
      all.push_back(timed(s, [&] { return measure_held_up(s, end); }));
    }
    all.push_back(timed(s, [&] { return measure(o.parts[i], s, until); }));
    if (const std::string line = look_for_other_work(gpu, dog); !line.empty()) {
      all.back().notes.push_back("after it, " + line);
      if (!o.busy) ++all.back().disturbed;
    }
  }
  dog.step("writing results", std::chrono::seconds{60});
  try {
    complete_profiles(o.out, here.sms);
  } catch (const error& e) {
    if (e.code() == errc::io) throw common::run_error(errc::io, e.what()); // no place
    all.back().notes.emplace_back(e.what()); // of a file that another program wrote
    ++all.back().failed;
  }
  if (!o.quiet) print(o, here, all);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) { write_json(to, o, here, all); });
  const std::string missing = what_is_missing(all);
  if (missing.empty()) return 0;
  std::fflush(stdout);
  fmt::print(stderr, "measure: {}\n", missing);
  return incomplete_status;
}

} // namespace measure
