// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/devices/start_server.hpp"
#include "gsched_server/test_settings.hpp"

#include <gsched/core/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>

namespace {

using namespace std::chrono_literals;

gsched::duration spin_of(const std::string& text) {
  return gsched_server::server_options_of(settings_of(text), 0).spin;
}

TEST_CASE("the servers' threads look for work as long as the configuration says") {
  CHECK(spin_of("{}") == gsched::server_options{}.spin);
  CHECK(spin_of(R"({"spin_us": 20000})") == 20ms);
  CHECK(spin_of(R"({"spin_us": 0.5})") == 500ns);
  CHECK(spin_of(R"({"spin_us": 0})") == 0ms);
  for (const char* const wrong : {"-1", "1000001", "\"x\"", "null"}) {
    CAPTURE(wrong);
    try {
      (void)settings_of(std::string(R"({"spin_us": )") + wrong + "}");
      FAIL_CHECK("it was taken");
    } catch (const gsched::error& e) {
      const std::string line = e.what();
      CHECK(line.find("/spin_us") != std::string::npos);
      CHECK(line.find(", expected a number from 0 to 1000000") != std::string::npos);
    }
  }
}

TEST_CASE("a running server cannot take another spin_us") {
  const auto one = settings_of("{}"), other = settings_of(R"({"spin_us": 100})");
  CHECK(one.fixed_difference(one).empty());
  CHECK(one.fixed_difference(other) == "spin_us");
}

} // namespace
