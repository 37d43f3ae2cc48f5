// SPDX-License-Identifier: Apache-2.0
#include "segment_graphs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/beside_captures.hpp>
#include <gsched/cuda/error.hpp>

#include <bit>
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
  if (left_ || l->lost) {
    static_cast<void>(l.release()); // the GPU may still use it
    return;
  }
  const beside_captures apart;
  for (table& t : l->foreseen)
    for (built& r : t)
      if (r != nullptr) take_apart(*r);
  for (auto& [k, r] : l->others) take_apart(*r);
  if (l->leaving) ends_.give_back(&l->leaving->words);
  l.reset(); // frees memory of the GPU
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
  if (left_ || l->lost) return l; // the GPU may still use them
  // What destroys the graphs, maybe on another thread, finds no slots.
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
  built& kept = l.others[k]; // room for it comes first
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

} // namespace gsched::cuda
