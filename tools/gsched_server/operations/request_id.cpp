// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/request_id.hpp"

#include <sys/random.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gsched_server {

namespace {

std::uint64_t random_start() {
  std::uint64_t n = 0;
  if (::getrandom(&n, sizeof n, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof n))
    n = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  return n;
}

} // namespace

std::string make_request_id() {
  static std::atomic<std::uint64_t> next{random_start()};
  // Source: Steele, Lea, Flood, OOPSLA 2014, doi:10.1145/2660193.2660195: a bijection that mixes.
  std::uint64_t n = next.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
  n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
  n ^= n >> 31;
  static constexpr std::array<char, 17> digits{"0123456789abcdef"};
  std::string id(16, '0');
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = digits[n >> (4 * i) & 15];
  return id;
}

} // namespace gsched_server
