// SPDX-License-Identifier: Apache-2.0
//
// Requests that are rejected as too many are active are told apart from those that would be late.
#include "realtime/options.hpp"
#include "realtime/platform.hpp"
#include "realtime/report.hpp"
#include "realtime/run.hpp"
#include "realtime/serve.hpp"
#include "serve_mix/configuration.hpp"
#include "serve_mix/options.hpp"
#include "serve_mix/platform.hpp"
#include "serve_mix/report.hpp"
#include "serve_mix/run.hpp"
#include "serve_mix/serve_under.hpp"

#include "common/input/profile_catalogue.hpp"
#include "common/run/simulated_backend.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using namespace gsched;

namespace {

/// A simulated H200 whose dispatcher takes so many jobs at once.
template <class Platform, class Order>
class limited : public Platform {
public:
  explicit limited(std::size_t most) : most_(most) {}
  [[nodiscard]] architecture_limits sm() const override { return gpu_.sm; }
  [[nodiscard]] std::string name() const override { return {}; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return 1; }
  [[nodiscard]] bool runs_in_parallel() const noexcept override { return false; }
  void serve(const Order& run) override { serve_on_backend(run); }

private:
  void serve_on_backend(const serve_mix::run_request& run) {
    common::simulated_backend on{gpu_, run.record};
    common::configuration how = serve_mix::configuration_of(run.policy, run.from);
    how.dispatch.max_jobs = most_;
    serve_mix::serve_on(how, run, on);
  }
  void serve_on_backend(const realtime::run_request& run) {
    common::simulated_backend on{gpu_, run.record};
    common::configuration how = run.how;
    how.dispatch.max_jobs = most_;
    const realtime::run_request few{how,          run.whole,  run.leaves, run.pad,
                                    run.clients,  run.models, run.from,   run.length,
                                    run.requests, run.record, run.result, run.progress};
    realtime::serve_on(on, few);
  }

  sim::preset gpu_ = sim::h200();
  std::size_t most_;
};

template <class Options>
Options parsed(std::optional<Options> (*parse)(int, const char* const*),
               std::initializer_list<const char*> words) {
  return parse(static_cast<int>(words.size()), words.begin()).value();
}

/// The reports on a run with room for so many jobs: a table, and JSON.
struct output {
  std::string table, json;
};

output serve_a_mix(std::size_t most) {
  const serve_mix::options o =
      parsed(serve_mix::parse_options,
             {"serve_mix", "--policy", "edf", "--load", "3", "--slo", "3", "--requests", "200"});
  limited<serve_mix::platform, serve_mix::run_request> on(most);
  std::vector<profile> models;
  for (const serve_mix::mix_entry& m : o.mix)
    models.push_back(common::load_model(m.profile, on.sm()));
  const serve_mix::workload_facts facts = serve_mix::facts_of(on, o, models);
  const auto runs = serve_mix::run_policies(on, o, facts, models, nullptr);
  std::ostringstream table, json;
  serve_mix::write_table(table, o, facts, runs, false);
  serve_mix::write_json(json, o, facts, runs);
  CHECK(runs[0].over_limit < runs[0].rejected); // others would be late
  return {table.str(), json.str()};
}

output serve_in_real_time(std::size_t most) {
  realtime::options o =
      parsed(realtime::parse_options, {"realtime", "--mode", "preempt", "--seconds", "0.05"});
  for (realtime::client_spec& c : o.work.clients) {
    c.arrivals = {};
    c.arrivals.law = realtime::arrival_law::uniform;
    c.arrivals.load = 2;
  }
  limited<realtime::platform, realtime::run_request> on(most);
  std::vector<profile> models;
  for (const auto& file : o.profiles) models.push_back(common::load_model(file, on.sm()));
  const realtime::workload_facts facts = realtime::facts_of(on, o, models);
  const auto runs = realtime::run_modes(on, o, facts, models, nullptr);
  std::ostringstream table, json;
  realtime::write_table(table, o, facts, runs, false);
  realtime::write_json(json, o, facts, runs);
  return {table.str(), json.str()};
}

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

} // namespace

TEST_CASE("over limit: serve_mix and realtime report what the limit on jobs rejects") {
  for (const auto& serve : {&serve_a_mix, &serve_in_real_time}) {
    const output few = serve(4), all = serve(std::size_t{1} << 20);
    CHECK(has(few.table, "over limit"));
    CHECK(!has(all.table, "over limit"));
    CHECK(has(few.json, "\"over_limit\": "));
    CHECK(!has(few.json, "\"over_limit\": 0"));
    CHECK(has(all.json, "\"over_limit\": 0"));
  }
}
