// SPDX-License-Identifier: Apache-2.0
#include "device/segment_graphs.hpp"
#include "preempt/preemption_marker.hpp"
#include "relaxed_capture.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>

namespace gsched::cuda {

namespace {

std::uint32_t narrow(std::size_t n) noexcept { return static_cast<std::uint32_t>(n); }

} // namespace

segment_graphs::~segment_graphs() {
  for (std::unique_ptr<loaded_program>& l : programs_) destroy(std::move(l));
}

void segment_graphs::destroy(std::unique_ptr<loaded_program> l) noexcept {
  if (l == nullptr) return;
  if (abandoned_ || l->lost) {
    static_cast<void>(l.release()); // leaked: the GPU may still use it
    return;
  }
  const relaxed_capture apart;
  for (table& t : l->foreseen)
    for (built& r : t)
      if (r != nullptr) take_apart(*r);
  for (auto& [k, r] : l->others) take_apart(*r);
  if (l->preemptible) ends_.give_back(&l->preemptible->words);
  l.reset(); // frees GPU memory
}

std::vector<graph_place> segment_graphs::places() const {
  const std::lock_guard lock(places_guard_);
  return places_;
}

std::optional<program_id> segment_graphs::find_program(const gsched::program& p) const noexcept {
  for (std::size_t i = 0; i < programs_.size(); ++i)
    if (programs_[i] != nullptr && programs_[i]->host == &p) return program_id{narrow(i)};
  return std::nullopt;
}

program_memory segment_graphs::memory_of(const gsched::program& p) const noexcept {
  const std::optional<program_id> id = find_program(p);
  return id ? programs_[index(*id)]->memory : program_memory{};
}

std::uint64_t segment_graphs::gates() const noexcept {
  return std::accumulate(programs_.begin(), programs_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const std::unique_ptr<loaded_program>& l) {
                           return sum + (l == nullptr ? 0 : l->gates);
                         });
}

program_id segment_graphs::add(std::unique_ptr<loaded_program> l) {
  programs_.reserve(programs_.size() + 1);
  try {
    const building b{*l, places_};
    if (l->places() < places_.size()) {
      while (l->places() < places_.size()) foresee(b, l->places());
      wait_for_uploads(places_);
    }
  } catch (...) {
    destroy(std::move(l));
    throw;
  }
  programs_.push_back(std::move(l));
  return program_id{narrow(programs_.size() - 1)};
}

std::unique_ptr<loaded_program> segment_graphs::remove(program_id id) noexcept {
  std::unique_ptr<loaded_program> l = std::exchange(programs_[index(id)], nullptr);
  if (abandoned_ || l->lost) return l; // the GPU may still use the slots
  // The graphs may be destroyed on another thread, which must find no slots.
  for (table& t : l->foreseen)
    for (built& r : t)
      if (r != nullptr) give_back_slots(*r);
  for (auto& [k, r] : l->others) give_back_slots(*r);
  return l;
}

void segment_graphs::wait_for_uploads(const std::vector<graph_place>& to) {
  for (const graph_place& at : to) check(cudaStreamSynchronize(at.upload), "segment graphs");
}

std::uint32_t segment_graphs::add_place(const graph_place& p) {
  const std::uint32_t place = narrow(places_.size());
  {
    const std::lock_guard lock(places_guard_);
    places_.push_back(p);
  }
  try {
    for (std::unique_ptr<loaded_program>& l : programs_)
      if (l != nullptr) foresee({*l, places_}, place);
    wait_for_uploads(places_);
  } catch (...) {
    for (std::unique_ptr<loaded_program>& l : programs_)
      if (l != nullptr) forget_place(*l, place);
    const std::lock_guard lock(places_guard_);
    places_.pop_back();
    throw;
  }
  return place;
}

void segment_graphs::forget_place(loaded_program& l, std::uint32_t place) const noexcept {
  for (; l.places() > place; l.foreseen.pop_back(), l.foreseen.pop_back())
    for (std::size_t i = l.foreseen.size() - 2; i < l.foreseen.size(); ++i)
      for (built& r : l.foreseen[i])
        if (r != nullptr) take_apart(*r);
  for (auto at = l.others.begin(); at != l.others.end();) {
    if (at->first.place != place) {
      ++at;
      continue;
    }
    take_apart(*at->second);
    at = l.others.erase(at);
  }
}

