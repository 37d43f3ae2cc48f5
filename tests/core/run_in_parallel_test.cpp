// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/run_in_parallel.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace gsched {

TEST_CASE("run in parallel: results are in order, each is made once") {
  for (const std::size_t threads : {1u, 3u, 40u}) {
    std::atomic<int> calls{0};
    const std::vector<std::string> all = run_in_parallel<std::string>(20, threads, [&](auto i) {
      ++calls;
      return std::to_string(i);
    });
    CHECK(calls == 20);
    REQUIRE(all.size() == 20);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == std::to_string(i));
  }
  CHECK(run_in_parallel<int>(0, 0, [](auto) { return 1; }).empty());
}

TEST_CASE("run in parallel: the first error by index is thrown, once all have ended") {
  std::atomic<int> calls{0};
  std::string said;
  try {
    static_cast<void>(run_in_parallel<int>(10, 4, [&](std::size_t i) -> int {
      ++calls;
      if (i == 3 || i == 7) throw std::runtime_error(std::to_string(i));
      return 0;
    }));
  } catch (const std::runtime_error& e) {
    said = e.what();
  }
  CHECK(said == "3");
  CHECK(calls == 10);
}

} // namespace gsched
