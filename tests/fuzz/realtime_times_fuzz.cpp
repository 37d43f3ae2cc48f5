// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include "realtime/arrivals.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

/// Any bytes either are refused in one line, or are times of each client that do not fall; a source
/// that follows them, repeated and sped up, never goes back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gsched::fuzz::require;
  realtime::workload of;
  of.clients.resize(2);
  of.clients[0].name = "a";
  of.clients[1].name = "b";
  auto text =
      std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::vector<gsched::duration>> times;
  try {
    times = realtime::read_times(std::move(text), "t", of, {0});
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "t:");
    return 0;
  }
  require(times.size() == 2 && !times[0].empty());
  require(std::is_sorted(times[0].begin(), times[0].end()));
  realtime::arrival_spec how;
  how.law = realtime::arrival_law::trace;
  how.speedup = 3;
  how.repeat = times[0].back() + gsched::duration{1};
  realtime::client_source source(how, 1, times[0], 1);
  gsched::time_point last{};
  for (std::size_t i = 0; i < 3 * std::min<std::size_t>(times[0].size(), 1000); ++i) {
    const auto at = source.due();
    require(at && *at >= last);
    last = *at;
    source.take();
  }
  return 0;
}
