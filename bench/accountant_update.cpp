// SPDX-License-Identifier: Apache-2.0
//
// The cost of an accountant for each segment (has_room, charge, release) and for each notification
// (started or ended, has_room), with many segments outstanding on 132 SMs. For comparison: an
// accountant that stores only the facts and counts all SMs and all segments on each call.
// Everything charged is released; if an account is then not zero, the program ends with 1.
#include <gsched/notify/grouping.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/footprint.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace gsched;

bool all_right = true;
const architecture_limits hopper = limits_for(9, 0);
constexpr sm_count sms{132};

/// Stores facts only; counts everything on each call.
class recount_accountant {
public:
  static constexpr bool wants_blocks = true;

  recount_accountant(const architecture_limits& l, sm_count n, const accountant_options& o)
      : limits_(l), options_(o), sms_(n.count()) {}

  [[nodiscard]] bool has_room() const noexcept {
    return segments_.size() < options_.max_outstanding && load() < 1.0;
  }
  [[nodiscard]] bool admits(const footprint&) const noexcept { return has_room(); }
  void charge(segment_id s, const footprint& f, std::optional<segment_id> = {}) noexcept {
    segments_[s] = {f.widest, 0};
  }
  void release(segment_id s) noexcept { segments_.erase(s); }
  void started(segment_id s, std::uint32_t, const kernel_demand& k, std::uint32_t sm,
               std::uint32_t blocks) noexcept {
    segments_[s].started += blocks;
    add(sms_[sm], k, blocks);
  }
  void ended(segment_id s, std::uint32_t, std::uint32_t sm, std::uint32_t blocks) noexcept {
    add(sms_[sm], segments_[s].demand, 0u - blocks);
  }
  [[nodiscard]] double load() const noexcept {
    std::uint64_t blocks = 0;
    std::uint64_t threads = 0;
    std::uint64_t registers = 0;
    std::uint64_t shared = 0;
    for (const sm_usage& u : sms_) {
      blocks += u.blocks;
      threads += u.threads;
      registers += u.registers;
      shared += u.shared_bytes;
    }
    for (const auto& [id, e] : segments_) {
      const std::uint64_t waits = e.demand.blocks - std::min(e.demand.blocks, e.started);
      blocks += waits;
      threads += waits * e.demand.threads;
      registers += waits * e.demand.registers;
      shared += waits * e.demand.shared_bytes;
    }
    const auto share = [&](std::uint64_t used, std::uint32_t of_sm) {
      return static_cast<double>(used) / (static_cast<double>(of_sm) * sms.count());
    };
    return std::max(
        std::max(share(blocks, limits_.max_blocks), share(threads, limits_.max_threads)),
        std::max(share(registers, limits_.registers), share(shared, limits_.shared_bytes)));
  }
  [[nodiscard]] std::size_t outstanding() const noexcept { return segments_.size(); }
  [[nodiscard]] std::size_t slots() const noexcept { return options_.max_outstanding; }
  [[nodiscard]] const accountant_violations& violations() const noexcept { return violations_; }

private:
  struct entry {
    kernel_demand demand{};
    std::uint64_t started = 0;
  };
  static void add(sm_usage& u, const kernel_demand& k, std::uint32_t blocks) noexcept {
    u.blocks += blocks;
    u.threads += blocks * k.threads;
    u.registers += blocks * k.registers;
    u.shared_bytes += blocks * k.shared_bytes;
  }

  architecture_limits limits_;
  accountant_options options_;
  std::vector<sm_usage> sms_;
  std::map<segment_id, entry> segments_;
  accountant_violations violations_;
};
static_assert(accountant<recount_accountant>);

footprint kernel_of(std::uint32_t blocks) {
  operation op;
  op.launch.grid.x = blocks;
  op.launch.block.x = 128;
  op.launch.registers_per_thread = 32;
  op.expected = from_us(100);
  return footprint_of(hopper, sms, op);
}

accountant_options room_for(std::size_t outstanding) {
  accountant_options o;
  o.max_outstanding = outstanding + 2; // otherwise has_room() depends on the slots alone
  return o;
}

/// Charges and releases one segment beside `outstanding` others.
template <accountant A>
void segment(benchmark::State& state) {
  const auto others = static_cast<std::uint64_t>(state.range(0));
  A a(hopper, sms, room_for(others));
  const footprint f = kernel_of(4);
  std::uint64_t next = 0;
  while (next < others) a.charge(segment_id{next++}, f);
  std::uint64_t rooms = 0;
  for (auto _ : state) {
    rooms += a.has_room() ? 1u : 0u;
    a.charge(segment_id{next}, f);
    a.release(segment_id{next - others});
    ++next;
  }
  benchmark::DoNotOptimize(rooms);
  state.SetItemsProcessed(state.iterations());
  for (std::uint64_t i = next - others; i < next; ++i) a.release(segment_id{i});
  if (a.load() != 0.0 || a.outstanding() != 0 || a.violations().total() != 0) all_right = false;
}

/// Reports all block groups of a kernel of 132 x 16 blocks, then their ends, beside `outstanding`
/// others.
template <accountant A>
void notification(benchmark::State& state) {
  const auto others = static_cast<std::uint64_t>(state.range(0));
  A a(hopper, sms, room_for(others));
  const footprint f = kernel_of(sms.count() * max_group_blocks);
  std::uint64_t next = 0;
  while (next < others) a.charge(segment_id{next++}, kernel_of(4));
  std::uint64_t rooms = 0;
  std::int64_t words = 0;
  for (auto _ : state) {
    const segment_id s{next++};
    a.charge(s, f);
    for (std::uint32_t sm = 0; sm < sms.count(); ++sm) {
      a.started(s, 0, f.widest, sm, max_group_blocks);
      rooms += a.has_room() ? 1u : 0u;
    }
    for (std::uint32_t sm = 0; sm < sms.count(); ++sm) {
      a.ended(s, 0, sm, max_group_blocks);
      rooms += a.has_room() ? 1u : 0u;
    }
    a.release(s);
    words += 2 * sms.count();
  }
  benchmark::DoNotOptimize(rooms);
  state.SetItemsProcessed(words);
  for (std::uint64_t i = 0; i < others; ++i) a.release(segment_id{i});
  if (a.load() != 0.0 || a.violations().total() != 0) all_right = false;
}

template <accountant A>
void add(const char* name) {
  const std::string model = name;
  for (const bool by_word : {false, true}) {
    if (by_word && !A::wants_blocks) continue;
    const std::string row =
        std::string("accountant/") + (by_word ? "notification" : "segment") + "/wall/" + model;
    benchmark::RegisterBenchmark(row.c_str(), by_word ? notification<A> : segment<A>)
        ->ArgName("outstanding")
        ->Arg(1)
        ->Arg(16)
        ->Arg(256);
  }
}

} // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add<aggregate_accountant>("aggregate");
  add<per_sm_accountant>("per_sm");
  add<recount_accountant>("recount");
  benchmark::RunSpecifiedBenchmarks();
  return all_right ? 0 : 1;
}
