// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/service.hpp"
#include "gsched_server/settings/settings.hpp"
#include "gsched_server/test_settings.hpp"

#include <gsched/core/error.hpp>
#include <gsched/dispatch/corun_rule.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

using namespace std::chrono_literals;
using gsched_server::settings;

namespace {

/// Of a request at a time beside batches, of which each slows the other.
const std::string models = R"("models": {"short": {"profile": "resnet50_b1"},
                                         "long": {"profile": "vgg16_b32"}})";

/// By a file of measured pairs, which is soon read.
const std::string measured =
    "\"slow_downs\": \"" + std::string(GSCHED_SOURCE_DIR) + "/tools/data/corun_pairs.csv\", ";

bool may_share(const settings& s, const std::string& one, const std::string& other) {
  const gsched::corun_rule& rule = *s.apart.at(0);
  const std::array both{rule.row_of(one), rule.row_of(other)};
  return rule.allows(both);
}

/// The value of a metric of the first device, after requests of both models at once.
double apart_total(const settings& how) {
  gsched_server::service to(how);
  std::atomic<int> served{0};
  for (int i = 0; i < 12; ++i)
    for (const char* name : {"short", "long"}) {
      gsched_server::service_request what;
      what.model = to.find(name);
      static_cast<void>(to.infer(std::move(what), [&](const gsched_server::answer& a) {
        served += a.what == gsched_server::outcome::ok;
      }));
    }
  CHECK(to.wait_idle(60s));
  CHECK(served == 24);
  const std::string all = to.metrics(), name = "\ngsched_apart_total{device=\"0\"} ";
  const auto at = all.find(name);
  REQUIRE(at != std::string::npos);
  return std::stod(all.substr(at + name.size()));
}

} // namespace

TEST_CASE("neighbour rules: slow-downs are predicted from the profiles") {
  const settings strict = settings_of("{\"slow_down_limit\": 1.5, " + models + "}");
  CHECK_FALSE(may_share(strict, "short", "long"));
  CHECK(may_share(strict, "short", "short"));
}

TEST_CASE("neighbour rules: models with a limit are kept apart") {
  const settings strict = settings_of("{\"slow_down_limit\": 1.5, " + measured + models + "}");
  CHECK_FALSE(may_share(strict, "short", "long"));
  const settings loose = settings_of("{\"slow_down_limit\": 100, " + measured + models + "}");
  CHECK(may_share(loose, "short", "long"));
  CHECK(settings_of("{" + models + "}").apart.empty());
  CHECK(apart_total(strict) > 0);
  CHECK(apart_total(loose) == 0);
  CHECK(apart_total(settings_of("{" + models + "}")) == 0);
}

TEST_CASE("neighbour rules: a model can have a limit of its own") {
  const auto limits = [](const std::string& all, const std::string& of_short,
                         const std::string& of_long) {
    return settings_of("{" + all + measured + R"("models": {"short": {"profile": "resnet50_b1")" +
                       of_short + R"(}, "long": {"profile": "vgg16_b32")" + of_long + "}}}");
  };
  // It is the short one that is slowed.
  CHECK(may_share(limits("", "", R"(, "slow_down_limit": 1.5)"), "short", "long"));
  CHECK_FALSE(may_share(limits("", R"(, "slow_down_limit": 1.5)", ""), "short", "long"));
  CHECK(may_share(limits(R"("slow_down_limit": 1.5, )", R"(, "slow_down_limit": 100)", ""), "short",
                  "long"));
}

TEST_CASE("neighbour rules: devices of one name have one rule") {
  const settings s = settings_of(R"({"device": ["sim", "sim"], "slow_down_limit": 1.5, )" +
                                 measured + models + "}");
  REQUIRE(s.apart.size() == 2);
  CHECK(s.apart[0] == s.apart[1]);
}

TEST_CASE("neighbour rules: what a reload cannot change") {
  const std::string limit = "{\"slow_down_limit\": 1.5, " + measured;
  const settings s = settings_of(limit + models + "}");
  CHECK(s.fixed_difference(s).empty());
  CHECK_FALSE(
      s.fixed_difference(settings_of("{\"slow_down_limit\": 1.2, " + measured + models + "}"))
          .empty());
  CHECK_FALSE(s.fixed_difference(settings_of("{" + models + "}")).empty());
  const std::string one = R"("models": {"short": {"profile": "resnet50_b1"},
                                        "other": {"profile": "vgg16_b32"}})";
  CHECK_FALSE(s.fixed_difference(settings_of(limit + one + "}")).empty());
  CHECK(settings_of("{" + models + "}").fixed_difference(settings_of("{" + one + "}")).empty());
}

TEST_CASE("neighbour rules: what cannot be right is refused in one line") {
  const auto refusal = [](const std::string& text) {
    try {
      static_cast<void>(settings_of(text));
    } catch (const gsched::error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  for (const auto& [text, says] : {
           std::array<std::string, 2>{R"({"slow_down_limit": 0.9})", "/slow_down_limit is 0.9"},
           {R"({"slow_downs": "predicted", "models": {"lenet_b1": {}}})", "without a limit"},
           {R"({"slow_down_limit": 2, "models": {"bert_base_b1": {}}})",
            "/slow_down_limit: no counters of the kernels of 'bert_base_b1'"},
           {R"({"slow_down_limit": 2, "slow_downs": "none.csv", "models": {"lenet_b1": {}}})",
            "/slow_downs: 'none.csv' does not exist"},
       }) {
    const std::string said = refusal(text);
    CAPTURE(said);
    CHECK(said.find(says) != std::string::npos);
    CHECK(said.find(", expected ") != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
}
