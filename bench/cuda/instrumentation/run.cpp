// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"
#include "rig.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/gpu.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace instrumentation {

namespace {

using experiment::quantile;
using nlohmann::json;

struct setting {
  unsigned blocks;
  unsigned threads;
};

std::vector<setting> settings(const options& o) {
  std::vector<setting> all;
  for (const unsigned threads : o.threads)
    for (const unsigned blocks : o.blocks) all.push_back({blocks, threads});
  return all;
}

/// Samples of each variant, interleaved in an order that differs between rounds.
template <class F>
std::vector<std::vector<double>> take_turns(rig& r, unsigned rounds, F&& sample_us) {
  const std::size_t n = r.chosen().size();
  std::vector<std::vector<double>> samples(n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(1);
  for (unsigned round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t at : order) {
      r.rest_as(r.chosen()[at]);
      samples[at].push_back(sample_us(r.chosen()[at]));
    }
  }
  return samples;
}

/// The difference of a quantile to that of the plain kernel, in each part of the run: occasional
/// disturbances show as spread, and hardly move the median of the parts.
struct difference {
  std::vector<double> of_parts; ///< in ascending order

  difference(const std::vector<double>& of, const std::vector<double>& plain, double q) {
    constexpr std::size_t parts = 5;
    const std::size_t n = of.size();
    for (std::size_t i = 0; i < parts; ++i) {
      const auto from = static_cast<std::ptrdiff_t>(n * i / parts);
      const auto to = static_cast<std::ptrdiff_t>(n * (i + 1) / parts);
      if (from == to) continue;
      const auto part = [&](const std::vector<double>& all) {
        return quantile({all.begin() + from, all.begin() + to}, q);
      };
      of_parts.push_back(part(of) - part(plain));
    }
    std::sort(of_parts.begin(), of_parts.end());
  }
  [[nodiscard]] double median() const { return quantile(of_parts, 0.5); }
};

/// A row of the table and of the JSON for each variant; the first is the reference.
void tell(json& rows, const rig& r, const setting& s, const std::vector<std::vector<double>>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const variant& v = r.chosen()[i].what;
    json row{{"blocks", s.blocks},
             {"threads", s.threads},
             {"variant", v.name},
             {"rival", v.rival},
             {"n", all[i].size()}};
    for (const int p : {10, 50, 90, 99}) row[fmt::format("p{}_us", p)] = quantile(all[i], p / 100.);
    const difference p50(all[i], all[0], 0.5);
    const difference p90(all[i], all[0], 0.9);
    row["over_plain_p50_us"] = p50.median();
    row["over_plain_p90_us"] = p90.median();
    row["over_plain_p50_of_parts_us"] = p50.of_parts;
    row["over_plain_p90_of_parts_us"] = p90.of_parts;
    std::vector<double> sorted = all[i];
    std::sort(sorted.begin(), sorted.end());
    for (unsigned p = 0; p <= 100; ++p)
      row["quantiles_us"].push_back(sorted[(sorted.size() - 1) * p / 100]);
    fmt::print("{:>6} {:>7}  {:<38} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>+8.2f} {:>+8.2f} "
               "[{:+.2f} {:+.2f}]\n",
               s.blocks, s.threads, v.name, row["p10_us"].get<double>(),
               row["p50_us"].get<double>(), row["p90_us"].get<double>(),
               row["p99_us"].get<double>(), p50.median(), p90.median(), p90.of_parts.front(),
               p90.of_parts.back());
    rows.push_back(std::move(row));
  }
  std::fflush(stdout);
}

void head(const char* what) {
  fmt::print("\n{}, us\n{:>6} {:>7}  {:<38} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} least, most\n",
             what, "blocks", "threads", "variant", "p10", "p50", "p90", "p99", "+p50", "+p90");
}

/// From the call that launches an empty kernel to the return of the synchronisation.
std::vector<std::vector<double>> latency(rig& r, const setting& s, unsigned repetitions) {
  const auto once = [&](const rig::choice& c) {
    const double start = experiment::seconds_now();
    r.launch(c, s.blocks, s.threads, {});
    cuda::check(cudaStreamSynchronize(r.stream()), "wait");
    const double end = experiment::seconds_now();
    r.expect(c, s.blocks, 1);
    return (end - start) * 1e6;
  };
  static_cast<void>(take_turns(r, 100, once)); // clocks up, code loaded
  return take_turns(r, repetitions, once);
}

/// Kernels on one stream without synchronisation, launched individually: time of one.
std::vector<std::vector<double>> back_to_back(rig& r, const setting& s, const options& o,
                                              const duration& d) {
  return take_turns(r, o.rounds, [&](const rig::choice& c) {
    const double start = experiment::seconds_now();
    for (unsigned i = 0; i < o.launches; ++i) r.launch(c, s.blocks, s.threads, d);
    cuda::check(cudaStreamSynchronize(r.stream()), "wait");
    const double end = experiment::seconds_now();
    r.expect(c, s.blocks, o.launches);
    return (end - start) * 1e6 / o.launches;
  });
}

