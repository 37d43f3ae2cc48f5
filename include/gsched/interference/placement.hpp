// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/replay_law.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

namespace gsched {

/// A running kernel and the blocks that it has.
struct resident_kernel {
  const chain_kernel* kernel = nullptr;
  double left = 1;      ///< part of its work
  double placed = 1;    ///< its blocks, as a part of those that the empty SMs would hold
  double held = 1;      ///< part of these that have not ended
  bool waiting = false; ///< it has blocks that are not placed yet
  double until = 0;     ///< the remaining work at which `held` or `waiting` changes next
};

/// Places the blocks of kernels that share their SMs, from the oldest to the youngest: sets all
/// fields but kernel and left.
///
/// The GPU places the blocks of the older kernel first. While that has more blocks than the SMs
/// hold, a younger kernel gets none. Then it gets the space that the resident blocks of older
/// kernels leave on each SM, and the space that these free as they end.
///
/// Source   Elvinger et al., SoCC 2025, section 4.2, doi:10.1145/3772052.3772270.
/// Cost     O(kernels x 3^older kernels); with two kernels some 40 divisions. Of more than six
///          older kernels the youngest six count.
inline void place_blocks(std::span<resident_kernel> oldest_first, double sms,
                         const replay_law& law) noexcept;

/// The part of a kernel's SMs that also hold blocks of another kernel. Both cover a part of the SMs,
/// above 0 to 1: as the GPU places a block on the emptiest SM, they meet only where they must.
[[nodiscard]] inline double shared_part(double own_coverage, double other_coverage) noexcept {
  if (!(own_coverage > 0)) return 0; // a copy
  return std::max(0.0, own_coverage + other_coverage - 1) / own_coverage;
}

/// By how much to raise the shared parts of a kernel's neighbours, which add up to `shared`. The
/// blocks of a kernel of one wave end with the slowest of them, so one SM that is shared counts like
/// all; over several waves the free SMs do more blocks, and the mean counts.
[[nodiscard]] inline double raised_by_slowest(double shared, double waves) noexcept {
  constexpr double waves_to_even_out = 2; // in addition to the first
  constexpr double all_from = 0.1;        // part of the SMs that counts like all
  const double even = std::clamp((waves - 1) / waves_to_even_out, 0.0, 1.0);
  if (!(shared > 0) || shared >= 1) return 1;
  return 1 + (1 - even) * (std::min(1.0, shared / all_from) / shared - 1);
}

namespace detail {

using sm_parts = std::array<double, 4>;

/// The blocks of a kernel that fit on an SM of which these parts are taken.
[[nodiscard]] inline double blocks_that_fit(const chain_kernel& k, const sm_parts& taken) noexcept {
  constexpr double tiny = 1e-9;
  double fit = k.per_sm;
  for (std::size_t r = 0; r < taken.size(); ++r)
    if (k.shares[r] > 0)
      fit = std::min(fit, std::floor(std::max(0.0, 1 - taken[r]) / k.shares[r] + tiny));
  return fit;
}

/// The blocks of a kernel that fit on an SM beside older kernels, averaged over all SMs.
[[nodiscard]] inline double room_beside(const chain_kernel& k,
                                        std::span<const resident_kernel> older,
                                        const sm_parts& taken, double sms) noexcept {
  if (older.empty()) return blocks_that_fit(k, taken);
  const resident_kernel& o = older.back();
  const auto rest = older.first(older.size() - 1);
  if (!(o.kernel->blocks > 0)) return room_beside(k, rest, taken, sms);
  const double resident = std::min(o.kernel->blocks / sms, o.kernel->per_sm) * o.placed;
  const double less = std::floor(resident);
  const double more = resident - less; // part of the SMs with one more of its blocks
  const auto with = [&](double blocks) {
    sm_parts now = taken;
    for (std::size_t r = 0; r < now.size(); ++r) now[r] += blocks * o.kernel->shares[r];
    return room_beside(k, rest, now, sms);
  };
  double room = o.held < 1 ? (1 - o.held) * with(0) : 0;
  if (more < 1) room += o.held * (1 - more) * with(less);
  if (more > 0) room += o.held * more * with(less + 1);
  return room;
}

/// Sets held, waiting and until.
inline void advance_tail(resident_kernel& r, double sms, const replay_law& law) noexcept {
  constexpr double steps = 4; // discrete stages of the tail
  constexpr double tiny = 1e-9;
  r.held = 1;
  r.waiting = false;
  r.until = 0;
  if (!(r.kernel->blocks > 0)) return;
  const double waves = r.kernel->waves(sms);
  const double blocks_left = r.left * waves; // in waves
  const double tail = std::clamp(law.tail, 0.0, 1.0);
  if (waves > 1 && blocks_left > 1 + tiny) {
    r.waiting = true;
    r.until = 1 / waves;
  } else if (!(tail > 0) || blocks_left > tail + tiny) {
    r.until = tail / waves;
  } else {
    const double step = std::clamp(std::ceil(blocks_left / tail * steps - tiny), 1.0, steps);
    r.held = (step - 0.5) / steps;
    r.until = (step - 1) / steps * tail / waves;
  }
}

} // namespace detail

inline void place_blocks(std::span<resident_kernel> oldest_first, double sms,
                         const replay_law& law) noexcept {
  constexpr double tiny = 1e-9;
  constexpr std::size_t most = 6;
  bool waiting = false;
  for (std::size_t i = 0; i < oldest_first.size(); ++i) {
    resident_kernel& r = oldest_first[i];
    const chain_kernel& k = *r.kernel;
    detail::advance_tail(r, sms, law);
    r.placed = 1;
    if (!(k.blocks > 0)) continue; // a copy needs no SM
    if (waiting) {
      r.placed = 0;
    } else if (i > 0) {
      const auto older = oldest_first.subspan(i > most ? i - most : 0, std::min(i, most));
      const double wanted = std::min(k.blocks, sms * k.per_sm);
      r.placed = std::min(1.0, sms * detail::room_beside(k, older, {}, sms) / wanted);
    }
    waiting = waiting || r.waiting || r.placed < 1 - tiny;
  }
}

} // namespace gsched
