// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/notification_ring.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace soak {

/// Records every word for its launch: the launches of a slot follow one another, each with all its
/// blocks once, and never more ended than started blocks. A lost word leaves its launch incomplete;
/// a duplicate, or an early word, is detected at once.
class books {
public:
  explicit books(std::uint32_t sms) : sms_(sms) {}

  /// For a slot that was just taken.
  void open(gsched::cuda::launch_slot s, std::uint32_t blocks) {
    const auto at = static_cast<std::size_t>(s);
    if (at >= pages_.size()) pages_.resize(at + 1);
    pages_[at] = {static_cast<std::uint32_t>(at << gsched::cuda::replay_bits), blocks, 0, 0, 0};
  }

  void operator()(const gsched::notification& n) noexcept {
    ++words_;
    const std::size_t at = n.instance >> gsched::cuda::replay_bits;
    if (at >= pages_.size() || pages_[at].instance != n.instance) {
      ++strays_;
      return;
    }
    page& p = pages_[at];
    if (n.sm >= sms_) ++bad_sms_;
    if (n.type == gsched::notification_type::blocks_started) {
      p.started += n.blocks;
      if (p.started > p.blocks) ++disorder_;
      return;
    }
    p.ended += n.blocks;
    if (p.ended > p.started) ++disorder_;
    if (p.ended < p.blocks) return;
    p.started = 0;
    p.ended = 0;
    p.instance = gsched::cuda::next_instance(p.instance);
    ++p.launches;
    ++launches_;
  }

  /// The number of complete launches of a slot since it was opened.
  [[nodiscard]] std::uint64_t launches_of(gsched::cuda::launch_slot s) const noexcept {
    return pages_[static_cast<std::size_t>(s)].launches;
  }
  [[nodiscard]] std::uint64_t words() const noexcept { return words_; }
  [[nodiscard]] std::uint64_t launches() const noexcept { return launches_; }
  [[nodiscard]] std::uint64_t strays() const noexcept { return strays_; }
  [[nodiscard]] std::uint64_t bad_sms() const noexcept { return bad_sms_; }
  [[nodiscard]] std::uint64_t disorder() const noexcept { return disorder_; }

private:
  struct page {
    std::uint32_t instance = ~0u; ///< of the launch that runs or is next
    std::uint32_t blocks = 0;
    std::uint32_t started = 0;
    std::uint32_t ended = 0;
    std::uint64_t launches = 0;
  };
  std::uint32_t sms_;
  std::vector<page> pages_;
  std::uint64_t words_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t strays_ = 0;
  std::uint64_t bad_sms_ = 0;
  std::uint64_t disorder_ = 0;
};

} // namespace soak
