// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/slowdowns.hpp"

#include "common/cli/option_values.hpp"

#include <gsched/core/id.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/interference/corun_pairs.hpp>
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

void read_pairs(const options& from, std::span<const profile> models, workload_facts& facts) {
  const std::string file = from.interference.string();
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
      std::optional<double>& kept = facts.slowdowns[at[side]][at[1 - side]];
      kept = std::max(kept.value_or(0), p.side[side].slowdown());
    }
  }
  if (!any)
    refuse("--interference", in_quotes(file) + " has no pair of the mix that shares all SMs",
           "one of " + from.mix.front().name);
}

} // namespace

void find_slowdowns(platform& on, const options& from, std::span<const profile> models,
                    workload_facts& facts) {
  const std::size_t n = models.size();
  facts.slowdowns.assign(n, std::vector<std::optional<double>>(n));
  if (!from.interference.empty()) {
    read_pairs(from, models, facts);
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i; j < n; ++j) {
        const std::array<double, 2> slow = measured(on, from, models, facts, i, j);
        facts.slowdowns[i][j] = i == j ? std::max(slow[0], slow[1]) : slow[0];
        if (i != j) facts.slowdowns[j][i] = slow[1];
      }
    }
  }
  std::vector<corun_limit> limits;
  std::vector<corun_slowdown> pairs;
  for (std::size_t i = 0; i < n; ++i) {
    limits.push_back({from.mix[i].name, from.slow_down_limit.value_or(corun_limit::none)});
    for (std::size_t j = 0; j < n; ++j)
      if (const auto by = facts.slowdowns[i][j])
        pairs.push_back({from.mix[i].name, from.mix[j].name, *by});
  }
  facts.apart.emplace(limits, pairs);
}

} // namespace serve_mix
