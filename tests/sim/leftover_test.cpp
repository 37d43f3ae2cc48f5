// SPDX-License-Identifier: Apache-2.0
#include "sanitized.hpp"

#include <sim/block_model.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

using namespace gsched;

namespace {

using spans = std::vector<std::vector<block_model::span>>;

struct recorder {
  spans* out;
  static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
    (*static_cast<recorder*>(self)->out)[index(m.segment)][m.operation].start =
        at.time_since_epoch().count();
  }
  static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
    (*static_cast<recorder*>(self)->out)[index(m.segment)][m.operation].end =
        at.time_since_epoch().count();
  }
};

/// A small GPU, a few lanes and some segments of kernels of all shapes.
class random_case {
public:
  explicit random_case(std::uint64_t seed) : random_(seed) {
    preset_ = sim::h200();
    preset_.sms = sm_count{pick(1, 10)};
    preset_.partition_unit = sm_count{2};
    preset_.sm.max_blocks = pick(1, 6);
    preset_.sm.max_warps = 16;
    preset_.sm.max_threads = 512;
    preset_.sm.registers = 32768;
    preset_.hardware_queues = pick(1, 4);
    preset_.resident_grids = pick(1, 5);
    preset_.host = {};
    preset_.host.start = duration{1}; // submissions at one time follow the events of that time
    preset_.gaps.segments = duration{pick(0, 3)};
    preset_.laws.graph = {1.0, duration{pick(0, 3)}};
    preset_.laws.contended = false;
    preset_.laws.slack = 0;
  }

  /// The device's events, and the model's.
  std::pair<spans, spans> run() {
    spans seen;
    recorder r{&seen};
    sim::device d(preset_, {}, {&r, recorder::started, recorder::ended, nullptr});
    block_model::gpu model;
    model.sm = preset_.sm;
    model.sms = preset_.sms.count();
    model.queues = preset_.effective_queues();
    model.resident_grids = preset_.resident_grids;
    model.gap_in_graph = preset_.laws.graph.gap.count();
    model.gap_segments = preset_.gaps.segments.count();
    open_lanes(d, model);

    std::deque<program> programs;
    const std::size_t segments = pick(1, 12);
    for (std::size_t i = 0; i < segments; ++i) {
      block_model::submitted s;
      s.lane = pick(0, static_cast<std::uint32_t>(model.lanes.size()) - 1);
      const block_model::lane& l = model.lanes[s.lane];
      std::vector<operation> work;
      for (std::uint32_t k = pick(1, 4); k > 0; --k)
        work.push_back(kernel(s, static_cast<std::uint32_t>(l.last_sm - l.first_sm)));
      d.load(programs.emplace_back("p", work));
      seen.emplace_back(work.size());
      d.spend(duration{pick(0, 60)});
      s.arrival = d.now().time_since_epoch().count() + 1;
      segment one;
      one.id = segment_id{i};
      one.lane = lane_id{static_cast<std::uint32_t>(s.lane)};
      one.program = programs.back().id();
      one.operations = programs.back().range(0, work.size());
      REQUIRE(!d.submit(one));
      model.segments.push_back(s);
    }
    std::array<device_event, 16> out;
    for (std::size_t left = segments; left > 0; left -= d.poll(out)) d.wait(no_deadline);
    return {seen, model.run()};
  }

private:
  std::uint32_t pick(std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(random_() % (most - least + 1));
  }

  /// Lanes on all SMs, and some on partitions.
  void open_lanes(sim::device& d, block_model::gpu& model) {
    std::size_t split = 0;
    for (std::uint32_t n = pick(1, 5); n > 0; --n) {
      const int priority = static_cast<int>(pick(0, 2));
      block_model::lane l{model.lanes.size() % model.queues, priority, 0, model.sms};
      lane_options how{priority, sm_count{}};
      if (pick(0, 2) == 0 && split + 4 < model.sms) { // never the odd last group
        how.sms = sm_count{2};
        l.first_sm = split;
        l.last_sm = split += 2;
      }
      static_cast<void>(d.open_lane(how));
      model.lanes.push_back(l);
    }
  }

  operation kernel(block_model::submitted& s, std::uint32_t sms) {
    for (;;) {
      operation op;
      op.launch.cluster_blocks = pick(0, 3) == 0 ? 2 : 1;
      op.launch.grid = {pick(1, 30) * op.launch.cluster_blocks, 1, 1};
      op.launch.block = {pick(1, 256), 1, 1};
      op.launch.registers_per_thread = pick(16, 96);
      op.launch.dynamic_shared_bytes = pick(0, 1) * pick(0, 100000);
      const block_allocation a = allocation_of(preset_.sm, op.launch);
      const std::uint32_t per_sm = max_blocks_per_sm(preset_.sm, op.launch);
      const std::uint32_t by_sums = std::min(
          std::min(preset_.sm.max_blocks, preset_.sm.max_warps / a.warps),
          std::min(preset_.sm.registers / a.registers, preset_.sm.shared_bytes / a.shared_bytes));
      if (per_sm != by_sums || per_sm * sms < op.launch.cluster_blocks) continue;
      const auto blocks = static_cast<std::uint32_t>(op.launch.blocks());
      const std::int64_t block_ns = pick(1, 40);
      const auto time = [&](std::uint32_t n) {
        return duration{block_ns * ((blocks + n * per_sm - 1) / (n * per_sm))};
      };
      op.expected = time(preset_.sms.count());
      if (sms < preset_.sms.count()) op.by_sms.push_back({sm_count{sms}, time(sms)});
      s.kernels.push_back({blocks, op.launch.cluster_blocks, a, block_ns});
      return op;
    }
  }

  std::mt19937_64 random_;
  sim::preset preset_;
};

} // namespace

TEST_CASE("waves start and end when the blocks of a GPU simulated block by block do") {
  constexpr std::uint64_t cases = testing::sanitized ? 60 : 400;
  std::size_t kernels = 0;
  std::size_t waited = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    CAPTURE(seed);
    const auto [seen, expected] = random_case(seed).run();
    for (std::size_t s = 0; s < seen.size(); ++s) {
      for (std::size_t k = 0; k < seen[s].size(); ++k) {
        CAPTURE(s);
        CAPTURE(k);
        REQUIRE(expected[s][k].end > expected[s][k].start);
        REQUIRE(seen[s][k].start == expected[s][k].start);
        REQUIRE(seen[s][k].end == expected[s][k].end);
        ++kernels;
        waited += k > 0 && seen[s][k].start > seen[s][k - 1].end + 3;
      }
    }
  }
  CHECK(kernels > 6 * cases);
  CHECK(waited > cases / 3); // for capacity or for a slot: the cases are not trivial
}
