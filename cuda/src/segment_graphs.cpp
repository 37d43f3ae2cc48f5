// SPDX-License-Identifier: Apache-2.0
#include "segment_graphs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace gsched::cuda {

namespace {

std::uint32_t narrow(std::size_t n) noexcept { return static_cast<std::uint32_t>(n); }

} // namespace

segment_graphs::~segment_graphs() {
  if (left_) {
    for (auto& l : programs_) static_cast<void>(l.release());
    return;
  }
  for (auto& l : programs_) {
    take_apart(l->foreseen);
    for (auto& [k, r] : l->others) take_apart(*r);
  }
}

program* segment_graphs::find_program(const gsched::program& p) const noexcept {
  for (const auto& l : programs_)
    if (l->host == &p) return program::of(p);
  return nullptr;
}

program_memory segment_graphs::memory_of(const gsched::program& p) const noexcept {
  for (const auto& l : programs_)
    if (l->host == &p) return l->memory;
  return {};
}

program_id segment_graphs::add(gsched::program& p) {
  const program* const made = program::of(p);
  if (made == nullptr)
    throw error(errc::bad_handle, p.name() + ": operations without a graph, expected the host() "
                                             "of a cuda::program");
  for (std::size_t i = 0; i < programs_.size(); ++i)
    if (programs_[i]->host == &p) return program_id{narrow(i)};

  auto l = std::make_unique<loaded>();
  l->host = &p;
  if (p.is_whole())
    p.align(run_to_completion, 1);
  else
    p.align(how_.grain, how_.levels);
  l->piece_at.assign(p.size() + 1, no_piece);
  for (std::size_t i = 0; i < p.pieces().size(); ++i) l->piece_at[p.pieces()[i]] = narrow(i);
  l->reporting_until.push_back(0);
  for (std::size_t i = 0; i < p.size(); ++i)
    l->reporting_until.push_back(l->reporting_until.back() +
                                 (made->instrumented(i, i + 1) > 0 ? 1u : 0u));
  programs_.reserve(programs_.size() + 1);

  const std::uint64_t before = free_memory();
  if (made->leaves()) l->leaving = make_leaving(*made);
  try {
    for (std::uint32_t place = 0; place < places_.size(); ++place)
      for (table& t : foresee(*l, place, l->memory)) l->foreseen.push_back(std::move(t));
  } catch (...) {
    take_apart(l->foreseen);
    for (std::uint32_t place = 0; place < places_.size(); ++place) forget_others(*l, place);
    if (l->leaving) ends_.give_back(&l->leaving->words);
    throw;
  }
  const std::uint64_t after = free_memory();
  l->memory.device_bytes += before > after ? before - after : 0;
  programs_.push_back(std::move(l));
  return program_id{narrow(programs_.size() - 1)};
}

std::uint32_t segment_graphs::add_place(const graph_place& p) {
  places_.reserve(places_.size() + 1);
  places_.push_back(p);
  const std::uint32_t place = narrow(places_.size() - 1);
  std::vector<std::vector<table>> made;
  std::vector<program_memory> costs(programs_.size());
  try {
    made.reserve(programs_.size());
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      programs_[i]->foreseen.reserve(2 * places_.size());
      const std::uint64_t before = free_memory();
      made.push_back(foresee(*programs_[i], place, costs[i]));
      const std::uint64_t after = free_memory();
      costs[i].device_bytes = before > after ? before - after : 0;
    }
  } catch (...) {
    for (auto& tables : made) take_apart(tables);
    for (auto& l : programs_) forget_others(*l, place);
    places_.pop_back();
    throw;
  }
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    for (table& t : made[i]) programs_[i]->foreseen.push_back(std::move(t));
    programs_[i]->memory.device_bytes += costs[i].device_bytes;
    programs_[i]->memory.graphs += costs[i].graphs;
    programs_[i]->memory.nodes += costs[i].nodes;
  }
  return place;
}

std::vector<segment_graphs::table> segment_graphs::foresee(loaded& l, std::uint32_t place,
                                                           program_memory& costs) {
  const auto pieces = l.host->pieces();
  const std::size_t n = pieces.size() - 1;
  std::vector<table> both(2);
  try {
    for (table& t : both) t.resize(n * how_.levels);
    if (l.host->longest_kernel() < places_[place].least_operation) return both;
    // Those that are never cut go to lanes that have the whole GPU, and keep it.
    if (l.host->is_whole() && (places_[place].gated || places_[place].own)) return both;
    for (unsigned level = 0; level < how_.levels; ++level) {
      const std::size_t run = std::size_t{1} << level;
      for (std::size_t i = 0; i < n; i += run) {
        if (level > 0 && i + run / 2 >= n) continue; // the level below reaches the end as well
        key k{narrow(pieces[i]), narrow(pieces[std::min(i + run, n)]), place, graph_kind::plain};
        const std::size_t at = i * how_.levels + level;
        both[0][at] = build(l, k, costs.nodes);
        costs.graphs += how_.copies;
        if (!how_.instrumented || l.reporting_until[k.first] == l.reporting_until[k.last]) continue;
        k.kind = graph_kind::reporting;
        both[1][at] = build(l, k, costs.nodes);
        costs.graphs += how_.copies;
      }
    }
    if (l.leaving && (places_[place].gated || places_[place].own)) foresee_tails(l, place, costs);
    if (how_.whole && find_in(both[0], l, 0, narrow(l.host->size())) == nullptr) {
      const key k{0, narrow(l.host->size()), place, graph_kind::plain};
      l.others[k] = build(l, k, costs.nodes);
      costs.graphs += how_.copies;
    }
  } catch (...) {
    take_apart(both);
    throw;
  }
  return both;
}

