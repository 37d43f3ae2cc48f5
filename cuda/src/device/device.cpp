// SPDX-License-Identifier: Apache-2.0
#include "device/device_state.hpp"

#include <gsched/core/error.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gsched::cuda {

namespace {

/// The pause after building a graph while work runs. The driver launches nothing while it builds a
/// graph; after a long build, the pause keeps the share of delayed launches small.
duration pause_after(duration building) noexcept {
  constexpr duration felt = std::chrono::microseconds{150};
  constexpr duration most = std::chrono::milliseconds{200};
  return std::min(building < felt ? 3 * building : 200 * building, most);
}

const device_options& checked(const device_options& o) {
  const auto need = [](bool good, const char* what) {
    if (!good) throw error(errc::bad_option, what);
  };
  need(o.max_segments >= 1 && o.max_segments <= (std::size_t{1} << 20),
       "max_segments: expected 1 to 2^20");
  need(o.group_blocks <= max_group_blocks, "group_blocks: expected 1 to 16, or 0 for automatic");
  need(o.grain > duration::zero(), "grain: expected more than 0");
  need(o.levels >= 1 && o.levels <= 16, "levels: expected 1 to 16");
  need(o.copies >= 1 && o.copies <= 64, "copies: expected 1 to 64");
  need(o.gate_every >= 1 && o.gate_every <= 64, "gate_every: expected 1 to 64");
  need(o.watchdog >= duration::zero(), "watchdog: expected 0 or more");
  need(o.lease >= duration::zero() && o.lease <= std::chrono::seconds{16},
       "lease: expected 0 to 16 s");
  return o;
}

} // namespace

device::state::state(const device_options& o)
    : options(checked(o)), facts(find_gpu(o.gpu)), cu(driver()), flights(o.max_segments) {
  lanes.reserve(max_lanes);
  limits.sm = facts.sm;
  limits.sms = facts.sms;
  limits.lanes = max_lanes;
  lease = current_lease = options.lease;
  const on_gpu here(facts.ordinal);
  expect_no_hang(facts.ordinal, "device");
  ring = std::make_unique<notification_ring>(facts.ordinal, options.ring_slots);
  check(cu.cuCtxGetCurrent(&primary), "CUDA context");
  all_end_events.reserve(most_end_events);
  end_events.reserve(most_end_events);
  for (std::size_t i = 0; i < most_end_events; ++i)
    end_events.push_back(
        all_end_events.emplace_back(make_event("end of a segment's graph", false)).get());
  ends = std::make_unique<end_words>();
  graphs = std::make_unique<segment_graphs>(cu, *ring, *ends, facts.sm, options);
  int least = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &most_urgent), "stream priorities");
  const bool few = options.few_streams;
  stream_owner for_uploads = cuda::make_stream("stream for set-up", few ? most_urgent : 0);
  stream_owner for_flags = few ? nullptr : cuda::make_stream("stream for flags", most_urgent);
  // Created now, because making a stream may wait for all work on the GPU.
  stream_owner for_events = few ? nullptr : cuda::make_stream("stream for events", most_urgent);
  device_memory<std::uint64_t> memory = make_device_memory<std::uint64_t>(
      lane_graphs::room_bytes / sizeof(std::uint64_t), "memory of the device");
  room = reinterpret_cast<CUdeviceptr>(memory.get());
  pulse = std::make_unique<lane_graphs>(facts.ordinal, *ends, primary, primary, room,
                                        for_uploads.get());
  constexpr std::size_t stream = 1;
  spares = std::make_unique<spare_executables>(cu, *ends, primary, max_abandoned,
                                               stream + lane_graphs::executables);
  check(cudaStreamSynchronize(for_uploads.get()), "graphs of the device");
  static_cast<void>(memory.release());
  set_up = for_uploads.release();
  urgent = few ? set_up : for_flags.release();
  events = few ? set_up : for_events.release();
}

