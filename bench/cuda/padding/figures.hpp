// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace padding {

/// Times of a kernel with a real-time part: means in microseconds over the rounds, without the
/// fastest and the slowest fifth.
struct figures {
  double part_us = 0;  ///< from the real-time part's start to its end
  double whole_us = 0; ///< from its start to the next kernel's: all parts, and the usual gap
};

} // namespace padding
