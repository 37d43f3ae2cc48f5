// SPDX-License-Identifier: Apache-2.0
#include "padding/run.hpp"

#include "padding/fused.hpp"
#include "padding/pairs.hpp"
#include "padding/programs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/preempt/colocate/dominance.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

namespace padding {

namespace {

void save(const std::string& path, const results& all) {
  if (path.empty()) return;
  std::ofstream out(path);
  out << all.dump() << '\n';
  out.close();
  if (!out)
    throw gsched::error(gsched::errc::io, path + ": cannot be written, expected a writable path");
}

void print_table(const subjects& all, results& out) {
  fmt::print(
      "a family of {} real-time functions and {} best-effort ones; registers of its proxies:",
      all.real_time().size(), all.corunners().size());
  for (const gsched::cuda::pad_proxy& p : all.table().proxies()) {
    fmt::print(" {}/{}", p.registers, p.limit);
    if (p.local_bytes > 0) fmt::print(" ({} B local)", p.local_bytes);
    out["proxies"].push_back(
        {{"limit", p.limit}, {"registers", p.registers}, {"local_bytes", p.local_bytes}});
  }
  fmt::print("\nfrom one kernel to the next: {} ns", all.gap().count());
  out["gap_ns"] = all.gap().count();
  // The variants of a kernel compute the same result.
  std::map<std::string, std::vector<gsched::kernel_variant>> kernels;
  for (const subject& s : all.corunners()) kernels[s.function + s.shape].push_back(s.facts);
  std::size_t kept = 0;
  for (const auto& [_, variants] : kernels) kept += gsched::prune(variants).size();
  fmt::print("\n{} best-effort kernels in {} variants, of which {} are dominated by none\n",
             kernels.size(), all.corunners().size(), kept);
  std::fflush(stdout);
  out["variants"] = {{"kernels", kernels.size()}, {"all", all.corunners().size()}, {"kept", kept}};
}

} // namespace

void run(const run_options& o) {
  experiment::watchdog dog("gsched.gpu.padding");
  dog.step("start of CUDA", 60);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  const gsched::cuda::current_gpu here(o.gpu);
  results out{{"experiment", "padding"},
              {"gpu", gpu.name},
              {"rounds", o.rounds},
              {"bandwidth_share", o.bandwidth_share},
              {"time_share", o.time_share}};
  const auto wanted = [&](const char* part) {
    return std::find(o.parts.begin(), o.parts.end(), part) != o.parts.end();
  };
  const bool pairs =
      wanted("overhead") || wanted("pairs") || wanted("fused") || wanted("selection");
  if (pairs) {
    dog.step("measurement of the functions", 120);
    subjects all(gpu, o.quick);
    timeline time;
    print_table(all, out);
    const double peak = peak_of(all);
    const bench b{
        o, all, time, dog, peak, {gpu.sms, o.bandwidth_share * peak, all.gap(), o.time_share}, gpu};
    if (wanted("overhead")) measure_overhead(b, out);
    save(o.json, out);
    if (wanted("pairs")) measure_pairs(b, out);
    save(o.json, out);
    if (wanted("fused")) measure_fused(b, out);
    save(o.json, out);
    if (wanted("selection")) measure_selection(b, out);
    save(o.json, out);
  }
  if (wanted("programs")) measure_programs(gpu, o, dog, out);
  save(o.json, out);
  dog.step("end", 30);
}

} // namespace padding
