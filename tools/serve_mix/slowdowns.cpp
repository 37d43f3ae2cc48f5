// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/slowdowns.hpp"

#include "common/input/model_slowdowns.hpp"

#include <gsched/core/id.hpp>
#include <gsched/dispatch/corun_rule.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
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
std::array<double, 2> measured_beside(platform& on, const options& from,
                                      std::span<const profile> models, const workload_facts& facts,
                                      std::size_t i, std::size_t j) {
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

} // namespace

void find_slowdowns(platform& on, const options& from, std::span<const profile> models,
                    workload_facts& facts) {
  const std::size_t n = models.size();
  std::vector<neighbour_model> all;
  for (std::size_t i = 0; i < n; ++i)
    all.push_back({from.mix[i].name, &models[i], from.mix[i].profile});
  for (const slowdown_source& source : from.slowdowns) {
    using enum slowdown_source::kind;
    if (source.how == predicted) {
      facts.slowdowns.push_back(predicted_slowdowns("serve_mix", "--slow-downs", source, on.sm(),
                                                    all, "--slow-downs measured"));
    } else if (source.how == pairs) {
      facts.slowdowns.push_back(paired_slowdowns("--slow-downs", source, all));
    } else {
      found_slowdowns& found = facts.slowdowns.emplace_back(source.text, n);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = i; j < n; ++j)
          found.set(i, j, measured_beside(on, from, models, facts, i, j));
    }
  }
  std::vector<corun_limit> limits;
  for (const mix_entry& m : from.mix)
    limits.push_back({m.name, from.slow_down_limit.value_or(corun_limit::none)});
  facts.apart = std::make_shared<const corun_rule>(rule_of(limits, facts.slowdowns.front()));
}

} // namespace serve_mix
