// SPDX-License-Identifier: Apache-2.0
#include "head_of_line/run.hpp"
#include "experiment.hpp"
#include "head_of_line/load.hpp"
#include "process.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

namespace head_of_line {

using nlohmann::ordered_json;

namespace {

constexpr int no_gpu = 4; // a child's status

ordered_json as_json(const outcome& o) {
  return {{"offered", o.offered}, {"achieved", o.achieved},
          {"mean_us", o.mean_us}, {"p50_us", o.p50_us},
          {"p99_us", o.p99_us},   {"jobs", o.jobs},
          {"gave_up", o.gave_up}, {"submissions_per_job", o.submissions_per_job}};
}

ordered_json figures_of(const way& w, bool with_sweep, const run_options& o) {
  experiment::watchdog dog("gsched.gpu.head_of_line --child " + w.name);
  dog.step("start of CUDA", 30);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  gsched::cuda::check(cudaSetDevice(o.gpu), "GPU");
  const long long cycles = calibrate(o.job);
  dog.step("set-up", 60);
  const std::unique_ptr<server> s = w.how == submitter::gsched
                                        ? make_gsched_server(w, o.job, cycles, o.gpu)
                                        : make_driver_server(w, o.job, cycles);
  dog.step("capacity", 30);
  const double at_once =
      measure_capacity(*s, o.job, std::max(256U, 2 * (w.streams + w.spares)), 0.4);
  ordered_json out{{"way", w.name},
                   {"gpu", gpu.name},
                   {"connections", w.connections},
                   {"streams", w.streams},
                   {"spares", w.spares},
                   {"priorities", w.priorities},
                   {"partitions", w.partitions},
                   {"cycles", cycles},
                   {"jobs_at_once", at_once}};
  if (with_sweep) {
    const sweep_result r = sweep(*s, o.job, o.seconds, at_once, dog);
    out["p99_low_us"] = r.p99_low_us;
    out["sustained"] = r.sustained;
    for (const outcome& p : r.points) out["points"].push_back(as_json(p));
  }
  return out;
}

class parent {
public:
  explicit parent(const run_options& o) : o_(o) {}

  ordered_json run(const way& w, bool with_sweep) {
    ++seen_;
    std::vector<std::string> command{"/proc/self/exe",
                                     "--child",
                                     w.name,
                                     "--gpu",
                                     std::to_string(o_.gpu),
                                     "--load-seconds",
                                     fmt::format("{}", o_.seconds),
                                     "--kernels",
                                     std::to_string(o_.job.kernels),
                                     "--kernel-us",
                                     fmt::format("{}", o_.job.kernel_us)};
    if (with_sweep) command.emplace_back("--sweep");
    experiment::process child(command, {{"CUDA_DEVICE_MAX_CONNECTIONS",
                                         w.connections == 0 ? "" : std::to_string(w.connections)}});
    child.close_input();
    std::string text;
    const bool ended = child.read(text, with_sweep ? 60 + 20 * (o_.seconds + 1) : 60);
    const int status = child.wait(ended ? 2 : 0);
    ordered_json out = ordered_json::parse(text, nullptr, false);
    if (!out.is_object())
      out = {{"way", w.name},
             {"error", fmt::format("the process ended with status {} and no figures", status)}};
    if (status == no_gpu)
      throw gsched::error(gsched::errc::no_device, out["error"].get<std::string>());
    if (out.contains("error")) {
      fmt::print("{:<28} error: {}\n", w.name, out["error"].get<std::string>());
      ++failed_;
    }
    return out;
  }