device::state::~state() {
  const on_gpu here(facts.ordinal);
  const duration most =
      options.watchdog > duration::zero() ? options.watchdog : std::chrono::seconds{10};
  if (broken() || !drain(most) || lost) {
    // Leak everything: the GPU may still write to it, and freeing would wait for a stuck GPU.
    for (device_lane& l : lanes) {
      if (l.own) l.own->abandon();
      l.graphs->abandon();
      while (!l.flights.empty()) drop(l.flights.front(), l);
    }
    pulse->abandon();
    for (shared_place& s : shared)
      if (s.sms) s.sms->abandon();
    graphs->abandon();
    graphs.reset();
    spares.reset();
    ends->abandon();
    for (event_owner& e : all_end_events) static_cast<void>(e.release());
    static_cast<void>(ring.release());
    return;
  }
  graphs.reset();
  for (device_lane& l : lanes) {
    l.graphs.reset();
    cu.cuStreamDestroy(l.stream);
  }
  for (const CUstream s : uploads) cu.cuStreamDestroy(s);
  lanes.clear();
  shared.clear();
  pulse.reset();
  spares.reset();
  cudaStreamSynchronize(urgent);
  cudaStreamDestroy(set_up);
  if (urgent != set_up) cudaStreamDestroy(urgent);
  if (events != set_up) cudaStreamDestroy(events);
  ring.reset();
  ends.reset();
  cudaFree(reinterpret_cast<void*>(room));
}

bool device::state::drain(duration most) noexcept {
  for (std::uint32_t i = 0; i < lanes.size(); ++i) static_cast<void>(evict(lane_id{i}));
  for (std::uint32_t i = 0; i < lanes.size(); ++i) resume(lane_id{i});
  const time_point until = saturating_add(now(), most);
  std::array<device_event, 64> out;
  while (flights.in_use() > 0 && !broken() && now() < until) {
    wait(until);
    while (poll(out) > 0) {
    }
  }
  return flights.in_use() == 0 && !broken();
}

void device::state::expect_works() const {
  if (broken()) throw error(errc::device_failed, failure.value_or(failed.message()));
}

void device::state::expect_can_make(const std::string& what) const {
  expect_works();
  expect_no_hang(facts.ordinal, what);
}

lane_id device::state::open_lane(const lane_options& how, std::span<const std::uint32_t> groups) {
  expect_can_make("lane");
  static_cast<void>(how.checked());
  const on_gpu here(facts.ordinal);
  if (lanes.size() >= max_lanes)
    throw error(errc::too_small, "GPU " + std::to_string(facts.ordinal) + ": lane " +
                                     std::to_string(lanes.size()) + ", expected at most " +
                                     std::to_string(max_lanes));
  // CUDA's most urgent priority is the lowest number; 0 is the least urgent.
  const int priority = std::clamp(-std::max(how.priority, 0), most_urgent, 0);
  const auto id = static_cast<std::uint32_t>(lanes.size());
  device_lane& l = lanes.emplace_back();
  l.priority = priority;
  const std::size_t uploads_before = uploads.size();
  try {
    shared_place* const common = find_shared(how, priority == 0, groups);
    if (common != nullptr && common->sms != nullptr)
      l.own = common->sms;
    else if (!groups.empty())
      l.own = std::make_shared<partition>(facts.ordinal, groups);
    else if (how.sms.count() > 0)
      l.own = std::make_shared<partition>(facts.ordinal, how.sms);
    CUstream upload = set_up;
    CUcontext place = primary;
    if (common != nullptr && common->upload != nullptr) {
      upload = common->upload;
      place = l.own->context();
    } else if (l.own) {
      uploads.reserve(uploads.size() + 1);
      // Uploads do not use the lane's stream: behind a held graph they would occupy its hardware
      // queue.
      uploads.push_back(upload = l.own->make_stream(0));
      place = l.own->context();
    }
    make_stream(l);
    l.graphs = std::make_unique<lane_graphs>(facts.ordinal, *ends, primary, place, room, upload);
    if (common != nullptr && common->place) {
      l.place = *common->place;
    } else {
      l.place =
          graphs->add_place({upload, place, l.own ? l.own->sms() : limits.sms, l.own != nullptr,
                             priority == 0, how.yields, how.least_operation});
    }
    check(cudaStreamSynchronize(upload), "graphs of a new lane");
    if (common != nullptr) {
      common->place = l.place;
      if (l.own) common->upload = upload;
    }
    statistics.gates = graphs->gates();
  } catch (...) {
    l.graphs.reset();
    if (l.stream != nullptr) cu.cuStreamDestroy(l.stream);
    for (; uploads.size() > uploads_before; uploads.pop_back()) cu.cuStreamDestroy(uploads.back());
    lanes.pop_back();
    throw;
  }
  yielding_lanes += how.yields ? 1u : 0u;
  return lane_id{id};
}

