// SPDX-License-Identifier: Apache-2.0
#pragma once

// In place of the library's: the server's words, where both sides see them.

#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/detail/messages.hpp>

namespace gsched::channel::detail {

class server_page {
public:
  /// The server's: zero.
  server_page() { one() = {}; }
  explicit server_page(file_descriptor) {}

  [[nodiscard]] server_words& words() const noexcept { return one(); }

private:
  static server_words& one() noexcept {
    static server_words w;
    return w;
  }
};

} // namespace gsched::channel::detail
