// SPDX-License-Identifier: Apache-2.0
#include "drawn_numbers.hpp"

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/surroundings.hpp>
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
using gsched::testing::between;

namespace {

using rng = std::mt19937_64;

float part(rng& r) { return static_cast<float>(between(r, 0, 1000)) / 1000; }

sim::kernel_load random_load(rng& r) {
  demand d;
  for (double& use : d.use)
    if (between(r, 0, 2) > 0) use = part(r);
  d.kept = part(r);
  if (between(r, 0, 1) > 0) d.working_set = 60e6 * part(r);
  if (between(r, 0, 1) > 0) d.conflict = between(r, 1, 32);
  d.steady = between(r, 0, 1) > 0;
  if (between(r, 0, 1) > 0) d.access_cycles = static_cast<double>(between(r, 300, 8000));
  sim::kernel_load l;
  l.take(d);
  l.warps = static_cast<float>(between(r, 1, 16));
  l.solo_warps = l.warps * static_cast<float>(between(r, 1, 4));
  l.fixed = part(r) / 2;
  return l;
}

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
      REQUIRE(1 / g.speed == doctest::Approx(slowdown_of(slot)).epsilon(1e-3));
    }
  }
  void finish(time_point now) { scheduler_.finish(now, sink{*this}); }
  void admitted(std::uint32_t slot) {
    ++live_;
    if (!scheduler_[slot].started) return;
    on_[slot].resize(preset_.sms.count());
    starts_.push_back(slot);
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
      std::erase(w.starts_, slot);
      --w.live_;
    }
  };

  void add(const sim::grid& g, std::uint32_t list, std::uint32_t times) {
    if (!on_.contains(g.owner)) starts_.push_back(g.owner);
    by_sm& b = on_[g.owner];
    b.resize(preset_.sms.count());
    const sim::sm_map& map = scheduler_.map();
    for (; list != sim::sm_map::none; list = map.at(list).next)
      for (std::uint32_t i = 0; i < map.at(list).sms; ++i)
        b[map.at(list).first + i] += times * map.at(list).blocks;
  }

  struct facts {
    double held = 0;
    double warps = 0;   ///< on each of them
    double stretch = 1; ///< of its blocks, as they are fewer than alone
    demand takes{};
  };
  facts facts_of(std::uint32_t slot) {
    const sim::grid& g = scheduler_[slot];
    const sim::kernel_load& l = g.cost.load;
    facts f;
    double resident = 0;
    for (const std::uint32_t n : on_[slot]) {
      f.held += n > 0;
      resident += n;
    }
    const double to_fill = preset_.laws.scaling.warps_to_fill;
    f.warps = l.warps * resident / std::max(f.held, 1.0);
    f.stretch = l.fixed + (1 - l.fixed) * (to_fill + f.warps) / (to_fill + l.solo_warps);
    for (std::size_t r = 0; r < resources; ++r) {
      const double part = r < resources_on_sm ? f.warps / l.solo_warps : resident / g.cost.resident;
      f.takes.use[r] = std::min(1.0, l.use[r] * part / f.stretch);
    }
    f.takes.kept = l.kept;
    f.takes.working_set = l.working_set;
    f.takes.conflict = l.conflict;
    f.takes.access_cycles = l.access_cycles;
    return f;
  }
  /// on_ has the order of slots, but starts_ that of the grids' starts.
  /// Whether a kernel is steady matters to itself alone.
  double slowdown_of(std::uint32_t slot) {
    facts mine = facts_of(slot);
    mine.takes.steady = scheduler_[slot].cost.load.steady;
    surroundings s;
    for (const std::uint32_t other : starts_) {
      if (other == slot) continue;
      const by_sm& blocks = on_[other];
      double shared = 0;
      for (std::size_t sm = 0; sm < blocks.size(); ++sm)
        shared += blocks[sm] > 0 && on_[slot][sm] > 0;
      const facts f = facts_of(other);
      const bool is_older = std::find(starts_.begin(), starts_.end(), other) <
                            std::find(starts_.begin(), starts_.end(), slot);
      s.add(f.takes, shared / std::max(mine.held, 1.0), 1, f.warps, is_older);
    }
    return mine.stretch * preset_.laws.contention.slowdown(mine.takes, mine.warps, s);
  }

  const sim::preset& preset_;
  sim::block_scheduler scheduler_;
  std::map<std::uint32_t, by_sm> on_; ///< blocks of running grids, by slot
  std::vector<std::uint32_t> starts_; ///< running grids, in the order of their starts
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
      if (w.live() < most && between(r, 0, 2) > 0) {
        const std::uint32_t slot = s.take();
        sim::grid& g = s[slot];
        g = {};
        g.owner = slot;
        g.where = seed % 3 == 0 && between(r, 0, 1) == 0 ? half : all;
        g.priority = static_cast<int>(between(r, 0, 1));
        g.shares = between(r, 0, 2) > 0;
        g.cost.wave_ns = between(r, 1000, 4000);
        if (between(r, 0, 5) > 0) {
          launch_shape shape;
          shape.block = {32 * between(r, 1, 16), 1, 1};
          shape.registers_per_thread = 32;
          g.cost.need = s.packer().need_of(shape, 0);
          g.cost.blocks = between(r, 1, p.sms.count() * g.cost.need.per_sm * between(r, 1, 6));
          g.cost.resident = std::min<double>(static_cast<double>(g.cost.blocks),
                                             g.where.size() * g.cost.need.per_sm);
          g.cost.load = random_load(r);
        }
        s.admit(slot, now);
        w.admitted(slot);
      }
      w.step(now, between(r, 0, 9) > 0);
      now = std::min(s.next_end(), now + duration{between(r, 1, 3000)});
    }
  }
}
