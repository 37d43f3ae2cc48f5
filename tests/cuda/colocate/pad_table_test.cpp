// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/colocate/pad_table.hpp>
#include <gsched/occupancy/limits.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

using cuda::pad_launch;
using cuda::pad_proxy;
using cuda::pad_request;
using cuda::pad_table;

/// Register limits for blocks of 256 threads, of which an SM holds 8, 4, 2 and 1.
pad_table table() {
  cuda::gpu on;
  on.sm = limits_for(9, 0);
  std::vector<pad_proxy> proxies;
  for (const std::uint32_t limit : {32u, 64u, 128u, 255u})
    proxies.push_back({nullptr, limit, limit, 0});
  proxies[1].registers = 60;
  proxies[2].static_shared_bytes = 1024;
  const std::vector<std::uint32_t> demands{32, 33, 130, 30};
  return {on, proxies, demands, 2};
}

pad_launch chosen(const pad_table& t, const std::vector<pad_request>& requests) {
  CHECK(t.why_not(requests) == "");
  const auto c = t.choose(requests);
  REQUIRE(c);
  return *c;
}

TEST_CASE("the proxy with the fewest registers that suffice for all functions is chosen") {
  const pad_table t = table();
  const pad_proxy* const first = t.proxies().data();
  pad_launch c = chosen(t, {{0, 100, 256}});
  CHECK(c.proxy == first);
  CHECK(c.blocks == 100);
  CHECK(c.threads == 256);
  CHECK(c.blocks_per_sm == 8);
  c = chosen(t, {{0, 100, 256}, {1, 7, 128}}); // one more register needs the next level
  CHECK(c.proxy == first + 1);
  CHECK(c.blocks == 107);
  CHECK(c.blocks_per_sm == 4);
  c = chosen(t, {{1, 7, 128}}); // an SM holds more blocks with fewer threads
  CHECK(c.threads == 128);
  CHECK(c.blocks_per_sm == 8);
  c = chosen(t, {{0, 5, 256, 100'000}, {1, 7, 128, 200}});
  CHECK(c.shared_bytes == 100'000); // the maximum, not the sum
  CHECK(c.blocks_per_sm == 2);
  c = chosen(t, {{0, 1, 256, 0, 65}}); // the requested number of registers
  CHECK(c.proxy == first + 2);
  c = chosen(t, {{0, 0, 256, 99}, {3, 6, 1024, 10}, {0, 1, 256, 20}}); // no real-time function
  CHECK(c.blocks == 7);
  CHECK(c.threads == 1024);
  CHECK(c.shared_bytes == 20);
}

TEST_CASE("requests that no proxy can run are refused with the reason") {
  const pad_table t = table();
  const auto why = [&](const std::vector<pad_request>& requests) {
    CHECK(!t.choose(requests));
    return t.why_not(requests);
  };
  CHECK(why({}) == "padded kernel: no parts, expected at least one");
  CHECK(why({{0, 1, 256}, {0, 1, 256}, {0, 1, 256}, {0, 1, 256}}) ==
        "padded kernel: 3 co-runners, expected at most 2");
  CHECK(why({{4, 1, 256}}) ==
        "padded kernel: real-time part: a function that the family does not have in this role");
  CHECK(why({{0, 1, 256}, {pad_request::unknown, 1, 256}}) ==
        "padded kernel: co-runner 0: a function that the family does not have in this role");
  CHECK(why({{0, 1, 256}, {0, 1, 256}, {0, 0, 256}}) ==
        "padded kernel: co-runner 1: no blocks, expected some");
  CHECK(why({{0, 0, 256}}) == "padded kernel: 0 blocks, expected 1 to 2147483647");
  CHECK(why({{0, 0x7fffffff, 256}, {0, 1, 256}}) ==
        "padded kernel: 2147483648 blocks, expected 1 to 2147483647");
  CHECK(why({{0, 1, 256, 232'449}}) ==
        "padded kernel: 232449 bytes of shared memory a block, expected "
        "at most 232448");
  CHECK(why({{0, 1, 256}, {0, 1, 1056}}) ==
        "padded kernel: co-runner 0: 1056 threads a block, expected a multiple of 32 up to 1024");
  CHECK(why({{0, 1, 100}}).find("100 threads a block") != std::string::npos);
  CHECK(why({{0, 1, 0}}).find("real-time part: 0 threads a block") != std::string::npos);
  CHECK(why({{2, 1, 512}}) ==
        "padded kernel: 255 registers for each of 512 threads, expected at most 65536 in all");
  CHECK(why({{3, 1, 1024}, {2, 1, 512}}).find("1024 threads") != std::string::npos);
}

} // namespace
} // namespace gsched::testing
