// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/cuda/library/graphs.hpp"

#include "serve_partitions/cuda/run_on_gpus.hpp"
#include "serve_partitions/options.hpp"
#include "serve_partitions/report.hpp"

#include "common/cli/main.hpp"
#include "common/cli/option_values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/copy_times.hpp>
#include <gsched/cuda/partition/program_pool.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/serving/graph_batches.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace serve_partitions {

namespace {

using namespace gsched;

std::vector<cuda::batch_buffer> buffers_of(const serve_partitions_buffer* all, std::uint32_t count,
                                           std::uint32_t batch) {
  std::vector<cuda::batch_buffer> to;
  for (std::uint32_t i = 0; i < count; ++i) to.push_back({all[i].device, all[i].bytes / batch});
  return to;
}

std::vector<std::uint64_t> bytes_of(std::span<const cuda::batch_buffer> buffers) {
  std::vector<std::uint64_t> to;
  for (const cuda::batch_buffer& b : buffers) to.push_back(b.bytes);
  return to;
}

/// The programs of captured graphs; and in `data`, by model, what a request carries.
cuda::program_pool pool_of(const options& o, std::span<const serve_partitions_graph> graphs,
                           std::vector<request_buffers>& data) {
  cuda::program_pool pool;
  if (o.carries_data) data.resize(o.table->size());
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
    cuda::program_lease one(std::make_shared<cuda::program>(static_cast<CUgraph>(g.graph), how));
    if (o.carries_data) {
      one.inputs = buffers_of(g.inputs, g.inputs_count, g.batch);
      one.outputs = buffers_of(g.outputs, g.outputs_count, g.batch);
      data[*model] = {bytes_of(one.inputs), bytes_of(one.outputs)};
    }
    pool.add(g.gpu, *model, g.batch, g.model, std::move(one));
  }
  return pool;
}

/// The table of the options with the copies of data in the times of batches.
latency_table with_copies(const options& o, std::span<const request_buffers> data) {
  std::vector<graph_model> models;
  for (std::size_t m = 0; m < o.table->size(); ++m)
    models.push_back({o.table->name(m), o.batches, data[m].inputs, data[m].outputs});
  return with_graphs(*o.as_measured, models, o.added, cuda::measure_copies(o.device.gpu.value()));
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
    std::vector<request_buffers> data;
    gsched::cuda::program_pool programs = pool_of(o, {graphs, count}, data);
    if (o.carries_data) o.table = with_copies(o, data);
    return serve_and_tell(o, [&](const options& with) {
      return run_on_gpus(
          with, [&](const gsched::cuda::batch_program& b) { return programs.lease(b); }, data);
    });
  });
}
