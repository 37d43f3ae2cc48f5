// SPDX-License-Identifier: Apache-2.0
#include "graph/gates/gate.hpp"
#include "graph/gates/gate_plan.hpp"
#include "graph/measure/measure.hpp"
#include "graph/program_state.hpp"
#include "hung_streams.hpp"
#include "relaxed_capture.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace gsched::cuda {

namespace {

constexpr duration unmeasured = std::chrono::microseconds{5};

/// Assigns one id to each pair of function and launch shape, in order of appearance.
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

/// The cost of each additional branch at a cut. On an H200, a cut of two and of four branches takes
/// 2.1 and 3.8 us longer than a cut of a chain (gsched.gpu.segment_ends).
constexpr duration cut_of_branch = std::chrono::nanoseconds{700};

/// The cost of a cut before each operation, for gsched::program.
std::vector<duration> losses_of(const flat_graph& flat, std::span<const duration> times) {
  std::vector<std::int64_t> ns;
  ns.reserve(times.size());
  for (const duration t : times) ns.push_back(t.count());
  std::vector<duration> losses;
  for (const std::int64_t loss : cut_losses(flat.after, ns, cut_of_branch.count()))
    losses.emplace_back(loss);
  return losses;
}

} // namespace

program::program(CUgraph graph, const program_options& how) : state_(std::make_unique<state>()) {
  static_cast<void>(driver()); // throws one line where the driver or a function is missing
  const relaxed_capture apart;
  state& s = *state_;
  s.self = this;
  check(cudaGetDevice(&s.gpu), "CUDA device");
  const bound_gpu here(s.gpu);
  const std::string where = "graph " + how.name + ": ";
  expect_no_hang(s.gpu, "graph " + how.name);

  expect_supported_nodes(graph, where + "node ");
  s.whole = clone_of(graph, where);
  std::optional<flat_graph> flat = flatten(read_graph(s.whole.get()));
  if (!flat)
    throw error(errc::bad_graph, where + "its nodes wait for one another, expected no cycle");
  s.flat = std::move(*flat);
  const std::size_t n = s.flat.operations();
  if (n == 0)
    throw error(errc::bad_graph, where + "nothing to run, expected a kernel, memcpy or memset");
  if (!how.durations.empty() && how.durations.size() != n)
    throw error(errc::bad_option, where + std::to_string(how.durations.size()) +
                                      " durations, expected " + std::to_string(n) +
                                      ", one for each operation");
  std::vector<operation> operations = s.read_operations(where);
  expect_memory_of(s.gpu, s.nodes, where);
  if (how.accesses != nullptr)
    s.restricted = restrict_preemptibility(operations, *how.accesses, "graph " + how.name);
  for (const preemptibility_restriction& r : s.restricted)
    s.nodes[r.operation].preempted_by->captured.preemptible = preemptibility::between_blocks;

  std::vector<duration> times = how.durations;
  if (times.empty() && how.measure) {
    const auto add = [&](CUgraph to, std::uint32_t i) {
      const flat_node& node = s.flat.nodes[i];
      return s.flat.node_of[node.operation] == i ? s.nodes[node.operation].add_to(to, {}, where)
                                                 : add_other_node(to, node, where);
    };
    measured_graph m =
        measure_graph(s.whole.get(), s.flat, add, std::max(how.measured_runs, 1), where);
    times = std::move(m.operations);
    s.replay = m.whole;
  }
  if (times.empty()) times.assign(n, unmeasured);
  for (std::size_t i = 0; i < n; ++i) operations[i].expected = times[i];
  s.host.emplace(how.name, std::move(operations));
  s.host->set_cut_losses(losses_of(s.flat, times));
}

