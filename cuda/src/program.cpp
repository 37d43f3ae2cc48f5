// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"
#include "program_place.hpp"
#include "program_state.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace gsched::cuda {

namespace {

constexpr duration unmeasured = std::chrono::microseconds{5};

/// One id for each function at each launch shape, in order of appearance.
class kernel_ids {
public:
  kernel_id of(CUfunction f, const launch_shape& l) {
    const key k{f,
                {l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z,
                 l.dynamic_shared_bytes, l.cluster_blocks}};
    const auto next = static_cast<std::uint32_t>(known_.size());
    return kernel_id{known_.try_emplace(k, next).first->second};
  }

private:
  using key = std::pair<CUfunction, std::array<std::uint32_t, 8>>;
  std::map<key, std::uint32_t> known_;
};

void set_durations(std::vector<operation>& operations, std::span<const duration> times) {
  for (std::size_t i = 0; i < operations.size(); ++i) operations[i].expected = times[i];
}

} // namespace

program::program(CUgraph graph, const program_options& how) : state_(std::make_unique<state>()) {
  static_cast<void>(driver()); // says in one line what is absent
  state& s = *state_;
  s.self = this;
  check(cudaGetDevice(&s.gpu), "CUDA device");
  const bound_gpu here(s.gpu);
  const std::string where = "graph " + how.name + ": ";

  s.top = read_graph(graph, where + "node ");
  if (!flatten(s.top, s.flat))
    throw error(errc::bad_graph, where + "its nodes wait for one another, expected no cycle");
  const std::size_t n = s.flat.operations.size();
  if (n == 0)
    throw error(errc::bad_graph, where + "nothing to run, expected a kernel, memcpy or memset");
  if (!how.durations.empty() && how.durations.size() != n)
    throw error(errc::bad_option, where + std::to_string(how.durations.size()) +
                                      " durations, expected " + std::to_string(n) +
                                      ", one for each operation");
  s.whole = clone_of(graph, where);
  rebind(s.top, s.whole.get());

  std::vector<operation> operations(n);
  kernel_ids ids;
  for (std::size_t i = 0; i < n; ++i) {
    program_node& node = s.nodes.emplace_back();
    node_facts& facts = s.facts.emplace_back();
    node.owner = state_.get();
    node.node = s.flat.operations[i]->handle;
    node.type = s.flat.operations[i]->type;
    facts.after = std::move(s.flat.after[i]);
    operation& op = operations[i];
    node.read(where + "operation " + std::to_string(i), op, facts);
    if (op.kind == operation_kind::kernel) op.kernel = ids.of(node.function, op.launch);
    if (facts.instrumented) s.instrumented.push_back(static_cast<std::uint32_t>(i));
  }
  // What is left of a kernel has to be run before what comes after it, wherever it is cut.
  s.leaves = std::all_of(operations.begin(), operations.end(),
                         [](const operation& op) { return op.leaves != leaving::never; });
  if (!s.leaves)
    for (operation& op : operations) op.leaves = leaving::never;
  if (how.accesses != nullptr)
    s.restricted = restrict_leaving(operations, *how.accesses, "graph " + how.name);
  for (const leaving_restriction& r : s.restricted)
    s.nodes[r.operation].leaves_by->captured.leaves = leaving::between_blocks;

  std::vector<duration> times = how.durations;
  if (times.empty() && how.measure) {
    measured_graph m = measure_graph(s.top, n, std::max(how.measured_runs, 1), where);
    times = std::move(m.operations);
    s.replay = m.whole;
  }
  if (times.empty()) times.assign(n, unmeasured);
  set_durations(operations, times);
  s.host.emplace(how.name, std::move(operations));
}

program::~program() = default;

program::program(program&& o) noexcept : state_(std::move(o.state_)) {
  if (state_) state_->self = this;
}

program& program::operator=(program&& o) noexcept {
  state_ = std::move(o.state_);
  if (state_) state_->self = this;
  return *this;
}

gsched::program& program::host() noexcept { return *state_->host; }
const gsched::program& program::host() const noexcept { return *state_->host; }

program* program::of(const gsched::program& p) noexcept {
  const auto* first = static_cast<const action*>(p.operations().front().handle);
  if (first == nullptr || first->what != action::kind::node) return nullptr;
  auto* s = static_cast<state*>(static_cast<const program_node*>(first)->owner);
  return &*s->host == &p ? s->self : nullptr;
}