device::state::shared_place* device::state::find_shared(const lane_options& how,
                                                        bool node_priorities,
                                                        std::span<const std::uint32_t> groups) {
  if (how.sms.count() > 0 || !groups.empty()) return nullptr;
  for (shared_place& s : shared)
    if (s.reserved == how.reserved && s.node_priorities == node_priorities &&
        s.yields == how.yields && s.least_operation == how.least_operation)
      return &s;
  shared_place fresh{how.reserved, node_priorities, how.yields, how.least_operation,
                     nullptr,      nullptr,         {}};
  if (how.reserved.count() > 0)
    fresh.sms = std::make_shared<partition>(partition::all_but(facts.ordinal, how.reserved));
  return &shared.emplace_back(std::move(fresh));
}

void device::state::make_stream(device_lane& l) {
  l.stream = l.own ? l.own->make_stream(l.priority)
                   : cuda::make_stream("stream of a lane", l.priority).release();
}

std::unique_ptr<loaded_program> device::state::build(gsched::program& p) {
  const current_gpu here(facts.ordinal);
  expect_no_hang(facts.ordinal, p.name());
  std::uint64_t seen = activity.load(sync::relaxed); // unordered: only a change matters
  return graphs->build(p, [&](std::chrono::nanoseconds took) {
    const std::uint64_t now = activity.load(sync::relaxed);
    if (std::exchange(seen, now) != now) std::this_thread::sleep_for(pause_after(took));
  });
}

void device::state::load(gsched::program& p, std::unique_ptr<loaded_program> built) {
  expect_can_make(p.name());
  const on_gpu here(facts.ordinal);
  if (const std::optional<program_id> known = graphs->find_program(p)) {
    graphs->destroy(std::move(built));
    return p.set_id(*known);
  }
  if (built == nullptr) built = graphs->build(p);
  const program_id id = graphs->add(std::move(built));
  statistics.gates = graphs->gates();
  p.set_id(id);
}

std::unique_ptr<loaded_program> device::state::unload(gsched::program& p) {
  const std::optional<program_id> id = graphs->find_program(p);
  if (!id) throw error(errc::bad_handle, p.name() + ": not loaded, expected it to be");
  for (const device_lane& l : lanes)
    for (const device_segment& f : l.flights)
      if (f.what.program == *id)
        throw error(errc::bad_option,
                    p.name() + ": a segment of it is in flight, expected none when it is unloaded");
  std::unique_ptr<loaded_program> gone = graphs->remove(*id);
  statistics.gates = graphs->gates();
  p.set_id(no_program);
  return gone;
}

void device::state::prepare(const gsched::program& p, std::size_t first, std::size_t last,
                            std::optional<lane_id> lane) {
  expect_can_make(p.name());
  if (lane && index(*lane) >= lanes.size())
    throw error(errc::bad_handle, p.name() + ": lane " + std::to_string(index(*lane)) +
                                      ", expected one that is open");
  if (!graphs->find_program(p))
    throw error(errc::bad_handle, p.name() + ": not loaded, expected it to be");
  if (first >= last || last > p.size())
    throw error(errc::bad_option, p.name() + ": operations " + std::to_string(first) + " to " +
                                      std::to_string(last) + ", expected some of its " +
                                      std::to_string(p.size()));
  const on_gpu here(facts.ordinal);
  std::optional<std::uint32_t> place;
  if (lane) place = lanes[index(*lane)].place;
  graphs->prepare(p.id(), static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last),
                  place);
  statistics.gates = graphs->gates();
  check(cudaStreamSynchronize(set_up), "segment graphs");
}

