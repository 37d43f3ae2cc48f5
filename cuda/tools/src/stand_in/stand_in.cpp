// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/stand_in.hpp>

#include "stand_in/stand_in_build.hpp"
#include "stand_in/stand_in_launch.hpp"
#include "stand_in/stand_in_memory.hpp"
#include "stand_in/stand_in_timing.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

/// State that all stand-ins of a GPU share. Never destroyed: graphs refer to it, and CUDA may be
/// shut down when static objects are destroyed.
struct shared_state {
  gpu on;
  stand_in_timing timing;
  stand_in_memory memory;

  explicit shared_state(gpu g) : on(std::move(g)), timing(on) {}
};

std::mutex building; // set-up only

shared_state& state_of_current_gpu() {
  static auto& all = *new std::map<int, std::unique_ptr<shared_state>>;
  static_cast<void>(driver()); // throws one line where the driver or a function is missing
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "GPU");
  auto& shared = all[ordinal];
  if (!shared) shared = std::make_unique<shared_state>(find_gpu(ordinal));
  return *shared;
}

/// An operation to replace, and its dependencies among the earlier ones.
struct wanted {
  const operation* work = nullptr;
  std::vector<std::uint32_t> after;
};

/// The usual time between the end of a kernel and the start of the next one in a graph.
constexpr duration usual_gap{350};

duration gap_of(const profile& p) noexcept {
  if (!p.graph_replay || p.operations.empty()) return usual_gap;
  return (*p.graph_replay - p.total()) / static_cast<duration::rep>(p.operations.size());
}

class builder {
public:
  builder(shared_state& shared, std::string name, duration gap, const stand_in_options& how)
      : shared_(shared), name_(std::move(name)), gap_(gap), how_(how) {
    check(cudaGraphCreate(&graph_, 0), "stand-in graph");
  }
  ~builder() { static_cast<void>(cudaGraphDestroy(graph_)); }
  builder(const builder&) = delete;
  builder& operator=(const builder&) = delete;

  void add(const wanted& w, const stand_in_replacement& other) {
    std::vector<cudaGraphNode_t> after;
    for (const std::uint32_t a : w.after) after.push_back(nodes_[a]);
    if (const cudaGraphNode_t node = other ? other(nodes_.size(), graph_, after) : nullptr) {
      nodes_.push_back(node);
      durations_.push_back(w.work->expected);
      return;
    }
    const bool kernel = w.work->kind == operation_kind::kernel;
    nodes_.push_back(kernel ? add_kernel(*w.work, after)
                            : shared_.memory.add(graph_, after, *w.work, place()));
    durations_.push_back(w.work->expected);
  }

  [[nodiscard]] program finish() {
    program_options how;
    how.name = name_;
    how.durations = durations_;
    return program(graph_, how);
  }

private:
  [[nodiscard]] std::string place() const {
    return name_ + ": operation " + std::to_string(nodes_.size());
  }

  cudaGraphNode_t add_kernel(const operation& op, std::span<const cudaGraphNode_t> after) {
    const stand_in_launch l = fit_stand_in(op.launch, op.max_blocks_per_sm, shared_.on, place());
    // Some operations are shorter than any kernel: the following stand-ins are shortened instead.
    const duration target = std::max(duration::zero(), op.expected + gap_ - debt_);
    const auto [cycles, takes] = shared_.timing.cycles_for(l, target);
    debt_ = std::max(duration::zero(), takes - (op.expected + gap_ - debt_));
    stand_in_stay stay{cycles, {}, nullptr};
    if (l.cluster_size() == 1) leave(op, l, stay);
    return add_stand_in(graph_, after, l, stay);
  }

  void leave(const operation& op, const stand_in_launch& l, stand_in_stay& stay) {
    const preemptibility wanted = how_.preemptible.value_or(op.preemptible);
    if (wanted == preemptibility::between_blocks) stay.preempt = preemption::between_blocks();
    if (wanted != preemptibility::at_checkpoints) return;
    constexpr duration usual = std::chrono::microseconds{1};
    stay.preempt =
        preemption::at_checkpoints(op.checkpoint > duration::zero() ? op.checkpoint : usual);
    stay.saved = shared_.memory.saved(l.blocks(), place());
  }

  shared_state& shared_;
  std::string name_;
  duration gap_;
  stand_in_options how_;
  duration debt_{};
  cudaGraph_t graph_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
  std::vector<duration> durations_;
};

program build(const std::string& name, const std::vector<wanted>& operations, duration gap,
              const stand_in_options& how, const stand_in_replacement& other = {}) {
  const std::lock_guard lock(building);
  shared_state& shared = state_of_current_gpu();
  for (const wanted& w : operations) shared.memory.reserve(*w.work, name);
  builder b(shared, name, gap, how);
  for (const wanted& w : operations) b.add(w, other);
  return b.finish();
}

} // namespace

program make_stand_in(const profile& of, const stand_in_options& how) {
  return build_stand_in(of, of.full_name(), how, {});
}

program build_stand_in(const profile& of, const std::string& name, const stand_in_options& how,
                       const stand_in_replacement& other) {
  check_order(of);
  std::vector<wanted> operations;
  for (const profile_operation& op : of.operations) operations.push_back({&op.work, op.after});
  return build(name, operations, gap_of(of), how, other);
}

duration stand_in_gap(const profile& of) noexcept { return gap_of(of); }

program make_stand_in(const gsched::program& of, const stand_in_options& how) {
  std::vector<wanted> operations;
  for (const operation& op : of.operations()) {
    const auto before = static_cast<std::uint32_t>(operations.size());
    operations.push_back({&op, {}});
    if (before > 0) operations.back().after = {before - 1};
  }
  return build(of.name(), operations, usual_gap, how);
}

std::size_t count_mismatches(const profile& of, const program& made) noexcept {
  const auto operations = made.host().operations();
  std::size_t n = 0;
  for (std::size_t i = 0; i < std::min(operations.size(), of.operations.size()); ++i) {
    const operation& wanted = of.operations[i].work;
    if (wanted.kind == operation_kind::kernel && wanted.max_blocks_per_sm != 0 &&
        wanted.max_blocks_per_sm != operations[i].max_blocks_per_sm)
      ++n;
  }
  return n;
}

} // namespace gsched::cuda
