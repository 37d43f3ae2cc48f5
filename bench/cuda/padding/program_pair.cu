// SPDX-License-Identifier: Apache-2.0
#include "padding/program_pair.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/pad_stand_in.cuh>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/preempt/colocate/plan.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace padding {

namespace cuda = gsched::cuda;

namespace {

using family = cuda::pad_stand_in_family;
using work = cuda::pad_work<family>;
static_assert(family::most_corunners == program_pair::most_corunners);
using node = cudaGraphNode_t;

/// The kernels of a profile only.
struct stand_ins {
  std::vector<work> kernels;
  std::vector<std::vector<gsched::kernel_variant>> facts; ///< one each
  std::size_t fewer_registers = 0;
};

stand_ins kernels_of(cuda::pad_stand_in_maker& makes, const gsched::profile& p) {
  const cuda::pad_stand_ins made = makes.make(p);
  stand_ins all;
  all.fewer_registers = made.fewer_registers;
  for (std::size_t i = 0; i < made.kernels.size(); ++i) {
    if (!made.kernels[i]) continue;
    all.kernels.push_back(*made.kernels[i]);
    all.facts.push_back(made.facts[i]);
  }
  return all;
}

/// Repeats a program, for a co-runner that never ends.
stand_ins repeated(const stand_ins& once, std::size_t times) {
  stand_ins all;
  for (std::size_t i = 0; i < times; ++i) {
    all.kernels.insert(all.kernels.end(), once.kernels.begin(), once.kernels.end());
    all.facts.insert(all.facts.end(), once.facts.begin(), once.facts.end());
  }
  return all;
}

/// The kernels of a co-runner beside real-time kernels of one shape: the level is that of both
/// together; kernels that do not fit beside it have no variant.
class corunner_programs {
public:
  corunner_programs(const cuda::padder<family>& pads, const stand_ins& corunner)
      : pads_(pads), corunner_(corunner) {}

  [[nodiscard]] const gsched::pad_program& beside(const work& real) {
    const auto key = std::tuple(real.threads(), real.registers(), real.shared_bytes());
    const auto at = known_.find(key);
    if (at != known_.end()) return at->second;
    std::vector<std::vector<gsched::kernel_variant>> facts = corunner_.facts;
    for (std::size_t k = 0; k < facts.size(); ++k) {
      const auto both = pads_.choose(real, {&corunner_.kernels[k], 1});
      if (both)
        facts[k].front().level = both->blocks_per_sm;
      else
        facts[k].clear();
    }
    return known_.emplace(key, gsched::pad_program("best-effort", facts)).first->second;
  }

private:
  const cuda::padder<family>& pads_;
  const stand_ins& corunner_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, gsched::pad_program> known_;
};

struct destroys_graph {
  void operator()(cudaGraph_t g) const noexcept { cudaGraphDestroy(g); }
};
using owned_graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, destroys_graph>;

class chain {
public:
  explicit chain(const cuda::padder<family>& pads) : pads_(pads) {
    cudaGraph_t made = nullptr;
    cuda::check(cudaGraphCreate(&made, 0), "padding: graph");
    graph_.reset(made);
  }
  void add(const work& real, std::span<const work> corunners) {
    last_ = {pads_.add_node(graph_.get(), last_, real, corunners)};
  }
  [[nodiscard]] cudaGraph_t get() const { return graph_.get(); }

private:
  const cuda::padder<family>& pads_;
  owned_graph graph_;
  std::vector<node> last_;
};

} // namespace

struct program_pair::state {
  state(const cuda::gpu& on, const gsched::profile& host, const gsched::profile& other) : pads(on) {
    cuda::pad_stand_in_maker makes(pads);
    real = kernels_of(makes, host);
    const stand_ins once = kernels_of(makes, other);
    fewer_registers = real.fewer_registers + once.fewer_registers;
    // More than fits, so that its kernels take at least the time in the profile.
    const auto times = static_cast<std::size_t>(8 * host.total() / other.total()) + 2;
    corunner = repeated(once, std::min<std::size_t>(times, 1000));
  }

