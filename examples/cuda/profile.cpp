// SPDX-License-Identifier: Apache-2.0
//
// Writes a profile of a captured graph: what its operations are, and how long each takes alone.
#include "profile/graphs.hpp"
#include "profile/options.hpp"

#include "parts/watchdog.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/profiling.hpp>
#include <gsched/job/profile_json.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>

namespace {

constexpr int failed_while_running = 1;
constexpr int bad_input = 2;

bool is_input(const gsched::error& e) {
  return e.code() != gsched::errc::device_failed && e.code() != gsched::errc::no_device;
}

void run(const profile_example::options& o) {
  const parts::watchdog limit("profile", o.limit_s);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  gsched::cuda::check(cudaSetDevice(o.gpu), "GPU");
  const auto graph = o.graph.empty() ? profile_example::stand_ins(o.replay)
                                     : profile_example::captured(o.graph, o.elements);
  const gsched::profile made = gsched::cuda::profile_graph(graph->get(), o.how);
  if (o.out.empty())
    gsched::write_profile(std::cout, made);
  else
    gsched::write_profile(o.out, made);
  fmt::print(stderr, "{} on {}: {} operations, {:.1f} us together, {:.1f} us as one graph\n",
             made.full_name(), gpu.name, made.operations.size(), gsched::to_us(made.total()),
             gsched::to_us(made.graph_replay.value_or(gsched::duration::zero())));
}

} // namespace

int main(int argc, char** argv) {
  std::optional<profile_example::options> o;
  try {
    o = profile_example::parse(argc, argv);
    if (!o) return 0;
    run(*o);
    std::cout.flush();
    return std::cout ? 0 : failed_while_running;
  } catch (const gsched::error& e) {
    std::cerr << "profile: " << e.what() << '\n';
    return is_input(e) ? bad_input : failed_while_running;
  } catch (const std::exception& e) {
    std::cerr << "profile: " << e.what() << '\n';
    return failed_while_running;
  }
}