void segment_graphs::foresee_tails(loaded& l, std::uint32_t place, program_memory& costs) {
  const auto pieces = l.host->pieces();
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
    for (std::size_t first = pieces[i] + 1; first < pieces[i + 1]; ++first)
      for (const graph_kind kind : {graph_kind::plain, graph_kind::reporting}) {
        const key k{narrow(first), narrow(pieces[i + 1]), place, kind};
        const bool reports = l.reporting_until[k.first] < l.reporting_until[k.last];
        if (kind == graph_kind::reporting && (!how_.instrumented || !reports)) continue;
        l.others[k] = build(l, k, costs.nodes);
        costs.graphs += how_.copies;
      }
}

range_graphs* segment_graphs::find_in(const table& t, const loaded& l, std::uint32_t first,
                                      std::uint32_t last) const noexcept {
  const std::uint32_t i = l.piece_at[first];
  const std::uint32_t end = l.piece_at[last];
  if (i == no_piece || end == no_piece || end <= i) return nullptr;
  const auto level = static_cast<unsigned>(std::bit_width(end - i - 1));
  const std::uint32_t run = std::uint32_t{1} << level;
  if (level >= how_.levels || i % run != 0) return nullptr;
  if (end - i != run && last != l.host->size()) return nullptr;
  return t[i * how_.levels + level].get();
}

range_graphs* segment_graphs::find(program_id id, std::uint32_t first, std::uint32_t last,
                                   std::uint32_t place, graph_kind kind) noexcept {
  loaded& l = *programs_[index(id)];
  if (kind != graph_kind::direct) {
    const std::size_t which = 2 * std::size_t{place} + (kind == graph_kind::reporting ? 1 : 0);
    if (range_graphs* r = find_in(l.foreseen[which], l, first, last)) return r;
  }
  const auto at = l.others.find(key{first, last, place, kind});
  return at == l.others.end() ? nullptr : at->second.get();
}

range_graphs* segment_graphs::build_late(program_id id, std::uint32_t first, std::uint32_t last,
                                         std::uint32_t place, graph_kind kind) {
  loaded& l = *programs_[index(id)];
  const key k{first, last, place, kind};
  built& kept = l.others[k]; // room for it comes first
  try {
    kept = build(l, k, l.memory.nodes);
  } catch (...) {
    l.others.erase(k);
    throw;
  }
  if (kind != graph_kind::direct) l.memory.graphs += how_.copies;
  return kept.get();
}

void segment_graphs::prepare(program_id id, std::uint32_t first, std::uint32_t last,
                             std::optional<std::uint32_t> one) {
  for (std::uint32_t place = one.value_or(0); place < (one ? *one + 1 : places_.size()); ++place)
    if (find(id, first, last, place, graph_kind::plain) == nullptr)
      static_cast<void>(build_late(id, first, last, place, graph_kind::plain));
}

void segment_graphs::take_apart(range_graphs& r) noexcept {
  for (segment_graph& g : r.copies) {
    if (g.exec != nullptr) cu_.cuGraphExecDestroy(g.exec);
    g.exec = nullptr;
    if (g.ends != nullptr) ends_.give_back(g.ends);
    g.ends = nullptr;
    gates_ -= g.gates.size();
    g.gates.clear();
    for (const launch_slot s : g.slots) {
      nodes_[static_cast<std::size_t>(s)] = {};
      ring_.give_back(s);
    }
    g.slots.clear();
  }
}

void segment_graphs::take_apart(std::vector<table>& tables) noexcept {
  for (table& t : tables)
    for (built& r : t)
      if (r != nullptr) take_apart(*r);
  tables.clear();
}

void segment_graphs::forget_others(loaded& l, std::uint32_t place) noexcept {
  for (auto at = l.others.begin(); at != l.others.end();) {
    if (at->first.place != place) {
      ++at;
      continue;
    }
    take_apart(*at->second);
    at = l.others.erase(at);
  }
}

std::uint64_t segment_graphs::free_memory() const noexcept {
  std::size_t unused = 0;
  std::size_t all = 0;
  return cudaMemGetInfo(&unused, &all) == cudaSuccess ? unused : 0;
}

} // namespace gsched::cuda
