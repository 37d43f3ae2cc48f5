// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace common {

/// What make(0) to make(n - 1) return, in that order; as many of them run at a time as there are
/// threads. Errors   what they throw: the first in order, once all have ended.
template <class Result, class Make>
[[nodiscard]] std::vector<Result> side_by_side(std::size_t n, std::size_t threads, Make make) {
  std::vector<std::optional<Result>> ended(n);
  std::vector<std::exception_ptr> failed(n);
  std::atomic<std::size_t> next{0};
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t)
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < n; i = next++) {
          try {
            ended[i] = make(i);
          } catch (...) {
            failed[i] = std::current_exception();
          }
        }
      });
  }
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
  std::vector<Result> all;
  for (std::optional<Result>& r : ended) all.push_back(std::move(*r));
  return all;
}

} // namespace common
