// SPDX-License-Identifier: Apache-2.0
#include "serve_plan_on_gpu.hpp"

#include "cuda_events.hpp"
#include "field_checks.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/copy_times.hpp>
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

/// Refuses a buffer on another GPU than that of its graph.
void refuse_elsewhere(const gsched_buffer* all, std::uint32_t count, int gpu,
                      const std::string& whose) {
  for (std::uint32_t i = 0; i < count; ++i) {
    cudaPointerAttributes a{};
    if (cudaPointerGetAttributes(&a, all[i].device) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      continue; // the graph's own use of it will tell
    }
    if (a.type == cudaMemoryTypeDevice && a.device != gpu)
      refuse(whose + '[' + std::to_string(i) + "]: memory of GPU " + std::to_string(a.device) +
             ", expected that of GPU " + std::to_string(gpu) + ", as gsched_plan_graph.gpu says");
  }
}

[[nodiscard]] cuda::program_pool pool_of(const gsched_plan_model* models, std::uint32_t count,
                                         const std::vector<int>& gpus) {
  cuda::program_pool pool;
  for (std::uint32_t m = 0; m < count; ++m) {
    const gsched_plan_model of = plan_model_of(models, m);
    for (std::uint32_t i = 0; i < of.graphs_count; ++i) {
      const gsched_plan_graph g = plan_graph_of(of, i);
      const cuda::current_gpu there(gpus[g.gpu]);
      const std::string whose = std::string(of.name) + ": graph " + std::to_string(i);
      refuse_elsewhere(g.inputs, of.inputs, gpus[g.gpu], whose + ".inputs");
      refuse_elsewhere(g.outputs, of.outputs, gpus[g.gpu], whose + ".outputs");
      cuda::program_options how;
      how.name = std::string(of.name) + "_b" + std::to_string(g.batch);
      how.measure = false;
      pool.add(g.gpu, m, g.batch, of.name,
               {std::make_shared<cuda::program>(static_cast<CUgraph>(g.graph), how),
                buffers_of(g.inputs, of.inputs, g.batch),
                buffers_of(g.outputs, of.outputs, g.batch)});
    }
  }
  return pool;
}

/// A GPU to serve on, and the sizes of its groups of SMs.
struct gpu_in_groups {
  cuda::gpu it;
  std::vector<std::uint32_t> groups;
};

/// All GPUs to serve on are like the first one, which this gives.
[[nodiscard]] gpu_in_groups first_of(const std::vector<int>& gpus) {
  gpu_in_groups first;
  for (const int which : gpus) {
    gpu_in_groups next{cuda::find_gpu(which), cuda::group_sizes(which)}; // says what is absent
    if (which == gpus.front()) {
      first = std::move(next);
    } else if (next.it.name != first.it.name || next.groups != first.groups) {
      refuse("gpus: " + first.it.name + " and " + next.it.name + " of " +
             std::to_string(first.it.sms.count()) + " and " + std::to_string(next.it.sms.count()) +
             " SMs, expected GPUs of one kind, with the same groups of SMs");
    }
  }
  return first;
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
  const std::vector<plan_model_shape> shapes = shapes_of(models, count, how.gpus.size());
  const auto [on, groups] = first_of(how.gpus);
  // Graphs may have kernels in clusters, which the last group alone does not run.
  const gpu_shape gpu{sm_count{std::accumulate(groups.begin(), groups.end(), 0u)},
                      sm_count{groups.front()}, false};
  std::string warning = compare_machines(how, machine_with(on, groups));
  foreseen_offer offer =
      offer_of(how, shapes, gpu, on.sm, cuda::measure_copies(how.gpus.front(), how.watchdog));
  plan_notes notes{std::move(warning), std::move(offer.beyond_fit)};
  const plan_server_options served = offer.options(how);
  cuda::partition_batches_options o;
  o.gpus = how.gpus;
  for (const plan_model_shape& s : shapes) o.batches.push_back(s.batches);
  o.spare = how.spare;
  o.watchdog = how.watchdog;
  const int first = how.gpus.front();
  const cuda::current_gpu here(first);
  auto serves = std::make_unique<plan_server>(
      std::move(offer),
      [o, pool = pool_of(models, count, how.gpus)](const latency_table&,
                                                   const interference_function&) {
        return cuda::partition_batches(
            o, [pool](const cuda::batch_program& b) mutable { return pool.lease(b); });
      },
      served, [first](cuda::partition_batches&) { return cuda_events(first); });
  return {std::move(serves), std::move(notes)};
}

} // namespace gsched::abi