/// The same kernels as one graph, without launches in between: time of one.
std::vector<std::vector<double>> in_a_graph(rig& r, const setting& s, const options& o,
                                            const duration& d) {
  const cuda::driver_functions& cu = cuda::driver();
  std::vector<CUgraphExec> graphs;
  for (const rig::choice& c : r.chosen()) {
    cuda::check(cudaStreamBeginCapture(r.stream(), cudaStreamCaptureModeThreadLocal), "capture");
    for (unsigned i = 0; i < o.launches; ++i) r.launch(c, s.blocks, s.threads, d);
    cudaGraph_t graph = nullptr;
    cuda::check(cudaStreamEndCapture(r.stream(), &graph), "capture");
    graphs.push_back(nullptr);
    cuda::check(cu.cuGraphInstantiateWithFlags(&graphs.back(), graph, 0), "graph");
    cuda::check(cu.cuGraphUpload(graphs.back(), r.stream()), "graph");
    cuda::check(cu.cuGraphDestroy(graph), "graph");
  }
  auto samples = take_turns(r, o.rounds, [&](const rig::choice& c) {
    const auto at = static_cast<std::size_t>(&c - r.chosen().data());
    const double start = experiment::seconds_now();
    cuda::check(cu.cuGraphLaunch(graphs[at], r.stream()), "graph");
    cuda::check(cudaStreamSynchronize(r.stream()), "wait");
    const double end = experiment::seconds_now();
    r.expect(c, s.blocks, o.launches);
    return (end - start) * 1e6 / o.launches;
  });
  for (const CUgraphExec g : graphs) cuda::check(cu.cuGraphExecDestroy(g), "graph");
  return samples;
}

} // namespace

void run(const options& o) {
  const cuda::gpu gpu = cuda::find_gpu(o.gpu);
  cuda::check(cudaSetDevice(o.gpu), "GPU");
  cuda::check(cudaSetDeviceFlags(cudaDeviceScheduleSpin), "GPU");
  int khz = 0;
  cuda::check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, o.gpu), "clock");
  const duration stays{static_cast<std::uint32_t>(o.kernel_us * 1e-3 * khz), o.nap_ns};
  const unsigned most = *std::max_element(o.blocks.begin(), o.blocks.end());
  const double start = experiment::seconds_now();
  const auto in_time = [&] { return experiment::seconds_now() - start < o.seconds; };
  experiment::watchdog dog("gsched.gpu.instrumentation");
  json result{{"experiment", "instrumentation"},
              {"gpu", gpu.name},
              {"sms", gpu.sms.count()},
              {"driver", gpu.driver_version},
              {"utc", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
              {"kernel_us", o.kernel_us},
              {"nap_ns", o.nap_ns},
              {"reader_rest_ns", cuda::reader_rest.count()},
              {"launches", o.launches},
              {"latency", json::array()},
              {"back_to_back_empty", json::array()},
              {"graph_empty", json::array()},
              {"back_to_back", json::array()},
              {"graph", json::array()}};
  const auto save = [&] {
    if (o.json.empty()) return;
    std::ofstream file(o.json);
    file << result.dump(1) << '\n';
    if (!file.flush())
      throw gsched::error(gsched::errc::io, o.json + ": cannot be written, expected a new file");
  };
  const auto part = [&](rig& r, const char* about, const char* key, auto&& measure) {
    head(about);
    for (const setting& s : settings(o)) {
      if (!in_time()) {
        fmt::print("the time is up: {} blocks of {} threads left out\n", s.blocks, s.threads);
        continue;
      }
      dog.step(fmt::format("{}, {} blocks of {} threads", about, s.blocks, s.threads), 100);
      tell(result[key], r, s, measure(s));
      dog.rest();
      save();
    }
    if (!r.intact())
      throw gsched::error(gsched::errc::device_failed,
                          "notification ring: words were lost, expected all of them");
  };
  fmt::print("{}, {} SMs\n", gpu.name, gpu.sms.count());
  {
    rig r(o.gpu, o.slots, most, o.rivals);
    part(r, "launch to synchronised, empty kernel", "latency",
         [&](const setting& s) { return latency(r, s, o.repetitions); });
  }
  // The ring holds all words of a round: nothing has to wait.
  const std::size_t all = std::bit_ceil(std::size_t{2} * most * o.launches);
  rig r(o.gpu, std::max(o.slots, all), most, o.rivals);
  part(r, "back to back, each launched by itself, an empty kernel", "back_to_back_empty",
       [&](const setting& s) { return back_to_back(r, s, o, {}); });
  part(r, "back to back in one graph, an empty kernel", "graph_empty",
       [&](const setting& s) { return in_a_graph(r, s, o, {}); });
  part(r, "back to back, each launched by itself, a kernel", "back_to_back",
       [&](const setting& s) { return back_to_back(r, s, o, stays); });
  part(r, "back to back in one graph, a kernel", "graph",
       [&](const setting& s) { return in_a_graph(r, s, o, stays); });
}

} // namespace instrumentation
