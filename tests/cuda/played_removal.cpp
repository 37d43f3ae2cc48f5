// SPDX-License-Identifier: Apache-2.0
//
// The graphs of a program that was removed share nothing with those of others, so any thread may
// destroy them.
#include "cuda/played.hpp"
#include "device/segment_graphs.hpp"

#include <gsched/cuda/driver.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

using slots = std::vector<cuda::launch_slot>;

/// A program without graphs whose kernels report: in a foreseen range and in another one.
std::unique_ptr<cuda::loaded_program> reporting_program(const std::array<slots, 2>& with) {
  auto l = std::make_unique<cuda::loaded_program>();
  const auto range = [](const slots& of) {
    auto r = std::make_unique<cuda::range_graphs>();
    r->copies = std::vector<cuda::segment_graph>(1);
    r->copies.front().slots = of;
    return r;
  };
  l->foreseen.resize(2);
  l->foreseen[1].push_back(nullptr);
  l->foreseen[1].push_back(range(with[0]));
  l->others[{0, 1, 0, cuda::graph_kind::reporting}] = range(with[1]);
  return l;
}

/// What a device has, with CUDA played.
struct graphs_rig {
  [[nodiscard]] slots take(int n) {
    slots all;
    for (int i = 0; i < n; ++i) all.push_back(ring.take_slot(1));
    return all;
  }

  const bool fresh = (cuda_played = {}, true); ///< before the members that call CUDA
  architecture_limits sm{};
  cuda::device_options how{};
  cuda::notification_ring ring{0, 64};
  cuda::end_words ends;
  cuda::segment_graphs graphs{cuda::driver(), ring, ends, sm, how};
};

TEST_CASE("a program's launch slots are given back when it is removed, not when it is destroyed") {
  graphs_rig rig;
  const std::array<slots, 2> had{rig.take(3), rig.take(2)};
  const program_id id = rig.graphs.add(reporting_program(had));
  std::unique_ptr<cuda::loaded_program> gone = rig.graphs.remove(id);
  const slots again = rig.take(5); // the last that were given back come first
  for (const slots& each : had)
    for (const cuda::launch_slot s : each) CHECK(std::count(again.begin(), again.end(), s) == 1);
  // The owner takes and gives back slots meanwhile, as other programs come and go.
  std::thread elsewhere([&] { rig.graphs.destroy(std::move(gone)); });
  for (int i = 0; i < 1000; ++i) {
    const slots others = rig.take(4);
    for (const cuda::launch_slot s : others) CHECK(std::count(again.begin(), again.end(), s) == 0);
    for (const cuda::launch_slot s : others) rig.ring.give_back(s);
  }
  elsewhere.join();
  const slots later = rig.take(8); // none that is taken
  for (const cuda::launch_slot s : later) CHECK(std::count(again.begin(), again.end(), s) == 0);
}

TEST_CASE("a program that hangs keeps its launch slots for good") {
  graphs_rig rig;
  const std::array<slots, 2> had{rig.take(3), rig.take(2)};
  const program_id id = rig.graphs.add(reporting_program(had));
  rig.graphs.loaded(id).lost = true;
  const cuda::loaded_program* const kept = &rig.graphs.loaded(id);
  rig.graphs.destroy(rig.graphs.remove(id));
  const slots later = rig.take(20);
  for (const slots& each : had)
    for (const cuda::launch_slot s : each) CHECK(std::count(later.begin(), later.end(), s) == 0);
  delete kept; // here nothing can write to it
}

} // namespace
} // namespace gsched::testing
