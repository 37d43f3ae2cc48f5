// SPDX-License-Identifier: Apache-2.0
#include "gates/run.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <fmt/format.h>

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <memory>

namespace gates {

using gsched::cuda::check;

namespace {

/// A graph of all operations, and how long its replays took.
class variant {
public:
  variant(const gsched::cuda::program& p, unsigned every, CUdeviceptr line) : every_(every) {
    std::vector<gsched::cuda::gate> made;
    gsched::cuda::range_options how;
    how.gate_every = every;
    how.gate_words = line;
    how.gates = &made;
    const CUgraph graph = p.make_range(0, p.host().size(), how);
    gates_ = made.size();
    const CUresult r = gsched::cuda::driver().cuGraphInstantiateWithFlags(&exec_, graph, 0);
    gsched::cuda::driver().cuGraphDestroy(graph);
    check(r, "graph with gates");
  }
  ~variant() { gsched::cuda::driver().cuGraphExecDestroy(exec_); }
  variant(const variant&) = delete;
  variant& operator=(const variant&) = delete;

  [[nodiscard]] double replay(cudaStream_t on, cudaEvent_t from, cudaEvent_t to) const {
    constexpr const char* what = "replay";
    check(cudaEventRecord(from, on), what);
    check(gsched::cuda::driver().cuGraphLaunch(exec_, on), what);
    check(cudaEventRecord(to, on), what);
    check(cudaEventSynchronize(to), what);
    float ms = 0;
    check(cudaEventElapsedTime(&ms, from, to), what);
    return 1e3 * static_cast<double>(ms);
  }
  [[nodiscard]] unsigned every() const noexcept { return every_; }
  [[nodiscard]] std::size_t gates() const noexcept { return gates_; }

  std::vector<double> us;

private:
  unsigned every_;
  std::size_t gates_ = 0;
  CUgraphExec exec_ = nullptr;
};

} // namespace

ordered_json measure_cost(const std::string& name, const gsched::cuda::program& p,
                          const run_options& o) {
  constexpr std::size_t line_bytes = 128;
  void* line = nullptr;
  void* there = nullptr;
  check(cudaHostAlloc(&line, line_bytes, cudaHostAllocMapped), "memory");
  std::memset(line, 0, line_bytes);
  check(cudaHostGetDevicePointer(&there, line, 0), "memory");
  cudaStream_t on = nullptr;
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  check(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking), "stream");
  check(cudaEventCreate(&from), "event");
  check(cudaEventCreate(&to), "event");

  std::vector<std::unique_ptr<variant>> all;
  all.push_back(std::make_unique<variant>(p, 0, 0));
  for (const unsigned every : o.every)
    all.push_back(std::make_unique<variant>(p, every, reinterpret_cast<CUdeviceptr>(there)));
  constexpr unsigned warm = 5;
  for (unsigned i = 0; i < o.runs + warm; ++i)
    for (const auto& v : all) {
      const double us = v->replay(on, from, to);
      if (i >= warm) v->us.push_back(us);
    }

  const double plain = experiment::median(all.front()->us);
  const auto kernels = static_cast<double>(p.host().size());
  fmt::print("{:<32} {:>4} operations, plain {:9.2f}", name, p.host().size(), plain);
  ordered_json out{{"program", name}, {"operations", p.host().size()}, {"plain_us", plain}};
  for (const auto& v : all) {
    const double more = experiment::median(v->us) - plain;
    out["variants"].push_back({{"every", v->every()},
                               {"gates", v->gates()},
                               {"us", summary(v->us)},
                               {"percent", 100 * more / plain},
                               {"us_per_kernel", more / kernels}});
    if (v->every() > 0)
      fmt::print("  every {}: {:+6.2f}% {:+.3f} a kernel", v->every(), 100 * more / plain,
                 more / kernels);
  }
  fmt::print("\n");
  std::fflush(stdout);
  all.clear();
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  cudaStreamDestroy(on);
  cudaFreeHost(line);
  return out;
}

} // namespace gates