/// The graphs of a program, destroyed with this object.
struct program_graphs::state {
  state(segment_graphs& of, std::unique_ptr<loaded_program> l) noexcept
      : graphs(of), what(std::move(l)) {}
  ~state() { graphs.destroy(std::move(what)); }
  segment_graphs& graphs;
  std::unique_ptr<loaded_program> what;
};
program_graphs::program_graphs() noexcept = default;
program_graphs::program_graphs(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
program_graphs::~program_graphs() = default;
program_graphs::program_graphs(program_graphs&&) noexcept = default;
program_graphs& program_graphs::operator=(program_graphs&&) noexcept = default;

device::device(const device_options& o) : state_(std::make_unique<state>(o)) {}
device::~device() = default;
device::device(device&&) noexcept = default;
device& device::operator=(device&&) noexcept = default;

lane_id device::open_lane(const lane_options& how) { return state_->open_lane(how, {}); }
lane_id device::open_lane(const lane_options& how, std::span<const std::uint32_t> groups) {
  if (groups.empty()) throw error(errc::bad_option, "lane of no groups, expected one");
  return state_->open_lane(how, groups);
}
void device::load(gsched::program& p) { state_->load(p, nullptr); }
void device::load(gsched::program& p, program_graphs built) {
  state_->load(p, built.state_ == nullptr ? nullptr : std::move(built.state_->what));
}
program_graphs device::build(gsched::program& p) {
  return program_graphs(std::make_unique<program_graphs::state>(*state_->graphs, state_->build(p)));
}
program_graphs device::unload(gsched::program& p) {
  return program_graphs(
      std::make_unique<program_graphs::state>(*state_->graphs, state_->unload(p)));
}
bool device::hangs(program_id p) const noexcept { return state_->graphs->loaded(p).lost; }
bool device::hangs() const noexcept { return cuda::hangs(state_->facts.ordinal); }
void device::prepare(const gsched::program& p, std::size_t first, std::size_t last) {
  state_->prepare(p, first, last);
}
void device::prepare(const gsched::program& p, lane_id lane) {
  state_->prepare(p, 0, p.size(), lane);
}
std::error_code device::submit(const segment& s) noexcept { return state_->submit(s); }
std::size_t device::poll(std::span<device_event> out) noexcept { return state_->poll(out); }
std::size_t device::evict(lane_id lane) noexcept { return state_->evict(lane); }
void device::yield(lane_id lane) noexcept { state_->yield(lane); }
void device::resume(lane_id lane) noexcept { state_->resume(lane); }
void device::wait(time_point t) noexcept { state_->wait(t); }
std::error_code device::record(CUevent event) noexcept { return state_->record(event); }
time_point device::now() const noexcept { return state_->now(); }
const device_limits& device::limits() const noexcept { return state_->limits; }
const gpu& device::facts() const noexcept { return state_->facts; }
const device_statistics& device::statistics() const noexcept { return state_->statistics; }
program_memory device::memory_of(const gsched::program& p) const {
  return state_->graphs->memory_of(p);
}
const std::optional<std::string>& device::failure() const noexcept { return state_->failure; }
const std::string& device::why_failed() const noexcept { return state_->why_failed; }
CUstream device::stream_of(lane_id lane) const noexcept {
  return state_->lanes[index(lane)].stream;
}
sm_count device::sms_of(lane_id lane) const noexcept {
  const device_lane& l = state_->lanes[index(lane)];
  return l.own ? l.own->sms() : state_->limits.sms;
}

namespace {

cudaMemcpyKind kind_of(copy_direction d) noexcept {
  switch (d) {
  case copy_direction::host_to_device: return cudaMemcpyHostToDevice;
  case copy_direction::device_to_host: return cudaMemcpyDeviceToHost;
  case copy_direction::host_to_host: return cudaMemcpyHostToHost;
  case copy_direction::device_to_device: break; // one end is in host memory nevertheless
  }
  return cudaMemcpyDefault;
}

/// The kind of a standalone copy, by its pointers; the caller's direction is only a hint.
struct copy_facts {
  bool within_gpu = false; ///< both ends are in GPU memory, so a kernel can copy
  /// The driver may block the caller until the stream has reached the copy: for copies to memory
  /// that is not pinned, and from such memory if they exceed the driver's buffer.
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

/// copy_facts are kept for this many first operations of a standalone segment.
constexpr std::size_t kept_facts = 64;

} // namespace

CUresult device::state::launch_standalone(const device_segment& f, std::size_t i,
                                          device_lane& l) noexcept {
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
  if (e != cudaSuccess) static_cast<void>(cudaGetLastError()); // reported by its code
  return static_cast<CUresult>(e);
}

std::error_code device::state::submit(const segment& s) noexcept {
  if (broken()) return failed;
  if (index(s.lane) >= lanes.size() || s.operations.empty()) return errc::bad_option;
  device_lane& l = lanes[index(s.lane)];
  device_segment* const f = flights.try_take();
  if (f == nullptr) return errc::too_small;
  f->what = s;
  f->at = device_segment::stage::held;
  f->alone = f->words_lost = f->needs_sms = f->stuck = false;
  f->how = device_segment::outcome::whole;
  f->preemptible = nullptr;
  f->words = f->words_read = f->words_checked = 0;
  f->graphs = nullptr;
  f->graph = nullptr;
  f->end_word = nullptr;
  f->end_event = nullptr;
  f->within_gpu = 0;
  f->expected = expected_of(s);
  f->last_word = f->seen_ended = f->freed = time_point{};

  const on_gpu here(facts.ordinal);
  std::error_code e = s.program == no_program ? call_driver([&] { return check_standalone(s, *f); })
                                              : find_graphs(s, l, *f);
  if (!e) {
    // Segments that wait for ring space block later ones that need some, or large ones would
    // starve.
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

std::error_code device::state::check_standalone(const segment& s,
                                                device_segment& f) const noexcept {
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

std::error_code device::state::find_graphs(const segment& s, const device_lane& l,
                                           device_segment& f) {
  const std::size_t count = s.operations.size();
  if (!graphs->has(s.program, s.first, count)) return errc::bad_option;
  if (graphs->loaded(s.program).lost) return code_of(cudaErrorLaunchTimeout);
  f.preemptible = graphs->preemptible_of(s.program);
  if (f.preemptible != nullptr)
    f.what.how = submission::graph; // only graphs track remaining blocks
  const auto last = static_cast<std::uint32_t>(s.first + count);
  const bool reports = s.instrumented && graphs->reports(s.program, s.first, last);
  const bool by_graph = f.what.how == submission::graph;
  if (!by_graph && !reports) { // launched directly without reports
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

bool device::state::may_start(const device_segment& f, const device_lane& l) noexcept {
  if (l.yields) return false;
  // Work launched behind a held graph occupies a hardware queue. With all queues occupied, the work
  // of other lanes would not start, nor the work for which the graph is held.
  if (l.gated > 0) return false;
  // Behind a preemptible segment, only preemptible work does not start too early. No graph with
  // gates is in flight while a flag is raised.
  if (f.preemptible == nullptr && l.preemptible > 0) return false;
  if (f.preemptible != nullptr && (l.gated > 0 || !f.preemptible->is_down())) return false;
  // A host that waits for one lane serves no other and detects no hang.
  if (f.alone && l.oldest != nullptr) return false;
  if (f.graphs == nullptr) return true;
  const segment_graph* const g = f.graphs->best();
  if (g == nullptr) return false;
  // A launch slot of direct launches serves one launch at a time; CUDA ensures this for graphs.
  const bool one_launch = f.preemptible != nullptr || f.what.how == submission::launches;
  return !one_launch || g->in_flight == 0;
}

bool device::state::try_reserve_words(const device_segment& f) noexcept {
  return f.words == 0 || ring->flow().try_reserve(f.words);
}

std::error_code device::state::hand_over(device_segment& f, device_lane& l, bool& partly) noexcept {
  const segment& s = f.what;
  CUresult r = CUDA_SUCCESS;
  if (s.program == no_program) {
    for (std::size_t i = 0; i < s.operations.size(); ++i) {
      r = call_driver([&] { return launch_standalone(f, i, l); });
      if (r == CUDA_SUCCESS) {
        partly = true;
        continue;
      }
      if (i == 0 || lasting_error(l.stream)) return code_of(r);
      // Skip the rest. The marker reports the end of the launched operations as usual.
      f.how = device_segment::outcome::wrong;
      try {
        why_failed = describe(code_of(r), &f, true);
      } catch (...) {
        why_failed.clear(); // out of memory
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
    partly = r == CUDA_SUCCESS || s.operations.size() > 1; // unknown how many were launched
    if (r != CUDA_SUCCESS) return code_of(r);
    for (const operation* op : s.operations)
      statistics.direct_launches += op->kind == operation_kind::kernel ? 1u : 0u;
  } else {
    // The last node of the graph sets its end word. If another launch of the graph is in flight,
    // the word could be that launch's; then the lane's marker reports the end. A graph without an
    // end word uses an event, or the marker if all events are in use.
    const bool alone = f.graph->ends != nullptr && f.graph->in_flight == 0;
    if (alone) {
      f.graph->let_pass(); // an earlier launch may have passed its gates while its lane yielded
      f.end_word = f.graph->ends->seen;
      f.end_value = 1;
      // relaxed: the launch orders it before the GPU's stores, and no earlier store is pending.
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

std::error_code device::state::start(device_segment& f, device_lane& l) noexcept {
  f.graph = f.graphs == nullptr ? nullptr : f.graphs->best();
  if (f.needs_sms && needs_more_than_left(f, l, holding_lanes)) release_held();
  bool partly = false;
  std::error_code e =
      f.preemptible == nullptr ? std::error_code{} : begin_anew(*f.preemptible, f.what.first);
  if (!e) e = hand_over(f, l, partly);
  if (e) {
    if (f.words > 0) ring->flow().cancel(f.words);
    f.graph = nullptr;
    if (broken()) return e;
    // After a kernel has failed, every call fails. A partly launched segment can neither be
    // withdrawn nor be told apart from the rest.
    const std::error_code lasting = lasting_error(l.stream);
    if (lasting || partly) end_with(lasting ? lasting : e, partly ? &f : nullptr);
    return e;
  }
  f.at = device_segment::stage::started;
  if (l.oldest == nullptr) {
    l.oldest = &f;
    l.stalled = {};
  }
  f.started = now();
  activity.store(activity.load(sync::relaxed) + 1, sync::relaxed); // unordered: the only writer
  if (f.has_gates()) ++l.gated;
  if (f.needs_sms) ++needing;
  if (f.preemptible != nullptr) {
    ++l.preemptible;
    ++f.preemptible->in_flight;
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
  constexpr std::uint64_t bytes_per_ns = 10; // conservative, within or to the GPU
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
  if (some) release_held();
}

bool device::state::keeps_words(const device_lane& l) noexcept {
  return std::any_of(l.flights.begin(), l.flights.end(), [](const device_segment& f) {
    return f.at == device_segment::stage::started && f.words > 0;
  });
}

void device::state::start_held() noexcept {
  const on_gpu here(facts.ordinal);
  for (device_lane& l : lanes) l.waits = false;
  bool words_wait = false;
  words_wanted = false;
  for (auto at = held.begin(); at != held.end() && !broken();) {
    device_segment& f = *at++;
    device_lane& l = lanes[index(f.what.lane)];
    // The program hangs on another lane and is refused from now on.
    if (f.what.program != no_program && graphs->loaded(f.what.program).lost) {
      held.erase(held.iterator_to(f));
      --l.held;
      f.at = device_segment::stage::refused;
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
    if (start(f, l)) f.at = device_segment::stage::refused;
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

namespace {

void pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace

std::size_t device::state::poll(std::span<device_event> out) noexcept {
  if (flights.in_use() == 0 && yield_changes_owed == 0) return 0;
  if (holding_lanes > 0) renew_leases(now());
  // Ends first: then all words of ended segments are in the ring.
  if (!broken()) read_ends();
  std::size_t n = take_words(out);
  n += take_ends(out.subspan(n));
  see_lowered();
  if (!held.empty() && !broken()) start_held();
  if (n > 0)
    idle_polls = 0;
  else if (++idle_polls % 32 == 0)
    check_health(now());
  return n;
}

void device::state::read_ends() noexcept {
  for (device_lane& l : lanes) {
    // Segments of a lane end in order, so one load detects that nothing has changed.
    while (l.oldest != nullptr && l.oldest->over(cu)) {
      l.oldest->at = device_segment::stage::ended;
      device_segment& ended = *l.oldest;
      if (l.oldest->words > 0) ring_rests_until = {}; // all of its words have arrived: read now
      auto next = std::next(l.flights.iterator_to(*l.oldest));
      while (next != l.flights.end() && next->at == device_segment::stage::refused) ++next;
      const bool runs = next != l.flights.end() && next->at == device_segment::stage::started;
      l.oldest = runs ? &*next : nullptr;
      see_end(ended, l);
    }
  }
}

std::optional<device_event> device::state::event_of(const notification& n) noexcept {
  const segment_graphs::node at = graphs->node_of(notification_ring::slot_of(n.instance));
  const std::uint32_t replay = segment_graphs::replay_of(at, n.instance);
  if (at.graph != nullptr) {
    // Launches of one graph run in order, so it is nearly always the first one.
    for (device_segment& f : at.graph->flights) {
      if (f.replay != replay) continue;
      ++f.words_read;
      return device_event{n.type == notification_type::blocks_started
                              ? device_event::kind::blocks_started
                              : device_event::kind::blocks_done,
                          n.blocks, n.sm, at.operation, f.what.id};
    }
  }
  ++statistics.unknown_words;
  return std::nullopt;
}

std::optional<device_event> device::state::try_word() noexcept {
  // After an empty read, leave the slots to the GPU for a while (reader_rest).
  if (ring_rests_until != time_point{} && now() < ring_rests_until) return std::nullopt;
  std::optional<device_event> e;
  const auto take = [&](const notification& n) { e = event_of(n); };
  while (!e && ring->reader().try_next(take)) {
  }
  ring_rests_until = e ? time_point{} : now() + reader_rest;
  return e;
}

std::size_t device::state::take_words(std::span<device_event> out) noexcept {
  std::size_t n = 0;
  if (pending && !out.empty()) {
    out[n++] = *pending;
    pending.reset();
  }
  if (reporting == 0 || broken()) return n;
  while (n < out.size()) {
    const std::optional<device_event> e = try_word();
    if (!e) break;
    out[n++] = *e;
  }
  return n;
}

std::size_t device::state::take_ends(std::span<device_event> out) noexcept {
  std::size_t n = 0;
  if (pending) return n; // D3: a word comes first, and `out` had no room for it
  for (device_lane& l : lanes) {
    bool moved = false;
    while (n < out.size() && !l.flights.empty()) {
      device_segment& f = l.flights.front();
      const bool ended = f.at == device_segment::stage::ended;
      const bool withdrawn = f.at == device_segment::stage::withdrawn && !broken();
      const bool given_up =
          f.at == device_segment::stage::refused || f.at == device_segment::stage::lost;
      if (!ended && !withdrawn && !given_up && !broken()) break;
      if (ended && f.words_read < f.words && !f.words_lost && !broken()) {
        if (f.seen_ended == time_point{}) f.seen_ended = now();
        break;
      }
      out[n] = device_event{};
      const bool preempted = ended && f.how == device_segment::outcome::preempted;
      const bool good = ended && f.how == device_segment::outcome::whole;
      out[n].what = preempted || withdrawn ? device_event::kind::segment_preempted
                    : good                 ? device_event::kind::segment_done
                                           : device_event::kind::segment_failed;
      if (preempted) out[n].operation = f.operations_ended;
      out[n].lost = f.at == device_segment::stage::started || f.at == device_segment::stage::lost;
      out[n].segment = f.what.id;
      ++n;
      drop(f, l);
      moved = true;
    }
    if (moved) {
      l.last_progress = now();
      l.stalled = {};
    }
    if (l.owes_yielded || l.owes_resumed) n += take_yield_changes(l, out.subspan(n));
  }
  return n;
}

void device::state::drop(device_segment& f, device_lane& l) noexcept {
  if (f.at == device_segment::stage::held) {
    held.erase(held.iterator_to(f));
    --l.held;
  } else if (f.at != device_segment::stage::refused && f.graph != nullptr) {
    --f.graph->in_flight;
    if (f.words > 0) {
      f.graph->flights.erase(f.graph->flights.iterator_to(f));
      ring->flow().release(f.words);
      --reporting;
    }
  }
  if (f.end_event != nullptr) end_events.push_back(f.end_event); // within reserved capacity
  if (l.oldest == &f) l.oldest = nullptr;
  l.flights.erase(l.flights.iterator_to(f));
  flights.give_back(f);
}

bool device::state::pollable() noexcept {
  if (pending || broken()) return true;
  read_ends();
  for (device_lane& l : lanes) {
    if (yield_changes_owed > 0 && yield_change_pollable(l)) return true;
    if (l.flights.empty()) continue;
    const device_segment& f = l.flights.front();
    if (f.at == device_segment::stage::refused || f.at == device_segment::stage::withdrawn ||
        f.at == device_segment::stage::lost)
      return true;
    if (f.at == device_segment::stage::ended && (f.words_read >= f.words || f.words_lost))
      return true;
  }
  if (reporting > 0) pending = try_word();
  return pending.has_value();
}

bool device::state::idle() const noexcept {
  if (yield_changes_owed > 0) return false;
  if (broken()) return flights.in_use() == 0;
  if (lowering > 0) return false;
  return std::all_of(lanes.begin(), lanes.end(), [](const device_lane& l) {
    return l.flights.empty() || l.holds || l.flights.front().at == device_segment::stage::held;
  });
}

void device::state::wait(time_point t) noexcept {
  for (;;) {
    if (idle()) {
      rest(t);
      if (idle()) return;
    }
    if (pollable()) return;
    const time_point at = now();
    if (holding_lanes > 0) renew_leases(at);
    if (at >= t) return;
    check_health(at);
    if (lowering > 0) see_lowered();
    pause();
  }
}

void device::state::rest(time_point t) noexcept {
  if (t == no_deadline) return; // no work in flight could end the wait
  constexpr duration wake_up = std::chrono::microseconds{80}; // oversleep of the kernel's timer
  // Limits one sleep: clocks overflow, and leases expire.
  const duration at_most =
      holding_lanes > 0 && lease > duration::zero() ? lease / 4 : duration{std::chrono::hours{1}};
  for (;;) {
    const time_point at = now();
    if (holding_lanes > 0) {
      renew_leases(at);
      if (!idle()) return; // a lease has expired, and its lane continues
    }
    const duration left = std::min(t - at, at_most);
    if (t <= at) return;
    if (left > wake_up)
      std::this_thread::sleep_for(left - wake_up);
    else
      pause();
  }
}

} // namespace gsched::cuda
