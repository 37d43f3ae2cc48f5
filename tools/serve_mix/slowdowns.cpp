// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/slowdowns.hpp"

#include "common/cli/option_values.hpp"
#include "common/input/measured_on.hpp"

#include <gsched/core/id.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/interference/beyond_fit.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/pair_slowdowns.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/corun_csv.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace serve_mix {

using namespace gsched;

namespace {

/// Two clients, each with one request of its model in flight, until both have had enough replies.
class pair_arrivals {
public:
  explicit pair_arrivals(std::uint64_t replies) : replies_(replies) {
    for (std::uint32_t side = 0; side < 2; ++side)
      ready_.push_back({time_point{}, side, client_id{side}});
  }
  [[nodiscard]] std::optional<arrival> next() {
    if (ready_.empty()) return std::nullopt;
    const arrival first = ready_.front();
    ready_.pop_front();
    return first;
  }
  void on_reply(client_id client, time_point now) {
    ++had_[index(client)];
    if (std::min(had_[0], had_[1]) >= replies_) return;
    ready_.push_back({now, index(client), client});
  }

private:
  std::uint64_t replies_;
  std::array<std::uint64_t, 2> had_{};
  std::deque<arrival> ready_;
};

/// Calls slowdowns(i, j) for each pair of n models, once; sets them in both directions.
template <class F>
void for_each_pair(found_slowdowns& into, std::size_t n, F slowdowns) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      const std::array<double, 2> slow = slowdowns(i, j);
      into.by[i][j] = i == j ? std::max(slow[0], slow[1]) : slow[0];
      if (i != j) into.by[j][i] = slow[1];
    }
  }
}

/// Of model i beside model j, and the reverse.
std::array<double, 2> measured(platform& on, const options& from, std::span<const profile> models,
                               const workload_facts& facts, std::size_t i, std::size_t j) {
  constexpr std::uint64_t least_replies = 9; // so that the median is no start or end
  constexpr std::uint64_t most_requests = 20'000;
  options pair = from;
  pair.mix = {from.mix[i], from.mix[j]};
  pair.clients = 2;
  pair.slo.reset();
  pair.decision_delay = {};
  pair.submission = submission::graph;
  const std::vector<profile> both{models[i], models[j]};
  run_result r("direct", pair);
  source_of source{pair_arrivals(std::max(least_replies, on.solo_requests()))};
  on.serve({r.policy, pair, most_requests, source, both, nullptr, r, {}, [](std::uint64_t) {}});
  std::array<double, 2> slow{};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto beside = summarize(r.per_model[side].latencies).p50;
    slow[side] = static_cast<double>(beside.count()) /
                 static_cast<double>(facts.solo[side == 0 ? i : j].count());
  }
  return slow;
}

void predict(const slowdown_source& source, const architecture_limits& sm, const options& from,
             std::span<const profile> models, found_slowdowns& into) {
  const interference_coefficients law = load_coefficients(source.file);
  std::vector<common::measured_file> files{{"--slow-downs", source.file}};
  std::vector<kernel_chain> chains;
  for (std::size_t i = 0; i < models.size(); ++i) {
    files.push_back({"--mix", from.mix[i].profile});
    if (!has_counters(models[i]))
      refuse("--slow-downs",
             "no counters of the kernels of " + in_quotes(from.mix[i].name) + " to predict from",
             "a profile with counters, as measure writes, or --slow-downs measured");
    chains.push_back(chain_of(models[i], sm, solo_metrics{}));
  }
  common::check_machines("serve_mix", files);
  into.beyond.assign(models.size(), std::vector<std::string>(models.size()));
  for_each_pair(into, models.size(), [&](std::size_t i, std::size_t j) {
    const std::array<corunner, 2> both{corunner{&chains[i], 0}, corunner{&chains[j], 0}};
    into.beyond[i][j] = into.beyond[j][i] = beyond_fit(law.seen, both);
    return pair_slowdowns(chains[i], chains[j], law);
  });
}

void read_pairs(const std::string& file, const options& from, std::span<const profile> models,
                found_slowdowns& into) {
  const auto place = [&](const corun_side& s) {
    const auto at = std::find_if(models.begin(), models.end(), [&](const profile& p) {
      return p.model == s.model && p.batch == s.batch;
    });
    return static_cast<std::size_t>(at - models.begin());
  };
  bool any = false;
  const sm_count device = models.front().sms;
  for (const corun_pair& p : load_corun_pairs(file, device)) {
    if (!p.shares(device)) continue;
    const std::array at{place(p.side[0]), place(p.side[1])};
    if (std::max(at[0], at[1]) == models.size()) continue;
    any = true;
    for (const std::size_t side : {0u, 1u}) {
      std::optional<double>& kept = into.by[at[side]][at[1 - side]];
      kept = std::max(kept.value_or(0), p.side[side].slowdown());
    }
  }
  if (!any)
    refuse("--slow-downs", in_quotes(file) + " has no pair of the mix that shares all SMs",
           "one of " + from.mix.front().name);
}

} // namespace

void find_slowdowns(platform& on, const options& from, std::span<const profile> models,
                    workload_facts& facts) {
  const std::size_t n = models.size();
  for (const slowdown_source& source : from.slowdowns) {
    found_slowdowns& found = facts.slowdowns.emplace_back();
    found.from = source.text;
    found.by.assign(n, std::vector<std::optional<double>>(n));
    switch (source.how) {
    case slowdown_source::kind::predicted: predict(source, on.sm(), from, models, found); break;
    case slowdown_source::kind::measured:
      for_each_pair(found, n, [&](std::size_t i, std::size_t j) {
        return measured(on, from, models, facts, i, j);
      });
      break;
    case slowdown_source::kind::pairs: read_pairs(source.file.string(), from, models, found); break;
    }
  }
  std::vector<corun_limit> limits;
  std::vector<corun_slowdown> pairs;
  for (std::size_t i = 0; i < n; ++i) {
    limits.push_back({from.mix[i].name, from.slow_down_limit.value_or(corun_limit::none)});
    for (std::size_t j = 0; j < n; ++j)
      if (const auto by = facts.slowdowns.front().by[i][j])
        pairs.push_back({from.mix[i].name, from.mix[j].name, *by});
  }
  facts.apart.emplace(limits, pairs);
}

} // namespace serve_mix
