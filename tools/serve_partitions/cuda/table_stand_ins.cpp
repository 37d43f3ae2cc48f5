// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/cuda/table_stand_ins.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace serve_partitions {

using namespace gsched;

table_stand_ins::table_stand_ins(const latency_table& t, const cuda::partition_batches_options& on,
                                 const gpu_shape& shape, std::span<const std::size_t> models)
    : table_(t) {
  for (std::uint32_t gpu = 0; gpu < on.gpus.size(); ++gpu) {
    const cuda::current_gpu here(on.gpus[gpu]);
    std::vector<sm_count> sizes{shape.sms};
    if (!on.overlap) {
      sizes = sizes_of(shape);
      for (std::uint32_t n = 1; n < shape.groups() && shape.remainder().count() > 0; ++n)
        sizes.push_back(shape.of_groups(n) + shape.remainder());
    }
    for (const sm_count sms : sizes)
      for (const std::size_t m : models)
        for (const std::uint32_t b : on.batches[m])
          if (sms >= t.sizes(m).front()) static_cast<void>(make({gpu, m, b, sms}));
  }
}

cuda::program_lease table_stand_ins::make(const cuda::batch_program& b) const {
  constexpr int kernels = 8;
  operation each;
  each.launch.grid = {b.sms.count(), 1, 1};
  each.launch.block = {1024, 1, 1};
  each.launch.registers_per_thread = 64; // so that an SM holds one block
  each.expected = table_.latency(b.model, b.batch, b.sms) / kernels;
  const std::string name = table_.name(b.model) + "_b" + std::to_string(b.batch);
  return std::make_shared<cuda::program>(
      cuda::make_stand_in(program(name, std::vector<operation>(kernels, each))));
}

} // namespace serve_partitions
