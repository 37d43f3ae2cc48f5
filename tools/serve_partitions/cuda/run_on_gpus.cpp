// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/cuda/run_on_gpus.hpp"

#include "serve_partitions/cuda/table_stand_ins.hpp"

#include "common/cli/option_values.hpp"
#include "common/cuda/cuda_backend.hpp"
#include "common/cuda/this_machine.hpp"
#include "common/input/measured_on.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/serving/plan_service.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace serve_partitions {

using namespace gsched;

namespace {

/// Plans may be for fewer SMs than a GPU has.
/// Errors   no_device; bad_option for GPUs of another shape than plans are for.
cuda::partition_batches_options options_for(const options& o) {
  cuda::partition_batches_options to;
  to.gpus.clear();
  for (std::size_t i = 0; i < o.gpus.size(); ++i) {
    const int ordinal = o.device.gpu.value() + static_cast<int>(i);
    const cuda::gpu found = cuda::find_gpu(ordinal);
    to.gpus.push_back(ordinal);
    if (has_streams(o.planner)) { // a process may have a part of the SMs, by MPS
      if (found.sms < o.gpus[i].sms)
        throw error(errc::bad_option, "GPU " + std::to_string(ordinal) + ": " +
                                          std::to_string(found.sms.count()) +
                                          " SMs, expected at least what --sms says: " +
                                          std::to_string(o.gpus[i].sms.count()));
      continue;
    }
    const std::vector<std::uint32_t> sizes = cuda::group_sizes(ordinal);
    const std::uint32_t all = std::accumulate(sizes.begin(), sizes.end(), 0u);
    const gpu_shape& planned = o.gpus[i]; // whose groups may be several of the GPU's, or all
    const bool can_make = planned.group.count() % sizes.front() == 0 ||
                          (planned.group == planned.sms && planned.sms == sm_count{all});
    if (sm_count{all} < planned.sms || !can_make)
      throw error(errc::bad_option, "GPU " + std::to_string(ordinal) + ": " + std::to_string(all) +
                                        " SMs in groups of " + std::to_string(sizes.front()) +
                                        ", expected at least what --sms and --group say: " +
                                        std::to_string(planned.sms.count()) + " in groups of " +
                                        std::to_string(planned.group.count()));
  }
  to.overlap = has_streams(o.planner);
  if (o.planner == priorities) {
    constexpr int most_urgent = 5; // CUDA has 6 levels
    to.priorities.assign(o.table->size(), 0);
    for (std::size_t m = 0; m < o.slos.size(); ++m) {
      const auto shorter = std::count_if(o.apps.begin(), o.apps.end(), [&](const offered_app& a) {
        return a.definition.stages.size() == 1 && o.slos[a.definition.stages[0].model] < o.slos[m];
      });
      to.priorities[m] = std::max(0, most_urgent - static_cast<int>(shorter));
    }
  }
  to.traces = o.service.stall > duration::zero();
  if (to.gpus.empty()) throw error(errc::bad_option, "--gpus: 0, expected 1 or more real ones");
  for (std::size_t m = 0; m < o.table->size(); ++m) {
    to.batches.push_back(o.batches);
    for (std::uint32_t b = 1; o.batches.empty() && b <= o.table->batches(m).back(); ++b)
      to.batches.back().push_back(b);
  }
  return to;
}

/// Batches whose requests carry data of their own.
class batches_with_data : public cuda::partition_batches {
public:
  batches_with_data(cuda::partition_batches_options o, cuda::program_source source,
                    request_rings& data)
      : partition_batches(std::move(o), std::move(source)), data_(&data) {}

  void begin(batch_run r) {
    r.data = data_->next(r.model, r.batch);
    partition_batches::begin(r);
  }

private:
  request_rings* data_;
};

} // namespace

served run_on_gpus(const options& o, cuda::program_source source,
                   std::span<const request_buffers> data) {
  const cuda::gpu first = common::open_gpu(o.device);
  if (!has_streams(o.planner)) // else partitions are not asked for, and MPS may hide SMs
    common::check_machines_here("serve_partitions", o.measured, common::this_machine(first));
  const interference_function expected = expected_of(o);
  const planner_function planner = planner_of(o);
  auto rings = std::make_unique<request_rings>(data);
  served all;
  try {
    batches_with_data runner(options_for(o), std::move(source), *rings);
    all.outcome =
        plan_service(*o.table, o.slos, o.gpus, o.apps, service_of(o), planner, expected, runner)
            .run();
    const cuda::partition_batches_statistics s = runner.statistics();
    all.making = {first.name, s.made,           s.kept,      s.let_go,        s.deciding,
                  s.making,   s.longest_making, s.beginning, s.longest_begin, s.longest_pause};
  } catch (...) {
    static_cast<void>(rings.release()); // a batch may hang, and to free memory would wait for it
    throw;
  }
  return all;
}

served run_on_gpus(const options& o) {
  static_cast<void>(common::open_gpu(o.device));
  if (o.carries_data)
    common::refuse("--data", "stand-ins have no inputs",
                   "captured graphs, as of examples/pytorch/serve_partitions.py");
  const latency_table times = with_corrections(*o.as_measured, o.true_slowdown);
  std::vector<std::size_t> models;
  for (const model_demand& d : offered_demands(o.apps, o.slos)) models.push_back(d.model);
  table_stand_ins stand_ins(times, options_for(o), o.gpus.front(), models);
  return run_on_gpus(o, [&](const cuda::batch_program& b) { return stand_ins.make(b); });
}

} // namespace serve_partitions
