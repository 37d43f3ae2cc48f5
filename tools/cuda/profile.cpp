// SPDX-License-Identifier: Apache-2.0
//
// Writes the profile of a captured graph: its operations, and the time of each of them alone.
#include "profile/options.hpp"

#include "common/cli/main.hpp"
#include "common/cli/run_error.hpp"
#include "common/cuda/built_in_graphs.hpp"
#include "common/report/save.hpp"
#include "common/run/watchdog.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/other_work.hpp>
#include <gsched/cuda_tools/profiling.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <ostream>
#include <string>

namespace {

int serve(const profile_example::options& o) {
  const common::watchdog limit("profile", o.limit_s);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  gsched::cuda::check(cudaSetDevice(o.gpu), "GPU");
  if (!o.busy)
    if (const std::string line = gsched::cuda::find_other_work(gpu); !line.empty())
      throw common::run_error(gsched::errc::device_failed, line + " --busy measures all the same");
  const auto graph = o.graph.empty() ? common::stand_in_graph(o.replay)
                                     : common::built_in_graph(o.graph, o.elements);
  const gsched::profile made = gsched::cuda::profile_graph(graph->get(), o.how);
  if (o.out.empty())
    gsched::write_profile(std::cout, made);
  else
    common::save(o.out, [&](std::ostream& to) { gsched::write_profile(to, made); });
  fmt::print(stderr, "{} on {}: {} operations, {:.1f} us together, {:.1f} us as one graph\n",
             made.full_name(), gpu.name, made.operations.size(), gsched::to_us(made.total()),
             gsched::to_us(made.graph_replay.value_or(gsched::duration::zero())));
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("profile", argc, argv, profile_example::parse, serve);
}
