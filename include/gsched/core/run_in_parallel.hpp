// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace gsched {

/// The results of make(0) to make(n - 1), in that order, run on that many threads.
///
/// Errors   those of make: the first by index, once all have ended; std::system_error if no thread
///          can be started.
/// Cost     starts and ends the threads. For set-up.
/// Threads  make is called on several at once; the call returns when all have ended.
template <class Result, class Make>
[[nodiscard]] std::vector<Result> run_in_parallel(std::size_t n, std::size_t threads, Make make) {
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
  all.reserve(n);
  for (std::optional<Result>& r : ended) all.push_back(std::move(*r));
  return all;
}

} // namespace gsched
