// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/layout.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace gsched::channel::detail {

/// What the two sides say on the socket, one packet each; requests and replies are in the region.
enum class message_kind : std::uint32_t {
  hello = 1,   ///< client, first; with the region's file
  welcome = 2, ///< server; with the file of its page
  refusal = 3, ///< server, last: `text` says why
  list = 4,    ///< client: which models are there?
  model = 5,   ///< server, for each; `left` counts those that follow
  wake = 6,    ///< either: look at the ring
};

/// Names of models, and lines of errors, are cut to so many bytes.
inline constexpr std::size_t most_text = 192;
using text_field = std::array<char, most_text>;

inline void set_text(text_field& to, std::string_view text) noexcept {
  to = {};
  std::copy_n(text.data(), std::min(text.size(), to.size() - 1), to.data());
}
[[nodiscard]] inline std::string_view get_text(const text_field& from) noexcept {
  return {from.data(),
          static_cast<std::size_t>(std::find(from.begin(), from.end(), '\0') - from.begin())};
}

/// One packet. Which fields count depends on the kind; the others are zero.
struct message {
  std::uint64_t magic = channel::magic;
  std::uint32_t version = channel::version;
  message_kind kind = message_kind::wake;
  std::uint32_t client = 0;       ///< welcome: the server's number of the client
  std::uint32_t in_flight = 0;    ///< welcome: the most requests at once
  std::uint64_t bytes = 0;        ///< welcome: the most bytes of payload in flight
  std::uint32_t id = 0;           ///< model
  std::uint32_t left = 0;         ///< model: so many follow; list answered by none: kind list
  std::uint64_t input_bytes = 0;  ///< model
  std::uint64_t output_bytes = 0; ///< model
  std::int64_t ends_ns = 0;       ///< wake: when a request is expected to end; 0: one has
  text_field text{};              ///< refusal; model: its name
};
static_assert(std::is_trivially_copyable_v<message> && sizeof(message) == 256);

/// What a server tells all its clients, in a page that they can only read.
struct alignas(sync::cache_line) server_words {
  std::uint32_t asleep = 0; ///< wake it after a request
  std::uint32_t closed = 0; ///< it takes no more requests
};

} // namespace gsched::channel::detail
