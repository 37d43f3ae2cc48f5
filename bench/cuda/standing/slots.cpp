// SPDX-License-Identifier: Apache-2.0
#include "standing/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace standing {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

/// a launch that takes longer is counted as waiting for the gate
constexpr double excluded_seconds = 50e-3;

struct launch_kind {
  std::string_view name;
  bool cooperative;
  bool all_shared; ///< each block needs all shared memory of an SM; else 1024 threads
  bool fills;      ///< as many blocks as fit; else one for each SM
};

constexpr std::array kinds{
    launch_kind{"cooperative, as many blocks as fit", true, false, true},
    launch_kind{"cooperative, a block for each SM", true, false, false},
    launch_kind{"cooperative, all shared memory", true, true, false},
    launch_kind{"ordinary, all shared memory", false, true, false},
};

struct gate_state {
  std::string_view name;
  bool stands;
  int carveout; ///< preferred by the gate, percent of shared memory; -1: the driver's default
};
constexpr std::array states{
    gate_state{"no gate", false, -1},
    gate_state{"default", true, -1},
    gate_state{"0", true, 0},
    gate_state{"100", true, 100},
};

std::vector<std::string> cases(const run_options&) {
  std::vector<std::string> names;
  for (const launch_kind& k : kinds) names.emplace_back(k.name);
  return names;
}

/// The launch that may be blocked: its end stores the first mark.
executable make_launch(scene& s, const launch_kind& kind, CUdeviceptr count) {
  const kernels all = all_kernels();
  const void* function = kind.cooperative ? all.cooperative_mark : all.timed_mark;
  const auto sms = static_cast<unsigned>(s.gpu().sms.count());
  unsigned threads = 1024;
  int shared = 0;
  if (kind.all_shared) {
    threads = 128;
    check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, s.gpu().ordinal),
          "attribute");
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
          "shared memory");
  }
  int blocks_per_sm = 1;
  if (kind.fills)
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, function,
                                                        static_cast<int>(threads),
                                                        static_cast<std::size_t>(shared)),
          "occupancy");
  const unsigned blocks = sms * static_cast<unsigned>(blocks_per_sm);
  const graph g = new_graph();
  if (kind.cooperative)
    set_cooperative(add_kernel(g.get(), {}, kernel_of(function), blocks, threads,
                               static_cast<std::size_t>(shared), s.mark_at(0)));
  else
    add_kernel(g.get(), {}, kernel_of(function), blocks, threads, static_cast<std::size_t>(shared),
               s.mark_at(0), count);
  return instantiate(g);
}

executable make_gate(scene& s, int carveout) {
  const void* function = all_kernels().gate;
  check(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, carveout),
        "carve-out");
  const graph g = new_graph();
  add_kernel(g.get(), {}, kernel_of(function), 1, 1, 0, s.words(0).line, 0U);
  return instantiate(g);
}

ordered_json measure(scene& s, const std::string& which, const run_options& o) {
  const launch_kind& kind = *std::ranges::find(kinds, which, &launch_kind::name);
  s.watch().step("set-up");
  void* count = nullptr;
  check(cudaMalloc(&count, sizeof(std::uint32_t)), "memory");
  const executable subject = make_launch(s, kind, reinterpret_cast<CUdeviceptr>(count));
  const cudaStream_t held = s.new_stream(false);
  const cudaStream_t urgent = s.new_stream(true);
  ordered_json out;
  const int rounds = o.quick ? 3 : 9;
  for (const gate_state& state : states) {
    const executable gate = make_gate(s, state.carveout);
    std::vector<double> us;
    bool excluded = false;
    for (int i = 0; i <= rounds && !excluded; ++i) { // the first one warms up
      s.watch().step("preparation");
      s.clear_marks();
      check(cudaMemset(count, 0, sizeof(std::uint32_t)), "counter");
      s.drain();
      s.watch().step(std::string(state.name));
      if (state.stands) {
        s.hold(0, gate_way::beside, 0);
        check(driver().cuGraphLaunch(gate.get(), held), "launch");
        if (!holds_within(0.1, [&] { return s.stands(0); }))
          throw gsched::error(gsched::errc::device_failed, "the gate does not stand");
      }
      const double from = experiment::seconds_now();
      check(driver().cuGraphLaunch(subject.get(), urgent), "launch");
      excluded = !holds_within(excluded_seconds, [&] { return s.marked(0); });
      if (i > 0) us.push_back(1e6 * (experiment::seconds_now() - from));
      s.release();
      s.drain();
    }
    ordered_json column{{"gate", state.name}, {"excluded", excluded}};
    if (!excluded) column["us"] = summary(us);
    out["columns"].push_back(std::move(column));
  }
  return out;
}

constexpr int name_width = 38;

void print_head(const run_options&) {
  fmt::print(
      "slots: us until an urgent launch has ended while a gate stands, by the carve-out that "
      "the gate prefers\n{:<{}}",
      "launch", name_width);
  for (const gate_state& state : states) fmt::print(" {:>10}", state.name);
  fmt::print("\n");
}

void print(const ordered_json& figures, const run_options&) {
  const ordered_json& f = figures[0];
  fmt::print("{:<{}}", f["case"].get<std::string>(), name_width);
  if (!f.contains("columns")) fmt::print(" {:>10}", f.contains("hangs") ? "hangs" : "error");
  for (const ordered_json& c : f.value("columns", ordered_json::array()))
    fmt::print(" {:>10}", c["excluded"].get<bool>()
                              ? "excluded"
                              : fmt::format("{:.1f}", c["us"]["p50"].get<double>()));
  fmt::print("\n");
}

} // namespace

part slots_part() { return {"slots", false, cases, measure, print_head, print}; }

} // namespace standing
