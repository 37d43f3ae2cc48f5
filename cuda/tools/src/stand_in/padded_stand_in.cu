// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/padded_stand_in.hpp>

#include "graph/measure/replay.hpp"
#include "stand_in/stand_in_build.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/pad_stand_in.cuh>
#include <gsched/preempt/colocate/one_corunner.hpp>
#include <gsched/preempt/colocate/program.hpp>

#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace gsched::cuda {

namespace {

gpu gpu_in_use() {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "GPU");
  return find_gpu(ordinal);
}

constexpr int runs = 3; ///< of a measurement

bool is_chain(const profile& p) noexcept {
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    const auto& after = p.operations[i].after;
    if (after.size() != (i > 0 ? 1u : 0u) || (i > 0 && after.front() != i - 1)) return false;
  }
  return true;
}

} // namespace

struct padded_stand_ins::state {
  struct model {
    const profile* of;
    bool chain;
    pad_stand_ins kernels;
    pad_program facts;
    exec_owner alone; ///< the graph without co-runners; built on first use

    model(const profile& p, pad_stand_ins&& made)
        : of(&p), chain(is_chain(p)), kernels(std::move(made)), facts(kernels.name, kernels.facts) {
    }
  };

  explicit state(level_rule rule) : pads(gpu_in_use()), maker(pads) {
    how.sms = pads.table().on().sms;
    how.level = rule;
    how.parts = 1;
  }

  padder<pad_stand_in_family> pads;
  pad_stand_in_maker maker;
  pad_options how;
  stream_owner stream = make_stream("stream for measurements");
  std::deque<model> models; ///< stable addresses
};

padded_stand_ins::padded_stand_ins(level_rule rule) : state_(std::make_unique<state>(rule)) {}
padded_stand_ins::~padded_stand_ins() = default;
padded_stand_ins::padded_stand_ins(padded_stand_ins&&) noexcept = default;
padded_stand_ins& padded_stand_ins::operator=(padded_stand_ins&&) noexcept = default;

std::size_t padded_stand_ins::add(const profile& p) {
  state_->models.emplace_back(p, state_->maker.make(p, stand_in_gap(p)));
  return state_->models.size() - 1;
}

std::vector<pad_part> padded_stand_ins::plan(std::size_t real_time, std::size_t corunner,
                                             std::uint32_t from, const pad_limits* limits) {
  const state::model& host = state_->models[real_time];
  const state::model& other = state_->models[corunner];
  if (!host.chain || !other.chain) return {};
  const auto level = [&](std::size_t i, std::uint32_t k) -> std::uint32_t {
    const auto both =
        state_->pads.choose(*host.kernels.kernels[i], {&*other.kernels.kernels[k], 1});
    return both ? both->blocks_per_sm : 0;
  };
  return plan_one_corunner(host.facts, other.facts, from, state_->how, level, limits);
}

program padded_stand_ins::make(std::size_t real_time, std::size_t corunner,
                               std::span<const pad_part> parts) {
  const state::model& host = state_->models[real_time];
  const state::model& other = state_->models[corunner];
  const std::string name = host.of->full_name() + " with " + other.of->full_name() + " from " +
                           std::to_string(parts.empty() ? 0 : parts.front().corunner_operation);
  std::size_t next = 0;
  program made = build_stand_in(
      *host.of, name, {preemptibility::never},
      [&](std::size_t i, cudaGraph_t graph,
          std::span<const cudaGraphNode_t> after) -> cudaGraphNode_t {
        std::vector<pad_stand_ins::work> corunners;
        for (; next < parts.size() && parts[next].host_operation == i; ++next)
          corunners.push_back(other.kernels.kernels[parts[next].corunner_operation]->range(
              parts[next].first_block, parts[next].blocks));
        if (corunners.empty()) return nullptr;
        return state_->pads.add_node(graph, after, *host.kernels.kernels[i], corunners);
      });
  made.host().keep_whole();
  return made;
}

duration padded_stand_ins::longer(std::size_t real_time, const program& padded) {
  state::model& host = state_->models[real_time];
  const auto whole = [](const program& p) {
    const graph_owner graph(p.make_range(0, p.host().size()));
    return instantiate(graph.get());
  };
  if (host.alone == nullptr)
    host.alone = whole(build_stand_in(*host.of, host.of->full_name(), {preemptibility::never}, {}));
  const exec_owner both = whole(padded);
  const auto ns = [&](const exec_owner& of) {
    return median_replay_ns(of.get(), state_->stream.get(), runs);
  };
  const double before = ns(host.alone), with = ns(both), after = ns(host.alone);
  return duration{std::llround(with - (before + after) / 2)};
}

} // namespace gsched::cuda
