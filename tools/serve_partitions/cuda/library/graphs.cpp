// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/cuda/library/graphs.hpp"

#include "serve_partitions/cuda/run_on_gpus.hpp"
#include "serve_partitions/options.hpp"
#include "serve_partitions/report.hpp"

#include "common/cli/main.hpp"
#include "common/cli/option_values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/program_pool.hpp>
#include <gsched/cuda/program.hpp>

#include <memory>
#include <span>
#include <string>

namespace serve_partitions {

namespace {

using namespace gsched;

/// The programs of captured graphs.
cuda::program_pool pool_of(const options& o, std::span<const serve_partitions_graph> graphs) {
  cuda::program_pool pool;
  for (const serve_partitions_graph& g : graphs) {
    const auto model = o.table->find(g.model);
    if (!model)
      common::refuse("graphs", common::in_quotes(g.model) + " is not in the table", "a model of it",
                     errc::unknown_name);
    if (g.gpu >= o.gpus.size()) continue; // not asked for
    const cuda::current_gpu here(o.device.gpu.value() + static_cast<int>(g.gpu));
    cuda::program_options how;
    how.name = std::string(g.model) + "_b" + std::to_string(g.batch);
    how.measure = false;
    pool.add(g.gpu, *model, g.batch, g.model,
             std::make_shared<cuda::program>(static_cast<CUgraph>(g.graph), how));
  }
  return pool;
}

} // namespace

} // namespace serve_partitions

int serve_partitions_graphs(int argc, char** argv, const serve_partitions_graph* graphs,
                            std::uint64_t count) {
  using namespace serve_partitions;
  return common::run_main("serve_partitions", argc, argv, parse_options, [&](options& o) {
    if (!o.device.gpu)
      common::refuse("--device", common::in_quotes(o.device.device),
                     "a real GPU, which has the graphs");
    for (const double x : o.true_slowdown)
      if (x != 1)
        common::refuse("--true-slowdown", "captured graphs take their own time", "1, or stand-ins");
    gsched::cuda::program_pool programs = pool_of(o, {graphs, count});
    return serve_and_tell(o, [&](const options& with) {
      return run_on_gpus(with,
                         [&](const gsched::cuda::batch_program& b) { return programs.lease(b); });
    });
  });
}
