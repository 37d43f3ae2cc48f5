// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/agent.hpp"
#include "gsched_server/operations/load.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace std::chrono_literals;
using gsched_server::agent_line;
using gsched_server::load_figures;

TEST_CASE("agent: the weight is what requests and queued time leave") {
  CHECK(agent_line({.most = 100}) == "up ready 100%\n");
  CHECK(agent_line({.active = 25, .most = 100}) == "up ready 75%\n");
  CHECK(agent_line({.active = 25, .most = 100, .queued = 600ms}) == "up ready 40%\n");
  CHECK(agent_line({.active = 101, .most = 100}) == "up ready 1%\n"); // 0 would take it out
  CHECK(agent_line({.most = 100, .queued = 5s}) == "up ready 1%\n");
}

TEST_CASE("agent: what ends or has failed gets nothing more") {
  CHECK(agent_line({.ready = false, .active = 3, .most = 100}) == "drain\n");
  CHECK(agent_line({.failed = true}).starts_with("down#"));
  CHECK(agent_line({.ready = false, .failed = true}).ends_with("\n"));
}