  [[nodiscard]] std::size_t failed() const { return failed_; }
  [[nodiscard]] std::size_t seen() const { return seen_; }

private:
  const run_options& o_;
  std::size_t failed_ = 0;
  std::size_t seen_ = 0;
};

bool wanted(const run_options& o, const std::string& name) {
  return o.only.empty() || std::ranges::any_of(o.only, [&](const std::string& part) {
           return name.find(part) != std::string::npos;
         });
}

void print_sweep(const ordered_json& r) {
  fmt::print("\n{}: {:.1f} jobs at once; p99 {:.0f} us at low load, doubled beyond {:.1f}\n",
             r["way"].get<std::string>(), r["jobs_at_once"].get<double>(),
             r["p99_low_us"].get<double>(), r["sustained"].get<double>());
  fmt::print("{:>8} {:>9} {:>9} {:>9} {:>9}\n", "load", "achieved", "mean us", "p50 us", "p99 us");
  for (const auto& p : r["points"])
    fmt::print("{:>8.2f} {:>9.2f} {:>9.0f} {:>9.0f} {:>9.0f}{}\n", p["offered"].get<double>(),
               p["achieved"].get<double>(), p["mean_us"].get<double>(), p["p50_us"].get<double>(),
               p["p99_us"].get<double>(), p["gave_up"].get<bool>() ? " at least" : "");
  std::fflush(stdout);
}

/// What gsched sustains, relative to submission at arrival.
void print_ratios(const ordered_json& sweeps) {
  double best = 0;
  std::string name;
  for (const auto& r : sweeps)
    if (r["way"].get<std::string>().starts_with("gsched") && r["sustained"].get<double>() > best) {
      best = r["sustained"];
      name = r["way"];
    }
  if (best <= 0) return;
  fmt::print("\nsustained load before p99 doubles, {} against:\n", name);
  for (const auto& r : sweeps)
    if (const double other = r["sustained"]; other > 0)
      fmt::print("  {:<28} {:>7.1f} / {:>6.1f} = {:.2f}\n", r["way"].get<std::string>(), best,
                 other, best / other);
}

} // namespace

int run_child(const std::string& way_name, bool with_sweep, const run_options& o) {
  const std::optional<way> w = find_way(way_name);
  int status = 0;
  ordered_json out{{"way", way_name}};
  try {
    if (!w) throw gsched::error(gsched::errc::unknown_name, way_name + ": no such way");
    out = figures_of(*w, with_sweep, o);
  } catch (const gsched::error& wrong) {
    out["error"] = wrong.what();
    status = wrong.code() == gsched::errc::no_device ? no_gpu : 1;
  } catch (const std::exception& wrong) {
    out["error"] = wrong.what();
    status = 1;
  }
  fmt::print("{}\n", out.dump());
  std::fflush(stdout);
  std::_Exit(status); // the driver frees everything
}

int run_all(const run_options& o) {
  parent p(o);
  ordered_json capacities = ordered_json::array();
  std::vector<way> compared;
  way best;
  way best_default;
  double most = 0;
  double most_default = 0;
  for (const way& w : all_ways()) {
    if (!wanted(o, w.name)) continue;
    const ordered_json r = p.run(w, false);
    if (r.contains("error")) continue;
    if (capacities.empty()) fmt::print("{:<28} {:>8}\n", "way", "at once");
    const double at_once = r["jobs_at_once"];
    fmt::print("{:<28} {:>8.1f}\n", w.name, at_once);
    std::fflush(stdout);
    capacities.push_back(r);
    if (w.how == submitter::gsched && w.connections == 0 && at_once > most_default) {
      most_default = at_once;
      best_default = w;
    }
    if (w.how == submitter::gsched && at_once > most) {
      most = at_once;
      best = w;
    }
    // The paper's comparison, and the same with graphs and by hand.
    if (w.name == "launches.default" || w.name == "launches.32" || w.name == "graphs.default" ||
        w.name == "graphs.32" || w.name == "interleaved.default" || w.name == "interleaved.32")
      compared.push_back(w);
  }
  if (p.seen() == 0)
    throw gsched::error(gsched::errc::unknown_name,
                        o.only.front() + ": no such way, expected one of --list");
  if (most_default > 0) compared.push_back(best_default);
  if (most > 0 && best.name != best_default.name) compared.push_back(best);
  ordered_json sweeps = ordered_json::array();
  if (!o.capacity_only)
    for (const way& w : compared) {
      const ordered_json r = p.run(w, true);
      if (r.contains("error")) continue;
      print_sweep(r);
      sweeps.push_back(r);
    }
  print_ratios(sweeps);
  if (!o.json.empty()) {
    std::ofstream out(o.json);
    out << ordered_json{{"experiment", "head_of_line"}, {"kernels", o.job.kernels},
                        {"kernel_us", o.job.kernel_us}, {"load_seconds", o.seconds},
                        {"capacities", capacities},     {"sweeps", sweeps}}
               .dump(1)
        << '\n';
    out.close();
    if (!out)
      throw gsched::error(gsched::errc::io,
                          o.json + ": cannot be written, expected a writable path");
  }
  return p.failed() == 0 ? 0 : 1;
}

} // namespace head_of_line
