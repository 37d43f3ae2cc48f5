// SPDX-License-Identifier: Apache-2.0
#include "drawn_numbers.hpp"
#include "sanitized.hpp"

#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

using namespace gsched;
using gsched::testing::between;

namespace {

using rng = std::mt19937_64;

/// SMs one by one, and blocks one by one.
struct plain_map {
  std::vector<sim::sm_resources> left;

  /// The blocks on each SM.
  std::vector<std::uint32_t> place(const sim::block_need& need, sim::sm_range where,
                                   std::uint64_t want, std::uint32_t cluster) {
    std::uint64_t total = 0;
    for (std::uint32_t sm = where.first; sm < where.last; ++sm) total += fits(sm, need);
    std::uint64_t give = std::min(want, total);
    give -= give % cluster;
    std::vector<std::uint32_t> blocks(left.size());
    for (; give > 0; --give) {
      std::uint32_t best = where.first;
      for (std::uint32_t sm = where.first; sm < where.last; ++sm)
        if (fits(sm, need) > fits(best, need)) best = sm;
      left[best] -= need.bits;
      ++blocks[best];
    }
    return blocks;
  }
  void release(const sim::block_need& need, const std::vector<std::uint32_t>& blocks) {
    for (std::size_t sm = 0; sm < left.size(); ++sm) left[sm] += need.bits * blocks[sm];
  }
  std::uint32_t fits(std::uint32_t sm, const sim::block_need& need) const {
    return sim::resource_packer::holds(left[sm], need) ? sim::resource_packer::fit(left[sm], need)
                                                       : 0;
  }
};

struct placed {
  sim::block_need need{};
  std::uint32_t slices = 0;
  std::vector<std::uint32_t> blocks;
};

std::vector<std::uint32_t> blocks_of(const sim::sm_map& map, std::uint32_t list, std::size_t sms) {
  std::vector<std::uint32_t> blocks(sms);
  for (; list != sim::sm_map::none; list = map.at(list).next)
    for (std::uint32_t i = 0; i < map.at(list).sms; ++i)
      blocks[map.at(list).first + i] += map.at(list).blocks;
  return blocks;
}

} // namespace

TEST_CASE("sm_map: places and gives back as SM by SM and block by block") {
  const architecture_limits limits = limits_for(9, 0);
  const sim::resource_packer packer(limits);
  for (std::uint64_t seed = 1; seed <= (testing::sanitized ? 12 : 60); ++seed) {
    CAPTURE(seed);
    rng r(seed);
    const std::uint32_t sms = std::array{1u, 7u, 132u, 300u}[seed % 4];
    sim::sm_map map(sms, packer.empty(), limits.max_blocks);
    plain_map plain{std::vector<sim::sm_resources>(sms, packer.empty())};
    std::vector<sim::sm_range> ranges{{0, sms}};
    if (sms > 1 && seed % 3 == 0) { // partitions, and all of them
      const std::uint32_t middle = between(r, 1, sms - 1);
      for (const sim::sm_range part : {sim::sm_range{0, middle}, sim::sm_range{middle, sms}}) {
        map.cut(part);
        ranges.push_back(part);
      }
    }
    std::vector<placed> live;
    for (int step = 0; step < 300; ++step) {
      if (live.empty() || (between(r, 0, 99) < 55 && live.size() < 12)) {
        launch_shape shape;
        shape.block = {32 * between(r, 1, 16), 1, 1};
        shape.registers_per_thread = between(r, 16, 96);
        shape.static_shared_bytes = between(r, 0, 3) == 0 ? between(r, 0, 40) * 1024 : 0;
        placed p;
        p.need = packer.need_of(shape, 0);
        if (p.need.per_sm == 0) continue;
        const sim::sm_range where =
            ranges[between(r, 0, static_cast<std::uint32_t>(ranges.size()) - 1)];
        const std::uint32_t want = between(r, 1, 3 * sms);
        const std::uint32_t cluster = between(r, 0, 4) == 0 ? between(r, 2, 4) : 1;
        p.blocks = plain.place(p.need, where, want, cluster);
        const sim::sm_map::placement made = map.place(p.need, where, want, cluster);
        p.slices = made.slices;
        std::uint64_t sum = 0;
        for (const std::uint32_t n : p.blocks) sum += n;
        REQUIRE(made.blocks == sum);
        REQUIRE(blocks_of(map, made.slices, sms) == p.blocks);
        if (sum > 0) live.push_back(p);
      } else {
        const std::size_t which = between(r, 0, static_cast<std::uint32_t>(live.size()) - 1);
        REQUIRE(blocks_of(map, live[which].slices, sms) == live[which].blocks);
        map.release(live[which].need, live[which].slices);
        plain.release(live[which].need, live[which].blocks);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
      REQUIRE(map.occupied() ==
              std::count_if(plain.left.begin(), plain.left.end(),
                            [&](sim::sm_resources left) { return left != packer.empty(); }));
    }
    for (const placed& p : live) map.release(p.need, p.slices);
    CHECK(map.occupied() == 0);
    CHECK(map.runs() <= ranges.size());
  }
}
