// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/program.hpp>
#include <gsched/preempt/colocate/room.hpp>
#include <gsched/preempt/colocate/selection.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gsched {

/// Some blocks of a best-effort kernel that are launched with a real-time kernel, in one grid and
/// after its blocks.
struct pad_part {
  std::uint32_t host_operation = 0; ///< of the real-time program
  std::uint32_t guest = 0;
  std::uint32_t guest_operation = 0;
  std::uint32_t variant = 0; ///< of that operation, in the pad_program's order
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t level = 0; ///< of the whole padded kernel: the same for all of its parts
  bool operator==(const pad_part&) const noexcept = default;
};

/// A best-effort program and how far it has got.
struct pad_guest {
  const pad_program* program = nullptr;
  std::uint32_t operation = 0; ///< the next one
  std::uint32_t block = 0;     ///< of it: the blocks before this one have run
  std::uint32_t variant = 0;   ///< where block > 0: the one that those ran as
  bool operator==(const pad_guest&) const noexcept = default;
};

/// Pads real-time programs with the kernels of best-effort ones.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, sections 5.2 and 5.3: for
///          each real-time kernel in turn, of the guests' next kernels that meet both rules the one
///          with the shortest kernel time takes what room it can use, until there is no room or no
///          candidate.
/// Differs  a kernel may be spread over several real-time kernels by ranges of its blocks, all of
///          one variant. Kernel j + 1 of a guest begins in a later real-time kernel than the one in
///          which kernel j ends, as only then all of j's results are there.
///          Greedy, as the paper. With one guest of one variant a kernel no plan gets further: a
///          plan that is behind stays behind. With several it need not be the best: the shortest
///          kernel can take the place, or be one part too many, where a longer one has more blocks
///          to give, and no constant bounds the loss. What holds is that no room is wasted: unless
///          all parts are used up, any place that is left is too short for every guest that may
///          have it.
/// Order    deterministic: parts by host operation, then as they were chosen; ties as pad_selector.
/// Errors   the constructor: bad_option.
/// Cost     O(host kernels x parts x (guests x variants)); no allocation after construction.
/// Threads  one owner; no locking.
class pad_planner {
public:
  pad_planner(const pad_options& o, std::size_t max_guests, std::size_t max_variants)
      : options_((o.check(), o)), candidates_(max_guests, max_variants) {}

  /// Pads operations [first, last) of a real-time program and moves the guests on to where they
  /// then are. Returns how many parts it wrote; ends early where `out` is full, and what was
  /// written holds. At most max_guests guests, none of more than max_variants variants a kernel.
  std::size_t plan(const pad_program& real_time, std::size_t first, std::size_t last,
                   std::span<pad_guest> guests, std::span<pad_part> out) noexcept {
    assert(first <= last && last <= real_time.size());
    std::size_t n = 0;
    for (std::uint32_t g = 0; g < guests.size(); ++g) offer(g, guests[g]);
    for (std::size_t i = first; i < last && n < out.size(); ++i) {
      if (real_time.variants(i).empty()) continue;
      n +=
          pad(real_time.variants(i).front(), static_cast<std::uint32_t>(i), guests, out.subspan(n));
    }
    for (std::uint32_t g = 0; g < guests.size(); ++g) candidates_.erase(g);
    return n;
  }

  [[nodiscard]] const pad_options& options() const noexcept { return options_; }

private:
  void offer(std::uint32_t g, const pad_guest& guest) noexcept {
    if (guest.operation >= guest.program->size()) {
      candidates_.erase(g);
      return;
    }
    std::span<const kernel_variant> variants = guest.program->variants(guest.operation);
    if (guest.block > 0) // of a program that may have no such variant here: then it waits
      variants = variants.subspan(std::min<std::size_t>(guest.variant, variants.size()));
    if (guest.block > 0 && !variants.empty()) variants = variants.first(1);
    candidates_.set(g, variants);
  }

  /// One real-time kernel.
  std::size_t pad(const kernel_variant& host, std::uint32_t at, std::span<pad_guest> guests,
                  std::span<pad_part> out) noexcept {
    pad_room room(host, options_);
    std::size_t n = 0;
    while (n < out.size()) {
      const std::optional<pad_pick> c = candidates_.select(room.terms());
      if (!c) break;
      pad_guest& guest = guests[c->task];
      if (guest.block == 0) guest.variant = c->variant;
      const kernel_variant& k = guest.program->variants(guest.operation)[guest.variant];
      const std::uint32_t taken = room.take(k, k.blocks - guest.block);
      out[n++] = {at, c->task, guest.operation, guest.variant, guest.block, taken, 0};
      guest.block += taken;
      candidates_.erase(c->task); // one part a guest
    }
    for (pad_part& p : out.first(n)) {
      p.level = room.level();
      pad_guest& guest = guests[p.guest];
      if (guest.block == guest.program->variants(guest.operation)[guest.variant].blocks)
        guest = {guest.program, guest.operation + 1, 0, 0};
      offer(p.guest, guest);
    }
    return n;
  }

  pad_options options_;
  pad_selector candidates_;
};

} // namespace gsched