range_graphs* segment_graphs::find_in(const table& t, const loaded_program& l, std::uint32_t first,
                                      std::uint32_t last) const noexcept {
  const std::uint32_t i = l.grain_at[first];
  const std::uint32_t end = l.grain_at[last];
  if (i == no_grain || end == no_grain || end <= i) return nullptr;
  const auto level = static_cast<unsigned>(std::bit_width(end - i - 1));
  const std::uint32_t run = std::uint32_t{1} << level;
  if (level >= how_.levels || i % run != 0) return nullptr;
  if (end - i != run && last != l.host->size()) return nullptr;
  return t[i * how_.levels + level].get();
}

range_graphs* segment_graphs::find(program_id id, std::uint32_t first, std::uint32_t last,
                                   std::uint32_t place, graph_kind kind) noexcept {
  loaded_program& l = *programs_[index(id)];
  if (kind != graph_kind::direct) {
    const std::size_t which = 2 * std::size_t{place} + (kind == graph_kind::reporting ? 1 : 0);
    if (range_graphs* r = find_in(l.foreseen[which], l, first, last)) return r;
  }
  const auto at = l.others.find(key{first, last, place, kind});
  return at == l.others.end() ? nullptr : at->second.get();
}

range_graphs* segment_graphs::build_late(program_id id, std::uint32_t first, std::uint32_t last,
                                         std::uint32_t place, graph_kind kind) {
  loaded_program& l = *programs_[index(id)];
  const key k{first, last, place, kind};
  built& kept = l.others[k]; // allocates the entry first
  try {
    kept = build_range({l, places_}, k);
  } catch (...) {
    l.others.erase(k);
    throw;
  }
  return kept.get();
}

void segment_graphs::prepare(program_id id, std::uint32_t first, std::uint32_t last,
                             std::optional<std::uint32_t> one) {
  for (std::uint32_t place = one.value_or(0); place < (one ? *one + 1 : places_.size()); ++place)
    if (find(id, first, last, place, graph_kind::plain) == nullptr)
      static_cast<void>(build_late(id, first, last, place, graph_kind::plain));
}

void segment_graphs::take_apart(range_graphs& r) const noexcept {
  for (segment_graph& g : r.copies) {
    if (g.exec != nullptr) cu_.cuGraphExecDestroy(g.exec);
    g.exec = nullptr;
    if (g.ends != nullptr) ends_.give_back(g.ends);
    g.ends = nullptr;
    g.gates.clear();
  }
  give_back_slots(r);
}

void segment_graphs::give_back_slots(range_graphs& r) const noexcept {
  for (segment_graph& g : r.copies) {
    for (const launch_slot s : g.slots) {
      const auto at = static_cast<std::size_t>(s);
      if (at < nodes_.size()) nodes_[at] = {};
      ring_.give_back(s);
    }
    g.slots.clear();
  }
}

namespace {

/// A temporary graph, destroyed after instantiation.
class temporary_graph {
public:
  temporary_graph(const driver_functions& cu, CUgraph g) noexcept : cu_(cu), graph_(g) {}
  ~temporary_graph() { cu_.cuGraphDestroy(graph_); }
  temporary_graph(const temporary_graph&) = delete;
  temporary_graph& operator=(const temporary_graph&) = delete;
  [[nodiscard]] CUgraph get() const noexcept { return graph_; }

private:
  const driver_functions& cu_;
  CUgraph graph_;
};

std::uint64_t free_memory() noexcept {
  std::size_t unused = 0;
  std::size_t all = 0;
  return cudaMemGetInfo(&unused, &all) == cudaSuccess ? unused : 0;
}

/// The operations that no graph with gates can contain: a lane that yields runs them alone.
std::vector<std::size_t> never_held(const program& p) {
  std::vector<std::size_t> alone;
  for (std::size_t i = 0; i < p.host().size(); ++i)
    if (!p.can_be_held(i, i + 1)) alone.push_back(i);
  return alone;
}

} // namespace

