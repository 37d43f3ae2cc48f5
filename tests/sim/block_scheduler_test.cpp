// SPDX-License-Identifier: Apache-2.0
#include <gsched/sim/detail/blocks/block_scheduler.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

using namespace gsched;

namespace {

using rng = std::mt19937_64;

std::uint32_t draw(rng& r, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(r() % (high - low + 1));
}
float part(rng& r) { return static_cast<float>(draw(r, 0, 1000)) / 1000; }

/// A block scheduler, and the blocks of each of its grids, SM by SM.
class watched_scheduler {
public:
  explicit watched_scheduler(const sim::preset& p) : preset_(p), scheduler_(p) {}

  [[nodiscard]] sim::block_scheduler& scheduler() noexcept { return scheduler_; }
  [[nodiscard]] std::size_t live() const noexcept { return live_; } ///< grids

  void step(time_point now, bool beside) {
    scheduler_.place(now, sink{*this});
    scheduler_.set_beside(beside);
    scheduler_.refresh(now);
    for (const auto& [slot, blocks] : on_) {
      const sim::grid& g = scheduler_[slot];
      if (g.oldest == sim::sm_map::none) continue; // it waits for capacity
      const float stretch = preset_.laws.contention.stretch(g.cost.load, around(slot, beside));
      REQUIRE(1 / g.speed == doctest::Approx(stretch).epsilon(1e-4));
    }
  }
  void finish(time_point now) { scheduler_.finish(now, sink{*this}); }
  void admitted(std::uint32_t slot) {
    ++live_;
    if (scheduler_[slot].started) on_[slot].resize(preset_.sms.count());
  }

private:
  using by_sm = std::vector<std::uint32_t>;

  struct sink {
    watched_scheduler& w;
    void placed(const sim::grid& g, std::uint32_t slices) { w.add(g, slices, 1); }
    void left(const sim::grid& g, const sim::cohort& c) {
      w.add(g, c.slices, static_cast<std::uint32_t>(-1));
    }
    void done(std::uint32_t slot) {
      w.on_.erase(slot);
      --w.live_;
    }
  };

  void add(const sim::grid& g, std::uint32_t list, std::uint32_t times) {
    by_sm& b = on_[g.owner];
    b.resize(preset_.sms.count());
    const sim::sm_map& map = scheduler_.map();
    for (; list != sim::sm_map::none; list = map.at(list).next)
      for (std::uint32_t i = 0; i < map.at(list).sms; ++i)
        b[map.at(list).first + i] += times * map.at(list).blocks;
  }

  struct facts {
    double held = 0;
    double warps = 0; ///< on each of them
    double memory = 0;
  };
  facts facts_of(std::uint32_t slot) {
    const sim::grid& g = scheduler_[slot];
    facts f;
    double resident = 0;
    for (const std::uint32_t n : on_[slot]) {
      f.held += n > 0;
      resident += n;
    }
    f.warps = g.cost.load.warps * resident / std::max(f.held, 1.0);
    f.memory = g.cost.load.memory * resident / g.cost.resident;
    return f;
  }
  sim::surroundings around(std::uint32_t slot, bool beside) {
    const facts mine = facts_of(slot);
    double warps = 0;
    double near = 0;
    double far = 0;
    for (const auto& [other, blocks] : on_) {
      if (other == slot) continue;
      const facts f = facts_of(other);
      double shared = 0;
      for (std::size_t sm = 0; sm < blocks.size(); ++sm)
        shared += blocks[sm] > 0 && on_[slot][sm] > 0;
      warps += shared * f.warps;
      (shared > 0 ? near : far) += f.memory;
    }
    sim::surroundings s;
    s.beside = beside;
    s.own_warps = static_cast<float>(mine.warps);
    s.other_warps = static_cast<float>(warps / std::max(mine.held, 1.0));
    s.near_memory = static_cast<float>(near);
    s.far_memory = static_cast<float>(far);
    return s;
  }

  const sim::preset& preset_;
  sim::block_scheduler scheduler_;
  std::map<std::uint32_t, by_sm> on_; ///< blocks of running grids, by slot
  std::size_t live_ = 0;
};

} // namespace

TEST_CASE("block_scheduler: speeds are those of what is around each kernel, SM by SM") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    rng r(seed);
    sim::preset p = sim::h200();
    p.sms = sm_count{seed % 8 == 0 ? 300u : 6u};
    watched_scheduler w(p);
    sim::block_scheduler& s = w.scheduler();
    const sim::sm_range all{0, p.sms.count()};
    const sim::sm_range half{0, p.sms.count() / 2};
    if (seed % 3 == 0) s.map().cut(half);
    const std::size_t most = seed % 2 + 2; // few at once: often one alone
    time_point now{};
    for (int step = 0; step < 400; ++step) {
      w.finish(now);
      if (w.live() < most && draw(r, 0, 2) > 0) {
        const std::uint32_t slot = s.take();
        sim::grid& g = s[slot];
        g = {};
        g.owner = slot;
        g.where = seed % 3 == 0 && draw(r, 0, 1) == 0 ? half : all;
        g.priority = static_cast<int>(draw(r, 0, 1));
        g.cost.wave_ns = draw(r, 1000, 4000);
        if (draw(r, 0, 5) > 0) {
          launch_shape shape;
          shape.block = {32 * draw(r, 1, 16), 1, 1};
          shape.registers_per_thread = 32;
          g.cost.need = s.packer().need_of(shape, 0);
          g.cost.blocks = draw(r, 1, p.sms.count() * g.cost.need.per_sm * draw(r, 1, 6));
          g.cost.resident = std::min<double>(static_cast<double>(g.cost.blocks),
                                             g.where.size() * g.cost.need.per_sm);
          g.cost.load = {part(r), static_cast<float>(draw(r, 1, 16)),
                         static_cast<float>(draw(r, 1, 64)), part(r) / 2};
        }
        s.admit(slot, now);
        w.admitted(slot);
      }
      w.step(now, draw(r, 0, 9) > 0);
      now = std::min(s.next_end(), now + duration{draw(r, 1, 3000)});
    }
  }
}
