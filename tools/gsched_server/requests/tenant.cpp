// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/tenant.hpp"

#include <algorithm>

namespace gsched_server {

gsched::duration tenant::take_token() {
  if (limits.rate == 0) return {};
  const clock::time_point now = clock::now();
  tokens = std::min(limits.burst, tokens + gsched::to_s(now - filled) * limits.rate);
  filled = now;
  if (tokens >= 1) {
    tokens -= 1;
    return {};
  }
  return std::max(gsched::from_us((1 - tokens) / limits.rate * 1e6), gsched::duration{1});
}

} // namespace gsched_server
