// SPDX-License-Identifier: Apache-2.0
#include <device/preemptive_conformance.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace gsched::testing {
namespace {

/// Counts the blocks that run to their end, by operation.
struct block_counts {
  std::map<const operation*, std::vector<std::uint64_t>> ended;

  static void blocks(void* self, time_point, const sim::operation_mark& m, std::uint64_t first,
                     std::uint64_t n) noexcept {
    std::vector<std::uint64_t>& of = static_cast<block_counts*>(self)->ended[m.work];
    of.resize(m.work->launch.blocks());
    for (std::uint64_t b = first; b < first + n; ++b) ++of[b];
  }
};
class counting_device : public sim::device {
public:
  explicit counting_device(const sim::preset& p) : counting_device(p, new block_counts) {}
  std::unique_ptr<block_counts> counts;

private:
  counting_device(const sim::preset& p, block_counts* c)
      : sim::device(p, {}, {c, nullptr, nullptr, nullptr, block_counts::blocks}), counts(c) {}
};

struct sim_rig {
  using device = counting_device;
  static constexpr bool preemptible = true;
  static device make() { return device(sim::h200()); }
  static std::uint64_t wrong_blocks(device& d, const program& p, std::uint64_t runs) {
    std::uint64_t wrong = d.rerun_blocks();
    for (const operation& op : p.operations()) {
      std::vector<std::uint64_t>& of = d.counts->ended[&op];
      of.resize(op.launch.blocks());
      for (const std::uint64_t n : of) wrong += n != runs ? 1u : 0u;
    }
    return wrong;
  }
};
struct narrow_rig : sim_rig { // one queue, one kernel at a time, no laws, fewer gates
  static device make() {
    sim::preset p = sim::h200();
    p.hardware_queues = 1;
    p.sms = sm_count{30};
    p.resident_grids = 1;
    p.laws.contended = false;
    p.yields.gate_every = 3;
    return device(p);
  }
};
struct free_rig : sim_rig { // nothing takes time
  static device make() {
    sim::preset p = sim::h200();
    p.host = {};
    p.gaps = {};
    p.laws.graph = {1.0, duration::zero()};
    p.yields = {2, {}, {}, {}, {}, {}, {}, {}};
    return device(p);
  }
};
using rigs = std::tuple<sim_rig, narrow_rig, free_rig>;

TEST_CASE_TEMPLATE_APPLY(device_yielding, rigs);
TEST_CASE_TEMPLATE_APPLY(device_leaving, rigs);
TEST_CASE_TEMPLATE_APPLY(device_progress, rigs);
TEST_CASE_TEMPLATE_APPLY(device_holding, rigs);
TEST_CASE_TEMPLATE_APPLY(device_resuming, rigs);
TEST_CASE_TEMPLATE_APPLY(device_others, rigs);
TEST_CASE_TEMPLATE_APPLY(device_yield_hot_path, rigs);

} // namespace
} // namespace gsched::testing
