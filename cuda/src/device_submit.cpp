// SPDX-License-Identifier: Apache-2.0
#include "device_state.hpp"

#include <algorithm>
#include <cassert>

namespace gsched::cuda {

namespace {

cudaMemcpyKind kind_of(copy_direction d) noexcept {
  switch (d) {
  case copy_direction::host_to_device: return cudaMemcpyHostToDevice;
  case copy_direction::device_to_host: return cudaMemcpyDeviceToHost;
  case copy_direction::host_to_host: return cudaMemcpyHostToHost;
  case copy_direction::device_to_device: break; // and yet an end of it is in host memory
  }
  return cudaMemcpyDefault;
}

/// What a loose copy is, by its pointers: directions are only what a caller says.
struct copy_facts {
  bool within_gpu = false; ///< both ends are in memory of GPUs, so that a kernel copies
  /// The driver may make its caller wait until the stream has come so far: copies to memory that is
  /// not pinned, and from it where they are too big for the driver's own buffer.
  bool may_block = false;
};

copy_facts facts_of(const operation& op) noexcept {
  constexpr std::uint64_t driver_buffer = 1 << 16;
  const auto& c = static_cast<const copy_action&>(*static_cast<const action*>(op.handle));
  const auto type_of = [](const void* p) {
    cudaPointerAttributes a{};
    if (cudaPointerGetAttributes(&a, p) == cudaSuccess) return a.type;
    static_cast<void>(cudaGetLastError());
    return cudaMemoryTypeUnregistered;
  };
  const auto on_gpu = [](cudaMemoryType t) {
    return t == cudaMemoryTypeDevice || t == cudaMemoryTypeManaged;
  };
  const cudaMemoryType to = type_of(c.to);
  const cudaMemoryType from = type_of(c.from);
  if (on_gpu(to) && on_gpu(from)) return {true, false};
  if (!on_gpu(to) && !on_gpu(from)) return {false, true};
  return {false, to == cudaMemoryTypeUnregistered ||
                     (from == cudaMemoryTypeUnregistered && op.bytes.count() > driver_buffer)};
}

/// Of the first so many operations of a loose segment it is kept what they are.
constexpr std::size_t kept_facts = 64;

} // namespace

CUresult device::state::launch_loose(const flight& f, std::size_t i, device_lane& l) noexcept {
  const operation& op = *f.what.operations[i];
  const action& a = *static_cast<const action*>(op.handle);
  const auto by_graph = [&](auto launch) {
    const std::uint64_t before = l.graphs->made_anew();
    const CUresult r = launch();
    statistics.built_late += l.graphs->made_anew() - before;
    return r;
  };
  if (op.kind == operation_kind::memset) {
    const auto& v = static_cast<const set_action&>(a);
    return by_graph([&] { return l.graphs->set(v.to, v.value, op.bytes.count(), l.stream); });
  }
  const auto& c = static_cast<const copy_action&>(a);
  const bool within = i < kept_facts ? (f.within_gpu >> i & 1) != 0 : facts_of(op).within_gpu;
  if (within)
    return by_graph([&] { return l.graphs->copy(c.to, c.from, op.bytes.count(), l.stream); });
  const cudaError_t e =
      cudaMemcpyAsync(c.to, c.from, op.bytes.count(), kind_of(op.direction), l.stream);
  if (e != cudaSuccess) static_cast<void>(cudaGetLastError()); // told by its code
  return static_cast<CUresult>(e);
}

std::error_code device::state::submit(const segment& s) noexcept {
  if (broken()) return failed;
  if (index(s.lane) >= lanes.size() || s.operations.empty()) return errc::bad_option;
  device_lane& l = lanes[index(s.lane)];
  flight* const f = flights.try_take();
  if (f == nullptr) return errc::too_small;
  f->what = s;
  f->at = flight::stage::held;
  f->alone = f->words_lost = f->needs_sms = f->stuck = false;
  f->how = flight::outcome::whole;
  f->leaves = nullptr;
  f->words = f->words_read = f->words_checked = 0;
  f->graphs = nullptr;
  f->graph = nullptr;
  f->end_word = nullptr;
  f->end_event = nullptr;
  f->within_gpu = 0;
  f->expected = expected_of(s);
  f->last_word = f->seen_ended = f->freed = time_point{};

  const on_gpu here(facts.ordinal);
  std::error_code e = s.program == no_program ? call_driver([&] { return check_loose(s, *f); })
                                              : find_graphs(s, l, *f);
  if (!e) {
    // Those that wait for room let nobody pass who needs some, or a big one would wait for ever.
    const bool waits = l.held > 0 || (f->words > 0 && !held.empty());
    const bool lane_lets = !waits && may_start(*f, l);
    if (!lane_lets || !try_reserve_words(*f)) {
      held.push_back(*f);
      ++l.held;
      ++statistics.held;
      l.flights.push_back(*f);
      if (lane_lets && !l.yields) lacks_words();
      return {};
    }
    e = start(*f, l);
  }
  if (e) {
    flights.give_back(*f);
    return e;
  }
  l.flights.push_back(*f);
  return {};
}

std::error_code device::state::check_loose(const segment& s, flight& f) const noexcept {
  for (std::size_t i = 0; i < s.operations.size(); ++i) {
    const operation* const op = s.operations[i];
    if (!op->is_device_work()) return errc::bad_option;
    const auto* a = static_cast<const action*>(op->handle);
    if (a == nullptr) return errc::bad_handle;
    const bool fits = (op->kind == operation_kind::memcpy && a->what == action::kind::copy) ||
                      (op->kind == operation_kind::memset && a->what == action::kind::set);
    if (!fits) return errc::bad_handle;
    if (op->kind != operation_kind::memcpy) continue;
    const copy_facts what = facts_of(*op);
    f.alone = f.alone || what.may_block;
    if (what.within_gpu && i < kept_facts) f.within_gpu |= std::uint64_t{1} << i;
  }
  return {};
}

std::error_code device::state::find_graphs(const segment& s, const device_lane& l, flight& f) {
  const std::size_t count = s.operations.size();
  if (!graphs->has(s.program, s.first, count)) return errc::bad_option;
  if (graphs->loaded(s.program).lost) return code_of(cudaErrorLaunchTimeout);
  f.leaves = graphs->leaving_of(s.program);
  if (f.leaves != nullptr) f.what.how = submission::graph; // what is left is known of graphs alone
  const auto last = static_cast<std::uint32_t>(s.first + count);
  const bool reports = s.instrumented && graphs->reports(s.program, s.first, last);
  const bool by_graph = f.what.how == submission::graph;
  if (!by_graph && !reports) { // nothing to prepare
    f.needs_sms = needs_more_than_left(f, l, yielding_lanes);
    return {};
  }
  const graph_kind kind = !reports   ? graph_kind::plain
                          : by_graph ? graph_kind::reporting
                                     : graph_kind::direct;
  const std::uint32_t place = kind == graph_kind::direct ? 0 : l.place;
  f.graphs = graphs->find(s.program, s.first, last, place, kind);
  if (f.graphs == nullptr) {
    if (cuda::hangs(facts.ordinal)) return code_of(cudaErrorLaunchTimeout);
    try {
      const short_leases leases(*this);
      f.graphs = graphs->build_late(s.program, s.first, last, place, kind);
      ++statistics.built_late;
    } catch (const refused_graph& e) {
      if (const std::error_code lasting = lasting_error(l.stream)) end_with(lasting);
      return e.why;
    } catch (const error& e) {
      if (const std::error_code lasting = lasting_error(l.stream)) end_with(lasting);
      return e.code();
    } catch (...) {
      return make_error_code(std::errc::not_enough_memory);
    }
  }
  f.words = f.graphs->words;
  f.needs_sms = needs_more_than_left(f, l, yielding_lanes);
  return f.words > ring->reader().capacity() ? make_error_code(errc::too_small) : std::error_code{};
}

bool device::state::may_start(const flight& f, const device_lane& l) noexcept {
  if (l.yields) return false;
  // What is launched behind a graph that stands keeps its hardware queue. With all queues taken so,
  // work of other lanes would not be fetched, nor would that end for which the graph stands.
  if (l.gated > 0) return false;
  // Behind one that leaves, only what leaves as well does not start too early; and while a flag is
  // up, nothing stands at a gate.
  if (f.leaves == nullptr && l.leaving > 0) return false;
  if (f.leaves != nullptr && (l.gated > 0 || !f.leaves->is_down())) return false;
  // A host that waits for one lane serves none, and hears of no kernel that hangs.
  if (f.alone && l.oldest != nullptr) return false;
  if (f.graphs == nullptr) return true;
  const segment_graph* const g = f.graphs->best();
  if (g == nullptr) return false;
  // The slots of direct launches belong to one launch at a time; graphs keep to that by themselves.
  const bool one_launch = f.leaves != nullptr || f.what.how == submission::launches;
  return !one_launch || g->in_flight == 0;
}

bool device::state::try_reserve_words(const flight& f) noexcept {
  return f.words == 0 || ring->flow().try_reserve(f.words);
}

std::error_code device::state::hand_over(flight& f, device_lane& l, bool& partly) noexcept {
  const segment& s = f.what;
  CUresult r = CUDA_SUCCESS;
  if (s.program == no_program) {
    for (std::size_t i = 0; i < s.operations.size(); ++i) {
      r = call_driver([&] { return launch_loose(f, i, l); });
      if (r == CUDA_SUCCESS) {
        partly = true;
        continue;
      }
      if (i == 0 || lasting_error(l.stream)) return code_of(r);
      // The rest is left out. The marker says when what was launched has ended, as usual.
      f.how = flight::outcome::wrong;
      try {
        why_failed = describe(code_of(r), &f, true);
      } catch (...) {
        why_failed.clear(); // no memory for the words
      }
      break;
    }
  } else if (s.how == submission::launches) {
    const program* const p = program::of(graphs->host(s.program));
    if (p == nullptr) return errc::bad_handle;
    const std::span<const report> to =
        f.graph == nullptr ? std::span<const report>{} : f.graph->reports;
    r = call_driver(
        [&] { return p->launch_each(s.first, s.first + s.operations.size(), l.stream, to); });
    partly = r == CUDA_SUCCESS || s.operations.size() > 1; // how far it came is not known
    if (r != CUDA_SUCCESS) return code_of(r);
    for (const operation* op : s.operations)
      statistics.direct_launches += op->kind == operation_kind::kernel ? 1u : 0u;
  } else {
    // Its last node tells its end. Where another launch of it is under way, that could be the
    // other's that was seen: then the lane's marker tells. Where no node does, an event does, which
    // is this launch's alone; or the marker, if all events are in use.
    const bool alone = f.graph->ends != nullptr && f.graph->in_flight == 0;
    if (alone) {
      f.graph->let_pass(); // an earlier launch may have passed its gates when its lane yielded
      f.end_word = f.graph->ends->seen;
      f.end_value = 1;
      // relaxed: the launch orders it before what the GPU stores, and no earlier store is to come.
      sync::atomic_ref<std::uint64_t>(*f.end_word).store(0, sync::relaxed);
    }
    r = call_driver([&] { return cu.cuGraphLaunch(f.graph->exec, l.stream); });
    if (r != CUDA_SUCCESS) return code_of(r);
    ++statistics.graph_launches;
    if (alone) return {};
    partly = true;
    if (f.graph->ends == nullptr && !end_events.empty()) {
      r = call_driver([&] { return cu.cuEventRecord(end_events.back(), l.stream); });
      if (r != CUDA_SUCCESS) return code_of(r);
      f.end_event = end_events.back();
      end_events.pop_back();
      return {};
    }
  }
  r = call_driver([&] { return l.graphs->mark(l.stream); });
  if (r != CUDA_SUCCESS) return code_of(r);
  f.end_word = l.graphs->ends().seen;
  f.end_value = ++l.graphs->ends().launched;
  return {};
}

std::error_code device::state::start(flight& f, device_lane& l) noexcept {
  f.graph = f.graphs == nullptr ? nullptr : f.graphs->best();
  if (f.needs_sms && needs_more_than_left(f, l, standing)) let_go();
  bool partly = false;
  std::error_code e = f.leaves == nullptr ? std::error_code{} : begin_anew(*f.leaves, f.what.first);
  if (!e) e = hand_over(f, l, partly);
  if (e) {
    if (f.words > 0) ring->flow().cancel(f.words);
    f.graph = nullptr;
    if (broken()) return e;
    // A kernel that failed earlier makes every later call fail, and what was launched in part can
    // neither be taken back nor be told from the rest.
    const std::error_code lasting = lasting_error(l.stream);
    if (lasting || partly) end_with(lasting ? lasting : e, partly ? &f : nullptr);
    return e;
  }
  f.at = flight::stage::started;
  if (l.oldest == nullptr) {
    l.oldest = &f;
    l.stalled = {};
  }
  f.started = now();
  activity.store(activity.load(sync::relaxed) + 1, sync::relaxed); // unordered: the only writer
  if (f.has_gates()) ++l.gated;
  if (f.needs_sms) ++needing;
  if (f.leaves != nullptr) {
    ++l.leaving;
    ++f.leaves->in_flight;
  }
  if (f.graph == nullptr) return {};
  ++f.graph->in_flight;
  if (f.words == 0) return {};
  f.replay = graphs->count_launch(*f.graph);
  f.graph->flights.push_back(f);
  ++reporting;
  return {};
}

duration device::state::expected_of(const segment& s) const noexcept {
  constexpr std::uint64_t bytes_per_ns = 10; // within or to the GPU: seldom less
  if (s.program != no_program && graphs->has(s.program, s.first, s.operations.size()))
    return graphs->host(s.program).expected(s.first, s.first + s.operations.size());
  duration sum{};
  for (const operation* const op : s.operations)
    sum += std::max(op->expected,
                    duration{static_cast<duration::rep>(op->bytes.count() / bytes_per_ns)});
  return sum;
}

void device::state::lacks_words() noexcept {
  words_wanted = true;
  const bool some = std::any_of(lanes.begin(), lanes.end(),
                                [&](const device_lane& l) { return l.holds && keeps_words(l); });
  if (some) let_go();
}

bool device::state::keeps_words(const device_lane& l) noexcept {
  return std::any_of(l.flights.begin(), l.flights.end(),
                     [](const flight& f) { return f.at == flight::stage::started && f.words > 0; });
}

void device::state::start_held() noexcept {
  const on_gpu here(facts.ordinal);
  for (device_lane& l : lanes) l.waits = false;
  bool words_wait = false;
  words_wanted = false;
  for (auto at = held.begin(); at != held.end() && !broken();) {
    flight& f = *at++;
    device_lane& l = lanes[index(f.what.lane)];
    // Its program hangs elsewhere, and is refused from then on.
    if (f.what.program != no_program && graphs->loaded(f.what.program).lost) {
      held.erase(held.iterator_to(f));
      --l.held;
      f.at = flight::stage::refused;
      continue;
    }
    if (l.waits || !may_start(f, l)) {
      l.waits = true;
      continue;
    }
    if ((f.words > 0 && words_wait) || !try_reserve_words(f)) {
      l.waits = words_wait = true;
      if (!l.yields) lacks_words();
      continue;
    }
    held.erase(held.iterator_to(f));
    --l.held;
    if (start(f, l)) f.at = flight::stage::refused;
  }
}

std::error_code device::state::record(CUevent event) noexcept {
  const on_gpu here(facts.ordinal);
  return code_of(call_driver([&] { return cu.cuEventRecord(event, events); }));
}

std::size_t device::state::evict(lane_id lane) noexcept {
  if (index(lane) >= lanes.size() || broken()) return 0;
  device_lane& l = lanes[index(lane)];
  std::size_t n = 0;
  for (; l.held > 0; ++n) drop(l.flights.back(), l);
  return n;
}

} // namespace gsched::cuda