  cuda::padder<family> pads;
  timeline time;
  stand_ins real, corunner;
  std::size_t fewer_registers = 0;
};

program_pair::program_pair(const cuda::gpu& on, const gsched::profile& real_time,
                           const gsched::profile& best_effort)
    : state_(std::make_unique<state>(on, real_time, best_effort)) {}
program_pair::~program_pair() = default;

std::size_t program_pair::fewer_registers() const { return state_->fewer_registers; }

namespace {

/// Plans one real-time kernel after another, with fewer co-runners if the block sizes of the chosen
/// ones together give a lower level than each alone.
class kernel_planner {
public:
  kernel_planner(const cuda::padder<family>& pads, const stand_ins& corunner,
                 gsched::level_rule rule, unsigned corunners)
      : pads_(pads), corunner_(corunner), programs_(pads, corunner), at_(corunners) {
    gsched::pad_options o;
    o.sms = pads.table().on().sms;
    o.level = rule;
    for (o.parts = corunners; o.parts > 0; --o.parts) planners_.emplace_back(o, corunners, 1);
  }

  /// The work beside operation i.
  [[nodiscard]] std::vector<work> plan(const gsched::pad_program& host, std::size_t i,
                                       const work& real) {
    for (gsched::pad_corunner& g : at_) g.program = &programs_.beside(real);
    const std::vector<gsched::pad_corunner> before = at_;
    std::array<gsched::pad_part, gsched::pad_options::most_parts> parts;
    std::vector<work> beside;
    for (gsched::pad_planner& p : planners_) {
      at_ = before;
      beside.clear();
      const std::size_t n = p.plan(host, i, i + 1, at_, parts);
      for (const gsched::pad_part& part : std::span(parts).first(n))
        beside.push_back(
            corunner_.kernels[part.corunner_operation].range(part.first_block, part.blocks));
      if (n == 0) return beside;
      const auto launch = pads_.choose(real, beside);
      if (launch && launch->blocks_per_sm >= parts[0].level) return beside;
    }
    at_ = before;
    return {};
  }
  /// The progress of each co-runner.
  [[nodiscard]] const std::vector<gsched::pad_corunner>& corunners() const { return at_; }

private:
  const cuda::padder<family>& pads_;
  const stand_ins& corunner_;
  corunner_programs programs_;
  std::vector<gsched::pad_planner> planners_; ///< by falling number of parts
  std::vector<gsched::pad_corunner> at_;
};

} // namespace

program_pair::figures program_pair::run(gsched::level_rule rule, unsigned corunners,
                                        unsigned rounds) const {
  const auto& [pads, time, real, corunner, _] = *state_;
  const gsched::pad_program host("real-time", real.facts);
  kernel_planner planner(pads, corunner, rule, corunners);
  figures made;
  chain alone(pads), padded(pads), in_turn(pads);
  for (std::size_t i = 0; i < real.kernels.size(); ++i) {
    const std::vector<work> beside = planner.plan(host, i, real.kernels[i]);
    made.parts += beside.size();
    alone.add(real.kernels[i], {});
    padded.add(real.kernels[i], beside);
    in_turn.add(real.kernels[i], {});
  }
  // The same blocks of the co-runners, as separate kernels.
  for (const gsched::pad_corunner& g : planner.corunners()) {
    for (std::uint32_t k = 0; k < g.operation; ++k) in_turn.add(corunner.kernels[k], {});
    if (g.block > 0) in_turn.add(corunner.kernels[g.operation].range(0, g.block), {});
  }

  const std::array<cudaGraph_t, 3> graphs{alone.get(), padded.get(), in_turn.get()};
  const std::vector<double> us = time_in_turn(graphs, rounds, time.stream());
  made.alone_us = us[0];
  made.padded_us = us[1];
  made.in_turn_us = us[2];
  return made;
}

} // namespace padding
