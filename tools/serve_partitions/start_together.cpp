// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/start_together.hpp"

#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <system_error>
#include <thread>

namespace serve_partitions {

using common::run_error;
using gsched::errc;

namespace {

using clock = std::chrono::steady_clock; // CLOCK_MONOTONIC: one for all processes

/// The last part of the wait is a loop, as a sleep may end late.
void wait_until(clock::time_point at) {
  std::this_thread::sleep_until(at - std::chrono::milliseconds{1});
  while (clock::now() < at) {
  }
}

} // namespace

void start_together(const std::filesystem::path& folder, const std::string& name) {
  constexpr std::chrono::minutes longest{10}, most_ahead{1};
  const std::filesystem::path go = folder / "go";
  if (!std::ofstream(folder / ("ready." + name)).flush())
    throw run_error(errc::io, "--start-with " + folder.string() +
                                  ": cannot be written to, expected a folder that others share");
  const clock::time_point until = clock::now() + longest;
  std::error_code ignored;
  while (!std::filesystem::exists(go, ignored)) {
    if (!std::filesystem::is_directory(folder, ignored))
      throw run_error(errc::io, "--start-with " + folder.string() +
                                    ": the folder is gone, expected the file go in it");
    if (clock::now() > until)
      throw run_error(errc::io,
                      go.string() + ": not there after 600 s, expected a time to start at");
    std::this_thread::sleep_for(std::chrono::microseconds{500});
  }
  std::int64_t ns = 0;
  std::ifstream from(go);
  const clock::time_point now = clock::now();
  const bool is_number = static_cast<bool>(from >> ns);
  const clock::time_point at{std::chrono::nanoseconds{is_number ? ns : 0}};
  if (!is_number || ns < 0 || at > now + most_ahead)
    throw run_error(errc::io, go.string() +
                                  ": expected a time of the monotonic clock in ns, at most "
                                  "a minute ahead");
  wait_until(at);
}

} // namespace serve_partitions
