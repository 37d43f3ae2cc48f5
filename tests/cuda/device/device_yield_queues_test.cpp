// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/device_yield_kernels.hpp"
#include "cuda/device/device_yield_rig.hpp"
#include "cuda/needs_gpu.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace gsched::testing {

// A GPU has few hardware queues, 8 by default. Work that waits behind a held graph occupies its
// queue.
TEST_CASE("urgent work runs beside any number of held lanes with more work queued") {
  GSCHED_NEEDS_GPU();
  constexpr std::size_t lanes = 20;
  cuda::device_options o;
  o.grain = from_us(60);
  o.levels = 1;
  o.watchdog = std::chrono::seconds{2};
  cuda::device d(o);
  arena memory;
  std::deque<cuda::program> programs;
  std::deque<endless_runs> work;
  std::vector<endless_runs*> all;
  for (std::size_t i = 0; i < lanes; ++i) {
    programs.push_back(make_chain("p" + std::to_string(i), memory));
    d.load(programs.back());
    work.emplace_back(d, programs.back().host(), d.open_lane({0, {}, true}), 60.0, i << 32);
    all.push_back(&work.back());
  }
  programs.push_back(make_chain("urgent", memory));
  d.load(programs.back());
  endless_runs urgent(d, programs.back().host(), d.open_lane({1, {}, false}), 60.0, lanes << 32);
  all.push_back(&urgent);

  constexpr std::uint64_t endless = 1u << 20;
  for (std::uint64_t turn = 1; turn <= 3; ++turn) {
    const time_point until = d.now() + from_us(500);
    REQUIRE(run_until(d, all, [&] {
      for (endless_runs& w : work) w.feed(4, endless);
      return d.now() >= until;
    }));
    for (endless_runs& w : work) d.yield(w.lane());
    urgent.feed(2, 2 * turn);
    REQUIRE(run_until(d, all, [&] {
      urgent.feed(2, 2 * turn);
      return urgent.runs_ended() == 2 * turn;
    }));
    for (endless_runs& w : work) REQUIRE(run_until(d, all, [&] { return w.yielded == turn; }));
    for (endless_runs& w : work) d.resume(w.lane());
    for (endless_runs& w : work) REQUIRE(run_until(d, all, [&] { return w.resumed == turn; }));
  }
  for (endless_runs& w : work) REQUIRE(run_until(d, all, [&] { return w.idle(); }));
  for (const endless_runs* w : all) CHECK(w->failed + w->refused + w->out_of_order == 0);
  CHECK(d.statistics().expired_leases == 0); // no gate had to open for urgent work
}

} // namespace gsched::testing
