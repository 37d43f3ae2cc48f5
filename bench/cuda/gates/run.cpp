// SPDX-License-Identifier: Apache-2.0
#include "gates/run.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>

#include <fstream>

namespace gates {

namespace {

gsched::cuda::program chain(std::uint32_t blocks, double us, std::size_t n) {
  gsched::operation op;
  op.kernel = gsched::kernel_id{0};
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {128, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = gsched::from_us(us);
  return gsched::cuda::make_stand_in(gsched::program(
      fmt::format("{} x {} blocks x {} us", n, blocks, us), std::vector<gsched::operation>(n, op)));
}

void save(const std::string& path, const ordered_json& all) {
  std::ofstream out(path);
  out << all.dump() << '\n';
  out.close();
  if (!out)
    throw gsched::error(gsched::errc::io, path + ": cannot be written, expected a writable path");
}

} // namespace

ordered_json summary(const std::vector<double>& us) {
  double sum = 0;
  for (const double x : us) sum += x;
  return {{"n", us.size()},
          {"mean", us.empty() ? 0 : sum / static_cast<double>(us.size())},
          {"p10", experiment::quantile(us, 0.1)},
          {"p50", experiment::median(us)},
          {"p90", experiment::quantile(us, 0.9)},
          {"p99", experiment::quantile(us, 0.99)},
          {"max", experiment::quantile(us, 1)}};
}

void run(const run_options& o) {
  experiment::watchdog dog("gsched.gpu.gates");
  dog.step("start of CUDA", 30);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  const gsched::cuda::current_gpu here(o.gpu);
  ordered_json all{{"experiment", "gates"}, {"gpu", gpu.name}, {"runs", o.runs}};
  const auto keep = [&](const char* where, ordered_json what) {
    all[where].push_back(std::move(what));
    if (!o.json.empty()) save(o.json, all); // also if a later one fails
  };
  dog.step("stand-ins", 60);
  std::vector<std::pair<std::string, gsched::cuda::program>> programs;
  for (const std::uint32_t blocks : {132u, 528u})
    for (const double us : {3.0, 8.0}) {
      gsched::cuda::program p = chain(blocks, us, 100);
      programs.emplace_back(p.host().name(), std::move(p));
    }
  for (const std::string& m : o.models)
    programs.emplace_back(
        m, gsched::cuda::make_stand_in(gsched::load_profile(o.profiles / (m + ".json"))));
  gsched::cuda::program real_time =
      gsched::cuda::make_stand_in(gsched::load_profile(o.profiles / (o.real_time + ".json")));

  fmt::print("gates that nobody closes: time of the whole graph, us\n");
  for (const auto& [name, p] : programs) {
    dog.step("cost of gates in " + name, 30);
    keep("cost", measure_cost(name, p, o));
  }
  fmt::print("\nat random instants, us\n");
  for (auto& [name, p] : programs) {
    dog.step("latency in " + name, 30);
    keep("latency", measure_latency(name, p, o));
  }
  fmt::print("\n{} beside, us\n", o.real_time);
  for (auto& [name, p] : programs) {
    dog.step(o.real_time + " beside " + name, 30);
    keep("beside", measure_beside(name, p, real_time, o));
  }
  dog.rest();
}

} // namespace gates
