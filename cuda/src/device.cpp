// SPDX-License-Identifier: Apache-2.0
#include "device_state.hpp"

#include <gsched/core/error.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>

namespace gsched::cuda {

namespace {

/// Between two graphs that are built beside work. The driver launches nothing while it builds one;
/// where that is long enough to be felt, few of the launches are to meet it.
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
  stream_owner for_uploads = cuda::make_stream("stream for set-up");
  stream_owner for_flags = cuda::make_stream("stream for flags", most_urgent);
  // Made here, as making a stream may wait for all that runs on the GPU.
  stream_owner for_events = cuda::make_stream("stream for events", most_urgent);
  device_memory<std::uint64_t> memory = make_device_memory<std::uint64_t>(
      lane_graphs::room_bytes / sizeof(std::uint64_t), "memory of the device");
  room = reinterpret_cast<CUdeviceptr>(memory.get());
  pulse = std::make_unique<lane_graphs>(facts.ordinal, *ends, primary, primary, room,
                                        for_uploads.get());
  constexpr std::size_t stream = 1;
  spares = std::make_unique<spare_executables>(cu, *ends, primary, most_given_up,
                                               stream + lane_graphs::executables);
  check(cudaStreamSynchronize(for_uploads.get()), "graphs of the device");
  static_cast<void>(memory.release());
  set_up = for_uploads.release();
  urgent = for_flags.release();
  events = for_events.release();
}

device::state::~state() {
  const on_gpu here(facts.ordinal);
  const duration most =
      options.watchdog > duration::zero() ? options.watchdog : std::chrono::seconds{10};
  if (broken() || !drain(most) || lost) {
    // The GPU may still write to all of it, and freeing it would wait for a GPU that is stuck.
    for (device_lane& l : lanes) {
      if (l.own) l.own->leave_behind();
      l.graphs->leave_behind();
      while (!l.flights.empty()) drop(l.flights.front(), l);
    }
    pulse->leave_behind();
    for (shared_place& s : shared)
      if (s.sms) s.sms->leave_behind();
    graphs->leave_behind();
    graphs.reset();
    spares.reset();
    ends->leave_behind();
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
  cudaStreamDestroy(set_up);
  cudaStreamSynchronize(urgent);
  cudaStreamDestroy(urgent);
  cudaStreamDestroy(events);
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
  // CUDA's most urgent is the lowest, and 0 the least urgent.
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
      // Uploads do not go through the lane's stream: behind a graph that stands they would keep its
      // hardware queue.
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
    if (s.leaves == how.leaves && s.node_priorities == node_priorities && s.yields == how.yields &&
        s.least_operation == how.least_operation)
      return &s;
  shared_place fresh{how.leaves, node_priorities, how.yields, how.least_operation,
                     nullptr,    nullptr,         {}};
  if (how.leaves.count() > 0)
    fresh.sms = std::make_shared<partition>(partition::all_but(facts.ordinal, how.leaves));
  return &shared.emplace_back(std::move(fresh));
}

void device::state::make_stream(device_lane& l) {
  l.stream = l.own ? l.own->make_stream(l.priority)
                   : cuda::make_stream("stream of a lane", l.priority).release();
}

std::unique_ptr<loaded_program> device::state::build(gsched::program& p) {
  const current_gpu here(facts.ordinal);
  expect_no_hang(facts.ordinal, p.name());
  std::uint64_t seen = activity.load(sync::relaxed); // unordered: whether it changes counts
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
    for (const flight& f : l.flights)
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

/// Graphs of a device; destroyed with this.
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

} // namespace gsched::cuda