std::vector<operation> program::state::read_operations(const std::string& where) {
  const std::size_t n = flat.operations();
  std::vector<operation> operations(n);
  kernel_ids ids;
  attribute_reader attributes;
  for (std::size_t i = 0; i < n; ++i) {
    const flat_node& at = flat.nodes[flat.node_of[i]];
    program_node& node = nodes.emplace_back();
    node_facts& of = facts.emplace_back();
    node.owner = this;
    node.node = at.handle;
    node.type = at.type;
    of.after = flat.after[i];
    operation& op = operations[i];
    node.read(where + "operation " + std::to_string(i), gpu, attributes, op, of);
    if (op.kind == operation_kind::kernel) op.kernel = ids.of(node.function, op.launch);
    if (of.instrumented) instrumented.push_back(static_cast<std::uint32_t>(i));
  }
  const auto take_priority = [&](std::size_t to, std::size_t from) {
    if (nodes[to].work) nodes[to].priority = std::min(nodes[to].priority, nodes[from].priority);
  };
  for (std::size_t i = 0; i < n; ++i)
    for (const std::uint32_t u : facts[i].after) take_priority(i, u);
  for (std::size_t i = n; i-- > 0;)
    for (const std::uint32_t u : facts[i].after) take_priority(u, i);
  outside_until.push_back(0);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t outside = nodes[i].can_be_kernel() ? 0 : 1;
    for (const flat_node& with : nodes_of(i, i + 1))
      outside += with.type == CU_GRAPH_NODE_TYPE_HOST ||
                         with.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
                         with.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD
                     ? 1
                     : 0;
    outside_until.push_back(outside_until.back() + outside);
  }
  // The remaining blocks of a kernel must run before the next kernel, wherever the program is cut.
  preemptible = std::all_of(operations.begin(), operations.end(), [](const operation& op) {
    return op.preemptible != preemptibility::never;
  });
  if (!preemptible)
    for (operation& op : operations) op.preemptible = preemptibility::never;
  return operations;
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

bool program::is_preemptible() const noexcept { return state_->preemptible; }

const preemption& program::captured_preemption(std::size_t i) const noexcept {
  return state_->nodes[i].preempted_by->captured;
}

std::span<const preemptibility_restriction> program::restricted() const noexcept {
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
  if (!how.preemptions.empty() && (!s.preemptible || how.preemptions.size() != last - first))
    throw error(errc::bad_option, where + std::to_string(how.preemptions.size()) +
                                      " preemption parameters, expected one for each operation of "
                                      "a preemptible program");
  const std::string what =
      where + "operations " + std::to_string(first) + " to " + std::to_string(last - 1);
  graph_owner graph = empty_graph();
  const std::span<const flat_node> with = s.nodes_of(first, last);
  const std::uint32_t base = s.flat.first_node[first];
  const bool gated = how.gate_every > 0 && can_be_held(first, last);
  const std::vector<bool> left_out = s.left_out(with, base);
  std::vector<CUgraphNode> made(with.size());
  std::vector<CUgraphNode> operations(last - first);
  std::size_t reports = 0;
  for (std::size_t i = 0; i < with.size(); ++i) {
    const std::size_t op = with[i].operation;
    if (s.flat.node_of[op] != base + i) {
      if (left_out[i]) continue;
      made[i] = gated ? add_one_thread(graph.get(), join_kernel(), nullptr, how.place, what)
                      : add_other_node(graph.get(), with[i], what);
      continue;
    }
    program_node::adding as;
    as.place = how.place;
    as.as_kernel = gated || (!how.keep_memory_nodes && s.nodes[op].is_within_gpu());
    if (s.nodes[op].reports_by && !how.reports.empty()) as.to = &how.reports[reports++];
    if (!how.preemptions.empty()) as.parameter = &how.preemptions[op - first];
    made[i] = operations[op - first] = s.nodes[op].add_to(graph.get(), as, what);
  }
  edge_list edges;
  std::vector<std::vector<std::uint32_t>> through(
      with.size()); // of a removed node: its dependencies
  for (std::uint32_t i = 0; i < with.size(); ++i) {
    std::vector<std::uint32_t> indirect;
    for (const graph_edge& e : with[i].before) {
      if (e.from < base) continue;
      const std::uint32_t u = e.from - base;
      if (left_out[u])
        indirect.insert(indirect.end(), through[u].begin(), through[u].end());
      else if (left_out[i])
        indirect.push_back(u);
      else
        edges.add(made[u], made[i], e.data);
    }
    std::sort(indirect.begin(), indirect.end());
    indirect.erase(std::unique(indirect.begin(), indirect.end()), indirect.end());
    if (left_out[i]) {
      through[i] = std::move(indirect);
      continue;
    }
    const auto is_direct = [&](std::uint32_t u) {
      return std::any_of(with[i].before.begin(), with[i].before.end(),
                         [&](const graph_edge& e) { return e.from == base + u; });
    };
    for (const std::uint32_t u : indirect)
      if (!is_direct(u)) edges.add(made[u], made[i]);
  }
  if (how.gates != nullptr) how.gates->clear();
  if (gated) {
    const std::vector<gate> gates = s.add_gates(graph.get(), operations, first, how, edges, what);
    if (how.gates != nullptr) *how.gates = gates;
  }
  edges.add_to(graph.get(), what);
  return graph.release();
}

