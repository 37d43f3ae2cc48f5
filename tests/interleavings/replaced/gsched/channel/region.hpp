// SPDX-License-Identifier: Apache-2.0
#pragma once

// In place of the library's: both sides' region is the same array, so that a run makes no system
// call.

#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/layout.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gsched::channel {

class region {
public:
  /// Zeroes the array.
  [[nodiscard]] static region make(std::uint32_t slots, std::uint64_t arena_bytes) {
    memory().fill(std::byte{0});
    return adopt_as(layout::of(slots, arena_bytes));
  }
  [[nodiscard]] static region adopt_as(const layout& l) { return region(l); }

  [[nodiscard]] const layout& shape() const noexcept { return layout_; }
  [[nodiscard]] int file() const noexcept { return -1; }
  void close_file() noexcept {}

  [[nodiscard]] client_words& words() const noexcept {
    return *at<client_words>(layout_.client_words_at());
  }
  [[nodiscard]] std::uint32_t* cancels() const noexcept {
    return at<std::uint32_t>(layout_.cancels_at());
  }
  [[nodiscard]] request_slot* requests() const noexcept {
    return at<request_slot>(layout_.requests_at());
  }
  [[nodiscard]] reply_slot* replies() const noexcept {
    return at<reply_slot>(layout_.replies_at());
  }
  [[nodiscard]] std::span<char> text(std::uint32_t slot) const noexcept {
    return {at<char>(layout_.texts_at() + slot * layout::text_bytes), layout::text_bytes};
  }
  [[nodiscard]] std::span<std::byte> arena() const noexcept {
    return {at<std::byte>(layout_.arena_at()), layout_.arena_bytes};
  }
  /// What the two sides wait and ask with.
  [[nodiscard]] std::span<std::byte> shared_part() const noexcept {
    return {at<std::byte>(0), layout_.texts_at()};
  }

private:
  explicit region(const layout& l) : layout_(l) {}
  static std::array<std::byte, 8192>& memory() noexcept {
    alignas(64) static std::array<std::byte, 8192> m;
    return m;
  }
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(memory().data() + offset);
  }

  layout layout_;
};

} // namespace gsched::channel