std::unique_ptr<loaded_program> segment_graphs::build(gsched::program& p, const pacing& pace) {
  const program* const made = program::of(p);
  if (made == nullptr)
    throw error(errc::bad_handle, p.name() + ": operations without a graph, expected the host() "
                                             "of a cuda::program");
  const relaxed_capture apart;
  const std::vector<graph_place> all = places();
  auto l = std::make_unique<loaded_program>();
  l->host = &p;
  const bool held = std::any_of(all.begin(), all.end(), [](const auto& at) { return at.gated; });
  if (p.is_whole())
    p.align(run_to_completion, 1);
  else
    p.align(how_.grain, how_.levels, held ? never_held(*made) : std::vector<std::size_t>{});
  l->grain_at.assign(p.size() + 1, no_grain);
  for (std::size_t i = 0; i < p.grain_ends().size(); ++i)
    l->grain_at[p.grain_ends()[i]] = narrow(i);
  l->reporting_until.push_back(0);
  for (std::size_t i = 0; i < p.size(); ++i)
    l->reporting_until.push_back(l->reporting_until.back() +
                                 (made->instrumented(i, i + 1) > 0 ? 1u : 0u));
  try {
    if (made->is_preemptible()) l->preemptible = make_preemptible(*made);
    const building b{*l, all, &pace};
    if (!how_.instrumented) // else add() does: launch slots belong to the owner
      for (std::uint32_t place = 0; place < all.size(); ++place) foresee(b, place);
    wait_for_uploads(all);
  } catch (...) {
    destroy(std::move(l));
    throw;
  }
  return l;
}

void segment_graphs::foresee(const building& b, std::uint32_t place) const {
  loaded_program& l = b.of;
  const auto ends = l.host->grain_ends();
  const std::size_t n = ends.size() - 1;
  l.foreseen.reserve(l.foreseen.size() + 2);
  l.foreseen.emplace_back(n * how_.levels);
  l.foreseen.emplace_back(n * how_.levels);
  table& plain = l.foreseen[2 * std::size_t{place}];
  table& reporting = l.foreseen[2 * std::size_t{place} + 1];
  const graph_place& at = b.places[place];
  // Programs kept whole run only on lanes that have the whole GPU and do not yield.
  if (l.host->is_whole() && (at.gated || at.own)) return;
  if (l.host->longest_kernel() < at.least_operation) return;
  const std::uint64_t before = free_memory();
  try {
    for (unsigned level = 0; level < how_.levels; ++level) {
      const std::size_t run = std::size_t{1} << level;
      for (std::size_t i = 0; i < n; i += run) {
        if (level > 0 && i + run / 2 >= n) continue; // the level below covers this range
        if (level > 0 && l.host->holds_alone(ends[i], ends[std::min(i + run, n)])) continue;
        key k{narrow(ends[i]), narrow(ends[std::min(i + run, n)]), place, graph_kind::plain};
        plain[i * how_.levels + level] = build_range(b, k);
        if (!how_.instrumented || l.reporting_until[k.first] == l.reporting_until[k.last]) continue;
        k.kind = graph_kind::reporting;
        reporting[i * how_.levels + level] = build_range(b, k);
      }
    }
    if (l.preemptible && (at.gated || at.own)) foresee_tails(b, place);
    const key whole{0, narrow(l.host->size()), place, graph_kind::plain};
    if (how_.whole && find_in(plain, l, whole.first, whole.last) == nullptr)
      l.others[whole] = build_range(b, whole);
  } catch (...) {
    forget_place(l, place);
    throw;
  }
  const std::uint64_t after = free_memory();
  l.memory.device_bytes += before > after ? before - after : 0;
}

void segment_graphs::foresee_tails(const building& b, std::uint32_t place) const {
  loaded_program& l = b.of;
  const auto ends = l.host->grain_ends();
  for (std::size_t i = 0; i + 1 < ends.size(); ++i)
    for (std::size_t first = ends[i] + 1; first < ends[i + 1]; ++first)
      for (const graph_kind kind : {graph_kind::plain, graph_kind::reporting}) {
        const key k{narrow(first), narrow(ends[i + 1]), place, kind};
        const bool reports = l.reporting_until[k.first] < l.reporting_until[k.last];
        if (kind == graph_kind::reporting && (!how_.instrumented || !reports)) continue;
        l.others[k] = build_range(b, k);
      }
}

std::unique_ptr<preemptible_program> segment_graphs::make_preemptible(const program& p) const {
  const gsched::program& host = p.host();
  if (how_.copies != 1)
    throw error(errc::bad_option, host.name() + ": preemptible kernels with " +
                                      std::to_string(how_.copies) +
                                      " copies of each graph, expected device_options::copies 1");
  std::vector<std::uint64_t> blocks;
  for (const operation& op : host.operations()) blocks.push_back(op.launch.blocks());
  preemption_slots slots(blocks);
  return std::make_unique<preemptible_program>(std::move(slots), *ends_.take());
}