std::vector<bool> program::state::left_out(std::span<const flat_node> range,
                                           std::uint32_t base) const {
  constexpr std::size_t most_edges = 64; // limit of edges in place of one empty node
  std::vector<std::size_t> in(range.size()), out(range.size());
  for (std::size_t i = 0; i < range.size(); ++i)
    for (const graph_edge& e : range[i].before) {
      if (e.from < base) continue;
      ++in[i];
      ++out[e.from - base];
    }
  std::vector<bool> all(range.size());
  for (std::size_t i = 0; i < range.size(); ++i)
    all[i] = range[i].type == CU_GRAPH_NODE_TYPE_EMPTY && in[i] * out[i] <= most_edges;
  return all;
}

std::vector<gate> program::state::add_gates(CUgraph graph, std::span<const CUgraphNode> operations,
                                            std::size_t first, const range_options& how,
                                            edge_list& edges, const std::string& what) const {
  std::vector<std::vector<std::uint32_t>> after(operations.size());
  std::vector<duration> times(operations.size());
  for (std::size_t i = 0; i < operations.size(); ++i) {
    for (const std::uint32_t u : flat.after[first + i])
      if (u >= first) after[i].push_back(u - static_cast<std::uint32_t>(first));
    times[i] = host->operations()[first + i].expected;
  }
  std::vector<gate> gates;
  for (const planned_gate& g : plan_gates(after, times, how.gate_every)) {
    auto number = static_cast<std::uint32_t>(gates.size());
    CUdeviceptr line = how.gate_words;
    void* arguments[] = {&line, &number};
    const CUgraphNode node =
        add_one_thread(graph, gate_kernel(), arguments, how.place, what + ": gate");
    for (const std::uint32_t u : g.waits) edges.add(operations[u], node);
    for (const std::uint32_t v : g.holds) edges.add(node, operations[v]);
    gates.push_back({static_cast<std::uint32_t>(first) + g.beside, g.takes, g.followed});
  }
  return gates;
}

bool program::can_be_held(std::size_t first, std::size_t last) const noexcept {
  return state_->outside_until[first] == state_->outside_until[last];
}

sm_count program::needs_at_once(std::size_t first, std::size_t last, const architecture_limits& l,
                                sm_count has, need what) const noexcept {
  std::uint64_t most = 0;
  for (std::size_t i = first; i < last; ++i) {
    const operation& op = state_->host->operations()[i];
    if (op.kind != operation_kind::kernel) continue;
    const std::uint64_t on_one = std::max(op.max_blocks_per_sm, 1u);
    // Each block takes the system's share of an SM's shared memory; a gate's block does too.
    const std::uint64_t shared = on_one * allocation_of(l, op.launch).shared_bytes;
    const bool fills =
        what == need::to_be_quick && shared + l.reserved_shared_bytes > l.shared_bytes;
    if (!fills && !state_->nodes[i].is_cooperative()) continue;
    const std::uint64_t needs = (op.launch.blocks() + on_one - 1) / on_one;
    if (needs <= has.count()) most = std::max(most, needs);
  }
  return sm_count{static_cast<std::uint32_t>(most)};
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
