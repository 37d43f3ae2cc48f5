// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// The number of blocks that each holder has on each SM, so that they can be taken back exactly.
///
/// A notification names one SM for a group of blocks, that of its last block, and the groups that
/// end differ from the groups that started. So the blocks of an end are taken from the named SM as
/// far as the holder has blocks there, and the rest from its other SMs. The count of each SM is
/// then correct within one group, no count is negative, and all return to zero together.
///
/// Cost     place O(1); take O(1) for a group, because every step returns a block; one allocation,
///          in the constructor, of 8 bytes for each holder and SM.
/// Threads  one owner; no locking.
class sm_ledger {
public:
  sm_ledger(std::size_t holders, std::uint32_t sms)
      : sms_(sms), cells_(holders * sms), first_(holders, none) {
    assert(sms < none);
  }

  void place(std::uint32_t holder, std::uint32_t sm, std::uint32_t blocks) noexcept {
    assert(sm < sms_);
    if (blocks == 0) return;
    cell& c = at(holder, sm);
    if (c.blocks == 0) link(holder, static_cast<std::uint16_t>(sm));
    c.blocks += blocks;
  }

  /// Takes back up to that many blocks, those on `sm` first, and calls given_back(sm, blocks) for
  /// each SM concerned. Returns the number of blocks taken back.
  template <class F>
  std::uint64_t take(std::uint32_t holder, std::uint32_t sm, std::uint64_t blocks,
                     F&& given_back) noexcept {
    assert(sm < sms_);
    std::uint64_t left = blocks;
    if (at(holder, sm).blocks > 0) left -= take_at(holder, sm, left, given_back);
    while (left > 0 && first_[holder] != none)
      left -= take_at(holder, first_[holder], left, given_back);
    return blocks - left;
  }

  [[nodiscard]] std::uint32_t blocks(std::uint32_t holder, std::uint32_t sm) const noexcept {
    return cells_[std::size_t{holder} * sms_ + sm].blocks;
  }

private:
  static constexpr std::uint16_t none = 0xffff;

  struct cell {
    std::uint32_t blocks = 0;
    std::uint16_t before = none; ///< neighbours in the list of the holder's SMs with blocks
    std::uint16_t after = none;
  };

  [[nodiscard]] cell& at(std::uint32_t holder, std::uint32_t sm) noexcept {
    return cells_[std::size_t{holder} * sms_ + sm];
  }

  template <class F>
  std::uint64_t take_at(std::uint32_t holder, std::uint32_t sm, std::uint64_t most,
                        F& given_back) noexcept {
    cell& c = at(holder, sm);
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(c.blocks, most));
    c.blocks -= n;
    if (c.blocks == 0) unlink(holder, sm);
    given_back(sm, n);
    return n;
  }

  void link(std::uint32_t holder, std::uint16_t sm) noexcept {
    cell& c = at(holder, sm);
    c.before = none;
    c.after = first_[holder];
    if (c.after != none) at(holder, c.after).before = sm;
    first_[holder] = sm;
  }

  void unlink(std::uint32_t holder, std::uint32_t sm) noexcept {
    const cell& c = at(holder, sm);
    (c.before == none ? first_[holder] : at(holder, c.before).after) = c.after;
    if (c.after != none) at(holder, c.after).before = c.before;
  }

  std::uint32_t sms_;
  std::vector<cell> cells_;
  std::vector<std::uint16_t> first_;
};

} // namespace gsched
