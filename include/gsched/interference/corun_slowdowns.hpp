// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/sharing_law.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace gsched {

/// How long corun_slowdowns simulates.
struct replay_window {
  double us = 15000;              ///< at least this long
  std::size_t replays = 4;        ///< and until each graph has ended this often
  std::size_t events = 4'000'000; ///< but at most this many events
};

/// Simulates two graphs that are replayed without a pause on the same SMs, kernel beside kernel.
/// Returns the slow-down of each graph: its median replay over a replay alone.
///
/// Source   the workload-level estimate from a kernel-level one that Elvinger et al. ask for: SoCC
///          2025, section 5.1, doi:10.1145/3772052.3772270.
/// Differs  it simulates instead of averaging: which kernels meet depends on both speeds, and the
///          median of a short graph's replays is not their mean.
/// Order    both graphs start at the same time; the first graph's kernel counts as the older one.
/// Cost     some 40 ns an event; a kernel has one to six.
/// Threads  a pure function.
[[nodiscard]] inline std::array<double, 2> corun_slowdowns(const kernel_chain& first,
                                                           const kernel_chain& second,
                                                           const sharing_law& law,
                                                           const replay_window& window = {}) {
  struct side {
    const kernel_chain* chain = nullptr;
    std::size_t at = 0;
    double left = 1; ///< part of the kernel's work
    double wait = 0; ///< until the kernel starts
    bool running = false;
    std::uint64_t since = 0; ///< order of the kernel's start
    double begun = 0;        ///< start of this replay
    std::vector<double> replays{};
    [[nodiscard]] const chain_kernel& kernel() const noexcept { return chain->kernels[at]; }
  };
  std::array<side, 2> sides;
  sides[0].chain = &first;
  sides[1].chain = &second;
  const double sms = std::max(first.sms, second.sms);
  double now = 0;
  std::uint64_t starts = 0;
  std::optional<kernel_pair> pair; // set while kernels of both graphs run
  std::size_t older = 0;

  for (std::size_t event = 0; event < window.events; ++event) {
    if (now >= window.us && sides[0].replays.size() >= window.replays &&
        sides[1].replays.size() >= window.replays)
      break;
    std::array<double, 2> speed{};
    double step = std::numeric_limits<double>::max();
    if (sides[0].running && sides[1].running) {
      if (!pair) {
        older = sides[0].since < sides[1].since ? 0 : 1;
        pair.emplace(sides[older].kernel(), sides[1 - older].kernel(), sms, law);
      }
      const side& o = sides[older];
      const kernel_pair::stage stage = pair->at(o.left);
      const kernel_pair::speeds s = pair->with(stage.placed);
      speed[older] = s.older;
      speed[1 - older] = s.younger;
      step = (o.left - stage.until) * o.kernel().us / s.older;
    } else {
      pair.reset();
      for (std::size_t i = 0; i < 2; ++i) speed[i] = sides[i].running ? 1 / (1 + law.beside) : 0;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const side& s = sides[i];
      if (!s.running)
        step = std::min(step, s.wait);
      else if (speed[i] > 0)
        step = std::min(step, s.left * s.kernel().us / speed[i]);
    }
    now += step;
    for (std::size_t i = 0; i < 2; ++i) {
      constexpr double done = 1e-9;
      side& s = sides[i];
      if (!s.running) {
        s.wait -= step;
        if (s.wait > done) continue;
        s.running = true;
        s.left = 1;
        s.since = starts++;
        continue;
      }
      s.left -= step * speed[i] / s.kernel().us;
      if (s.left > done) continue;
      s.running = false;
      s.wait = s.chain->gap_us + law.gap_us;
      pair.reset();
      if (++s.at < s.chain->kernels.size()) continue;
      s.at = 0;
      s.replays.push_back(now - s.begun);
      s.begun = now;
    }
  }
  std::array<double, 2> slow{};
  for (std::size_t i = 0; i < 2; ++i) {
    side& s = sides[i];
    if (s.replays.size() > 1) s.replays.erase(s.replays.begin()); // the other graph had just begun
    if (s.replays.empty()) s.replays.push_back(now - s.begun);    // longer than the window
    const auto middle = s.replays.begin() + static_cast<std::ptrdiff_t>(s.replays.size() / 2);
    std::nth_element(s.replays.begin(), middle, s.replays.end());
    slow[i] = std::max(1.0, *middle / s.chain->replay_us());
  }
  return slow;
}

} // namespace gsched
