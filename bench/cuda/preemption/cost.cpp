// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"
#include "run.hpp"

#include <gsched/cuda/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <random>

namespace preemption_bench {

namespace {

using nlohmann::json;

struct subject {
  std::string name;
  cost_kernel kernel;
  double about_us = 0;

  /// In a graph, of about 400 us.
  [[nodiscard]] unsigned launches() const noexcept {
    return static_cast<unsigned>(std::clamp(400 / std::max(about_us, 1.0), 4.0, 20.0));
  }
};

/// Kernels one after another in a graph: the time of one, by the GPU's clock, with a graph before
/// and after to exclude host time.
class costing {
public:
  costing(stage& s, const subject& k, const cuda::preemption& filled)
      : stage_(s), launches_(k.launches()) {
    for (const variant v : variants)
      graphs_[index(v)] = make_costing(k.kernel, v, launches_, filled, s.best_effort);
    for (cudaEvent_t& e : marks_) cuda::check(cudaEventCreate(&e), "event");
  }
  ~costing() {
    for (const cudaGraphExec_t g : graphs_) cudaGraphExecDestroy(g);
    for (const cudaEvent_t e : marks_) cudaEventDestroy(e);
  }
  costing(const costing&) = delete;
  costing& operator=(const costing&) = delete;

  [[nodiscard]] double us(variant v) const {
    const cudaStream_t on = stage_.best_effort;
    constexpr unsigned graphs = 3;
    cuda::check(cudaGraphLaunch(graphs_[index(v)], on), "launch");
    cuda::check(cudaEventRecord(marks_[0], on), "event");
    for (unsigned i = 0; i < graphs; ++i)
      cuda::check(cudaGraphLaunch(graphs_[index(v)], on), "launch");
    cuda::check(cudaEventRecord(marks_[1], on), "event");
    cuda::check(cudaEventSynchronize(marks_[1]), "event");
    float ms = 0;
    cuda::check(cudaEventElapsedTime(&ms, marks_[0], marks_[1]), "event");
    return 1e3 * static_cast<double>(ms) / (graphs * launches_);
  }

private:
  static std::size_t index(variant v) noexcept { return static_cast<std::size_t>(v); }
  stage& stage_;
  unsigned launches_;
  std::array<cudaGraphExec_t, std::size(variants)> graphs_{};
  std::array<cudaEvent_t, 2> marks_{};
};

json measure(stage& s, const options& o, const subject& k, const cuda::preemption& filled) {
  const costing kernels(s, k, filled);
  std::array<std::vector<double>, std::size(variants)> samples;
  std::array<std::vector<double>, std::size(variants)> over; // the plain one of the same round
  std::vector<std::size_t> order(std::size(variants));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(1);
  s.dog.step("cost of " + k.name, 60);
  for (const variant v : variants) static_cast<void>(kernels.us(v));
  for (unsigned round = 0; round < o.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) samples[i].push_back(kernels.us(variants[i]));
    for (std::size_t i = 0; i < order.size(); ++i)
      over[i].push_back(samples[i].back() - samples[0].back());
  }
  s.dog.rest();
  json rows = json::array();
  const double plain = experiment::median(samples[0]);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double more = experiment::median(over[i]);
    rows.push_back({{"kernel", k.name},
                    {"blocks", k.kernel.blocks},
                    {"variant", name_of(variants[i])},
                    {"n", samples[i].size()},
                    {"p10_us", experiment::quantile(samples[i], 0.1)},
                    {"p50_us", experiment::median(samples[i])},
                    {"p90_us", experiment::quantile(samples[i], 0.9)},
                    {"over_plain_us", more},
                    {"over_plain_p10_us", experiment::quantile(over[i], 0.1)},
                    {"over_plain_p90_us", experiment::quantile(over[i], 0.9)},
                    {"over_plain", more / plain}});
    const json& r = rows.back();
    fmt::print("{:<26} {:>6}  {:<30} {:>9.3f} {:>+8.3f} [{:+.3f} {:+.3f}] {:>+7.2f}%\n", k.name,
               k.kernel.blocks, name_of(variants[i]), r["p50_us"].get<double>(), more,
               r["over_plain_p10_us"].get<double>(), r["over_plain_p90_us"].get<double>(),
               100 * more / plain);
  }
  std::fflush(stdout);
  return rows;
}

} // namespace

void costs(stage& s, const options& o, json& out) {
  fmt::print("\n{:<26} {:>6}  {:<30} {:>9} {:>8} p10, p90 {:>12}\n",
             "cost where nobody preempts, us", "blocks", "variant", "p50", "more", "share");
  // number of floats: 256 MiB, larger than any cache
  constexpr std::size_t elements = std::size_t{64} << 20;
  auto* const data = s.device<float>(elements);
  std::vector<subject> subjects;
  for (const unsigned us : {0u, 2u, 10u, 50u, 200u})
    for (const unsigned blocks : {16u, 160u, 528u, 1584u})
      subjects.push_back({us == 0 ? "empty" : fmt::format("chain, {} us", us),
                          {loop::chain, blocks, us, data, elements},
                          static_cast<double>(us)});
  subjects.push_back(
      {"gemm", {loop::gemm, gemm_side / 16 * (gemm_side / 16), 0, data, elements}, 500});
  subjects.push_back({"copy, 128 MiB", {loop::copy, 8 * s.sms, 0, data, elements}, 80});
  subjects.push_back({"copy, 8 MiB", {loop::copy, 8 * s.sms, 0, data, elements / 16}, 5});
  const std::uint32_t* const flag = s.device<std::uint32_t>(1);
  json& rows = out["costs"] = json::array();
  for (const subject& k : subjects) {
    const std::uint64_t blocks = k.kernel.blocks;
    const cuda::preemption_slots slot(std::span(&blocks, 1));
    for (json& r : measure(s, o, k, slot.fill(cuda::preemption::at_checkpoints(), 0, flag, false)))
      rows.push_back(std::move(r));
  }
}

} // namespace preemption_bench