std::span<const node_facts> program::facts() const noexcept { return state_->facts; }
std::optional<duration> program::graph_replay() const noexcept { return state_->replay; }

bool program::leaves() const noexcept { return state_->leaves; }

const preemption& program::captured_preemption(std::size_t i) const noexcept {
  return state_->nodes[i].leaves_by->captured;
}

std::span<const leaving_restriction> program::restricted() const noexcept {
  return state_->restricted;
}

std::size_t program::instrumented(std::size_t first, std::size_t last) const noexcept {
  const auto& all = state_->instrumented;
  const auto from = std::lower_bound(all.begin(), all.end(), first);
  return static_cast<std::size_t>(std::lower_bound(from, all.end(), last) - from);
}

CUgraph program::make_range(std::size_t first, std::size_t last, const range_options& how) const {
  const state& s = *state_;
  const bound_gpu here(s.gpu);
  const std::string where = "graph " + s.host->name() + ": ";
  if (first >= last || last > s.nodes.size())
    throw error(errc::bad_option, where + "operations " + std::to_string(first) + " to " +
                                      std::to_string(last) + ", expected a range within 0 to " +
                                      std::to_string(s.nodes.size()));
  if (!how.reports.empty() && how.reports.size() != instrumented(first, last))
    throw error(errc::bad_option, where + std::to_string(how.reports.size()) +
                                      " reports, expected " +
                                      std::to_string(instrumented(first, last)) +
                                      ", one for each instrumented kernel");
  if (!how.leaving.empty() && (!s.leaves || how.leaving.size() != last - first))
    throw error(errc::bad_option, where + std::to_string(how.leaving.size()) +
                                      " preemptions, expected one for each operation of a program "
                                      "all of which leave");
  graph_owner clone = clone_of(s.whole.get(), where);
  state::range r{first, last, how, {}, {}};
  r.what = where + "operations " + std::to_string(first) + " to " + std::to_string(last - 1);
  if (how.gate_every > 0)
    r.gates = range_gates{how.gates_look_at, how.gate_every, last, r.what + ": gates", 0, {}};
  s.keep_range(s.top, clone.get(), r);
  if (r.gates && how.gates != nullptr) *how.gates = std::move(r.gates->made);
  return clone.release();
}

void program::state::keep_range(const graph_level& level, CUgraph clone, range& r) const {
  const std::vector<CUgraphNode> found = find_in_clone(level, clone);
  const auto before = std::lower_bound(instrumented.begin(), instrumented.end(), r.first);
  std::optional<level_gates> gates;
  if (r.gates) gates.emplace(*r.gates, level, clone, found);
  for (const std::uint32_t i : level.order) {
    const level_node& node = level.nodes[i];
    if (node.last <= r.first || node.first >= r.last) {
      check(driver().cuGraphDestroyNode(found[i]), "graph range");
      continue;
    }
    const std::size_t gates_before = r.gates ? r.gates->made.size() : 0;
    if (node.child) {
      keep_range(*node.child, child_of(found[i]), r);
    } else if (node.is_operation()) {
      const program_node& op = nodes[node.first];
      const report* to = nullptr;
      if (!r.how.reports.empty() && op.reports_by) {
        const auto at = std::lower_bound(before, instrumented.end(), node.first);
        to = &r.how.reports[static_cast<std::size_t>(at - before)];
      }
      const preemption* const leaving =
          r.how.leaving.empty() ? nullptr : &r.how.leaving[node.first - r.first];
      if (to != nullptr || leaving != nullptr) op.set_in_clone(found[i], to, leaving);
    }
    if (gates) gates->pass(i, r.gates->made.size() > gates_before);
  }
  if (r.how.place != nullptr) place_kernels(clone, r.how.place, r.what);
}

CUresult program::launch_each(std::size_t first, std::size_t last, CUstream stream,
                              std::span<const report> reports) const noexcept {
  std::size_t next = 0;
  for (std::size_t i = first; i < last; ++i) {
    const program_node& node = state_->nodes[i];
    const report* to = nullptr;
    if (node.reports_by && next < reports.size()) to = &reports[next++];
    if (const CUresult e = node.launch(stream, to); e != CUDA_SUCCESS) return e;
  }
  return CUDA_SUCCESS;
}

} // namespace gsched::cuda