std::vector<preemption> segment_graphs::preemptions(const program& p, const loaded_program& l,
                                                    const key& k) const {
  std::vector<preemption> all;
  if (!l.preemptible) return all;
  // In a chain, only the first kernel can have remaining blocks.
  bool chain = true;
  for (std::uint32_t i = k.first + 1; i < k.last; ++i) {
    const std::vector<std::uint32_t>& after = p.facts()[i].after;
    chain = chain && after.size() == 1 && after.front() == i - 1;
  }
  const auto* const flag = reinterpret_cast<const std::uint32_t*>(l.preemptible->flag());
  for (std::uint32_t i = k.first; i < k.last; ++i)
    all.push_back(
        l.preemptible->slots.fill(p.captured_preemption(i), i, flag, i == k.first || !chain));
  return all;
}

segment_graphs::built segment_graphs::build_range(const building& b, const key& k) const {
  loaded_program& l = b.of;
  const program* const p = program::of(*l.host);
  if (p == nullptr)
    throw error(errc::bad_handle, "a loaded program has gone, expected it in place");
  auto r = std::make_unique<range_graphs>();
  r->first = k.first;
  r->last = k.last;
  // A gate may slow down work of lanes that yield, but must not block it.
  const graph_place& where = b.places[k.place];
  r->needs_at_once =
      p->needs_at_once(k.first, k.last, sm_, where.sms,
                       where.gated ? program::need::to_run : program::need::to_be_quick);
  r->copies = std::vector<segment_graph>(how_.copies);
  std::uint64_t nodes = 0;
  try {
    for (segment_graph& g : r->copies) fill(g, *p, b, k, nodes);
  } catch (...) {
    take_apart(*r);
    throw;
  }
  std::size_t reporting = 0;
  const segment_graph& one = r->copies.front();
  for (std::uint32_t i = k.first; i < k.last && !one.slots.empty(); ++i)
    if (l.reporting_until[i + 1] > l.reporting_until[i])
      r->words += ring_.words_of(one.slots[reporting++], l.host->operations()[i].launch.blocks());
  l.memory.nodes += nodes;
  if (k.kind != graph_kind::direct) l.memory.graphs += how_.copies;
  for (const segment_graph& g : r->copies) l.gates += g.gates.size();
  return r;
}

void segment_graphs::fill(segment_graph& g, const program& p, const building& b, const key& k,
                          std::uint64_t& nodes) const {
  const loaded_program& l = b.of;
  if (k.kind != graph_kind::plain) take_slots(g, l, k);
  if (k.kind == graph_kind::direct) return;

  const auto need = [&](CUresult r) {
    if (r != CUDA_SUCCESS)
      throw refused_graph(code_of(r), l.host->name() + ": graph of operations " +
                                          std::to_string(k.first) + " to " +
                                          std::to_string(k.last - 1));
  };
  const graph_place& where = b.places[k.place];
  const std::vector<preemption> parameters = preemptions(p, l, k);
  const bool last = k.last == l.host->size();
  if (last || where.gated || where.own || !parameters.empty()) g.ends = ends_.take();
  range_options how;
  how.reports = g.reports;
  how.place = where.own ? where.context : nullptr;
  how.preemptions = parameters;
  how.gate_every = where.gated && parameters.empty() ? how_.gate_every : 0;
  how.gate_words = g.ends != nullptr ? g.ends->gates_device : 0;
  how.gates = &g.gates;
  const temporary_graph graph(cu_, p.make_range(k.first, k.last, how));
  // The host may read results at the end of a program, so that end is published with release.
  const marker end = last ? marker::publishes : marker::stores;
  if (g.ends != nullptr && parameters.empty())
    add_marker(cu_, graph.get(), end, *g.ends, where.context);
  else if (g.ends != nullptr)
    add_preemption_marker(cu_, graph.get(), end, *g.ends, l.preemptible->slots, k.first, k.last,
                          where.context);
  std::size_t n = 0;
  need(cu_.cuGraphGetNodes(graph.get(), nullptr, &n));
  nodes += n;
  // A graph with gates uses its lane's priority instead of its nodes' priorities: nodes of another
  // priority use another hardware queue, and would occupy it while the graph is held.
  const auto from = std::chrono::steady_clock::now();
  need(cu_.cuGraphInstantiateWithFlags(
      &g.exec, graph.get(),
      where.node_priorities && !where.gated ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0));
  need(cu_.cuGraphUpload(g.exec, where.upload));
  if (b.pace != nullptr && *b.pace) (*b.pace)(std::chrono::steady_clock::now() - from);
}

void segment_graphs::take_slots(segment_graph& g, const loaded_program& l, const key& k) const {
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
