// SPDX-License-Identifier: Apache-2.0
#include "preemption_marker.hpp"
#include "segment_graphs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace gsched::cuda {

namespace {

/// A graph that is only there to be instantiated.
class passing_graph {
public:
  passing_graph(const driver_functions& cu, CUgraph g) noexcept : cu_(cu), graph_(g) {}
  ~passing_graph() { cu_.cuGraphDestroy(graph_); }
  passing_graph(const passing_graph&) = delete;
  passing_graph& operator=(const passing_graph&) = delete;
  [[nodiscard]] CUgraph get() const noexcept { return graph_; }

private:
  const driver_functions& cu_;
  CUgraph graph_;
};

} // namespace

std::unique_ptr<leaving_program> segment_graphs::make_leaving(const program& p) {
  const gsched::program& host = p.host();
  if (how_.copies != 1)
    throw error(errc::bad_option, host.name() + ": kernels that leave, and " +
                                      std::to_string(how_.copies) +
                                      " copies of each graph, expected device_options::copies to "
                                      "be 1: what is left of them is one launch's");
  std::vector<std::uint64_t> blocks;
  for (const operation& op : host.operations()) blocks.push_back(op.launch.blocks());
  preemption_slots slots(blocks);
  return std::make_unique<leaving_program>(std::move(slots), *ends_.take());
}

std::vector<preemption> segment_graphs::preemptions(const program& p, const loaded& l,
                                                    const key& k) const {
  std::vector<preemption> all;
  if (!l.leaving) return all;
  // In a chain only the first kernel can be one of which blocks are left.
  bool chain = true;
  for (std::uint32_t i = k.first + 1; i < k.last; ++i) {
    const std::vector<std::uint32_t>& after = p.facts()[i].after;
    chain = chain && after.size() == 1 && after.front() == i - 1;
  }
  const auto* const flag = reinterpret_cast<const std::uint32_t*>(l.leaving->flag());
  for (std::uint32_t i = k.first; i < k.last; ++i)
    all.push_back(l.leaving->slots.fill(p.captured_preemption(i), i, flag, i == k.first || !chain));
  return all;
}

segment_graphs::built segment_graphs::build(loaded& l, const key& k, std::uint64_t& nodes) {
  const program* const p = program::of(*l.host);
  if (p == nullptr)
    throw error(errc::bad_handle, "a loaded program has gone, expected it in place");
  auto r = std::make_unique<range_graphs>();
  r->first = k.first;
  r->last = k.last;
  r->copies = std::vector<segment_graph>(how_.copies);
  refusal_ = {};
  std::uint64_t added = 0;
  try {
    for (segment_graph& g : r->copies) fill(g, *p, l, k, added);
  } catch (...) {
    take_apart(*r);
    throw;
  }
  std::size_t reporting = 0;
  const segment_graph& one = r->copies.front();
  for (std::uint32_t i = k.first; i < k.last && !one.slots.empty(); ++i)
    if (l.reporting_until[i + 1] > l.reporting_until[i])
      r->words += ring_.words_of(one.slots[reporting++], l.host->operations()[i].launch.blocks());
  nodes += added;
  return r;
}

void segment_graphs::fill(segment_graph& g, const program& p, const loaded& l, const key& k,
                          std::uint64_t& nodes) {
  if (k.kind != graph_kind::plain) take_slots(g, l, k);
  if (k.kind == graph_kind::direct) return;

  const auto need = [&](CUresult r) {
    if (r == CUDA_SUCCESS) return;
    refusal_ = code_of(r);
    fail(refusal_, l.host->name() + ": graph of operations " + std::to_string(k.first) + " to " +
                       std::to_string(k.last - 1));
  };
  const graph_place& where = places_[k.place];
  g.ends = ends_.take();
  range_options how;
  how.reports = g.reports;
  how.place = where.own ? where.context : nullptr;
  const std::vector<preemption> leaving = preemptions(p, l, k);
  how.leaving = leaving;
  how.gate_every = where.gated && leaving.empty() ? how_.gate_every : 0;
  how.gates_look_at = g.ends->gates_there;
  how.gates = &g.gates;
  const passing_graph graph(cu_, p.make_range(k.first, k.last, how));
  gates_ += g.gates.size();
  // What a host reads is promised to it at a program's end.
  const marker end = k.last == l.host->size() ? marker::publishes : marker::tells;
  if (leaving.empty())
    add_marker(cu_, graph.get(), end, *g.ends, where.context);
  else
    add_preemption_marker(cu_, graph.get(), end, *g.ends, l.leaving->slots, k.first, k.last,
                          where.context);
  std::size_t n = 0;
  need(cu_.cuGraphGetNodes(graph.get(), nullptr, &n));
  need(cu_.cuGraphInstantiateWithFlags(
      &g.exec, graph.get(),
      where.node_priorities ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0));
  need(cu_.cuGraphUpload(g.exec, where.upload));
  nodes += n;
}

void segment_graphs::take_slots(segment_graph& g, const loaded& l, const key& k) {
  const std::size_t n = l.reporting_until[k.last] - l.reporting_until[k.first];
  g.slots.reserve(n);
  g.reports.reserve(n);
  const std::uint32_t group = group_for(l, k);
  for (std::uint32_t i = k.first; i < k.last; ++i) {
    if (l.reporting_until[i + 1] == l.reporting_until[i]) continue;
    const launch_slot s = ring_.take_slot(group, l.host->operations()[i].launch.blocks());
    g.slots.push_back(s);
    g.reports.push_back(ring_.report_of(s));
    const auto at = static_cast<std::size_t>(s);
    if (at >= nodes_.size()) nodes_.resize(std::max(at + 1, 2 * nodes_.size()));
    nodes_[at] = {&g, i - k.first};
  }
}

} // namespace gsched::cuda
