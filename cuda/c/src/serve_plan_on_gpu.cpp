// SPDX-License-Identifier: Apache-2.0
#include "serve_plan_on_gpu.hpp"

#include "cuda_events.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/partition/program_pool.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/installed_driver.hpp>
#include <gsched/io/machine_json.hpp>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace gsched::abi {

namespace {

[[nodiscard]] std::vector<cuda::batch_buffer> buffers_of(const gsched_buffer* all,
                                                         std::uint32_t count, std::uint32_t batch) {
  std::vector<cuda::batch_buffer> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back({all[i].device, all[i].bytes / batch});
  return out;
}

[[nodiscard]] cuda::program_pool pool_of(const gsched_plan_model* models, std::uint32_t count) {
  cuda::program_pool pool;
  for (std::uint32_t m = 0; m < count; ++m) {
    const gsched_plan_model of = plan_model_of(models, m);
    for (std::uint32_t i = 0; i < of.graphs_count; ++i) {
      const gsched_plan_graph g = plan_graph_of(of, i);
      cuda::program_options how;
      how.name = std::string(of.name) + "_b" + std::to_string(g.batch);
      how.measure = false;
      pool.add(0, m, g.batch, of.name,
               {std::make_shared<cuda::program>(static_cast<CUgraph>(g.graph), how),
                buffers_of(g.inputs, of.inputs, g.batch),
                buffers_of(g.outputs, of.outputs, g.batch)});
    }
  }
  return pool;
}

/// What machine.json of measurements on this GPU would say, as far as it is compared.
[[nodiscard]] machine machine_with(const cuda::gpu& on, std::vector<std::uint32_t> groups) {
  machine m;
  m.gpu = on.name;
  m.compute_capability = std::to_string(on.sm.major) + '.' + std::to_string(on.sm.minor);
  m.sms = on.sms;
  m.sm_groups = std::move(groups);
  m.driver = cuda::installed_driver();
  m.cuda = cuda::cuda_version(on.runtime_version);
  m.gsched = GSCHED_VERSION;
  return m;
}

} // namespace

served_plan serve_plan_on_gpu(const plan_settings& how, const gsched_plan_model* models,
                              std::uint32_t count) {
  const std::vector<plan_model_shape> shapes = shapes_of(models, count);
  const cuda::gpu on = cuda::find_gpu(how.gpu); // says in one line what is absent
  const std::vector<std::uint32_t> groups = cuda::group_sizes(how.gpu);
  // Graphs may have kernels in clusters, which the last group alone does not run.
  const gpu_shape gpu{sm_count{std::accumulate(groups.begin(), groups.end(), 0u)},
                      sm_count{groups.front()}, false};
  std::string warning = compare_machines(how, machine_with(on, groups));
  foreseen_offer offer = offer_of(how, shapes, gpu, on.sm);
  plan_notes notes{std::move(warning), std::move(offer.beyond_fit)};
  const plan_server_options served = offer.options(how);
  cuda::partition_batches_options o;
  o.gpus = {how.gpu};
  for (const plan_model_shape& s : shapes) o.batches.push_back(s.batches);
  o.spare = how.spare;
  o.watchdog = how.watchdog;
  const cuda::current_gpu here(how.gpu);
  auto serves = std::make_unique<plan_server>(
      std::move(offer),
      [o, pool = pool_of(models, count)](const latency_table&, const interference_function&) {
        return cuda::partition_batches(
            o, [pool](const cuda::batch_program& b) mutable { return pool.lease(b); });
      },
      served, [gpu = how.gpu](cuda::partition_batches&) { return cuda_events(gpu); });
  return {std::move(serves), std::move(notes)};
}

} // namespace gsched::abi
