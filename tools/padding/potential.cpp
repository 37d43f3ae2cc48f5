// SPDX-License-Identifier: Apache-2.0
#include "padding/potential.hpp"

#include <gsched/preempt/colocate/plan.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace padding {

using gsched::duration;

namespace {

double part(duration a, duration b) {
  return static_cast<double>(a.count()) / static_cast<double>(b.count());
}

/// The co-runner's program so often that a real-time request never sees its end: another request
/// follows the last one.
gsched::pad_program repeated(const gsched::pad_program& p, std::size_t times) {
  std::vector<std::vector<gsched::kernel_variant>> operations;
  for (std::size_t n = 0; n < times; ++n)
    for (std::size_t i = 0; i < p.size(); ++i)
      operations.emplace_back(p.variants(i).begin(), p.variants(i).end());
  return gsched::pad_program(p.name(), operations);
}

gsched::sim::padded_work work_of(const gsched::operation& op, std::uint64_t blocks) {
  return {op, {}, static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, 0x7fffffff))};
}

} // namespace

model to_model(const gsched::profile& p, const gsched::sim::preset& on) {
  gsched::profile kernels = p;
  kernels.operations.clear();
  for (const gsched::profile_operation& op : p.operations)
    if (op.work.kind == gsched::operation_kind::kernel) {
      kernels.operations.push_back(op);
      kernels.operations.back().after.clear(); // its place says it
    }
  gsched::program program = to_program(kernels);
  gsched::pad_program padded = estimated_pad_program(program, on.sm, on.sms);
  return {p.full_name(), std::move(program), std::move(padded)};
}

potential potential_of(const model& real_time, const model& corunner, const question& q,
                       gsched::sim::padded_kernels& predictor) {
  const std::size_t hosts = real_time.program.size();
  const std::size_t kernels = corunner.program.size();
  const gsched::pad_program endless = repeated(corunner.padded, hosts / kernels + 2);
  gsched::pad_planner planner(q.options, q.corunners, 1);
  std::vector<gsched::pad_part> parts(hosts * q.options.parts);

  potential p{real_time.name, corunner.name, q.options.level};
  const duration all = corunner.program.expected();
  gsched::sim::padded_times times;
  duration done_predicted{};
  for (std::uint32_t start = 0; start < q.starts; ++start) {
    std::vector<gsched::pad_corunner> corunners;
    for (std::uint32_t g = 0; g < q.corunners; ++g) {
      const std::uint64_t slots = std::uint64_t{q.starts} * q.corunners;
      const duration at = all * (2 * (std::uint64_t{g} * q.starts + start) + 1) / (2 * slots);
      std::uint32_t operation = 0;
      while (operation < kernels && corunner.program.expected(0, operation) < at) ++operation;
      corunners.push_back({&endless, static_cast<std::uint32_t>(operation % kernels), 0, 0});
    }
    const std::size_t n = planner.plan(real_time.padded, 0, hosts, corunners, parts);
    const std::span<const gsched::pad_part> plan(parts.data(), n);
    double done_ns = 0;
    std::size_t padded = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const gsched::kernel_variant& k = endless.variants(plan[i].corunner_operation)[0];
      done_ns += static_cast<double>(k.kernel_time.count()) * plan[i].blocks / k.blocks;
      if (i == 0 || plan[i].host_operation != plan[i - 1].host_operation) ++padded;
    }
    const double share = done_ns / static_cast<double>(real_time.program.expected().count());
    p.share += share / q.starts;
    p.least = start == 0 ? share : std::min(p.least, share);
    p.most = std::max(p.most, share);
    p.padded += static_cast<double>(padded) / static_cast<double>(hosts) / q.starts;
    if (start >= q.predicted) continue;
    done_predicted += duration{static_cast<duration::rep>(done_ns)};
    times += predictor.predict(
        plan, 0, hosts,
        [&](std::size_t i) {
          const gsched::operation& op = real_time.program.operations()[i];
          return work_of(op, op.launch.blocks());
        },
        [&](const gsched::pad_part& of) {
          return work_of(corunner.program.operations()[of.corunner_operation % kernels], of.blocks);
        });
  }
  if (q.predicted > 0) {
    p.slowdown = times.slowdown();
    p.throughput = part(times.alone + done_predicted, times.together);
  }
  return p;
}

} // namespace padding
