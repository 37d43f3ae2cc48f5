// SPDX-License-Identifier: Apache-2.0
#include "realtime/run.hpp"

#include "realtime/arrivals.hpp"
#include "realtime/configuration.hpp"

#include "common/cli/option_values.hpp"
#include "common/cli/run_command.hpp"
#include "common/input/measured_on.hpp"
#include "common/report/progress.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/run_in_parallel.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/io/coefficients_json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace realtime {

using namespace gsched;

namespace {

constexpr std::uint64_t seed_step =
    0x9e3779b97f4a7c15; // so that clients' seeds have little in common

/// Each trace's times, by client.
std::vector<std::vector<duration>> times_of(const options& from) {
  std::map<std::filesystem::path, std::vector<std::uint32_t>> asking;
  for (std::uint32_t i = 0; i < from.work.clients.size(); ++i)
    if (from.work.clients[i].arrivals.law == arrival_law::trace)
      asking[from.file.parent_path() / from.work.clients[i].arrivals.file].push_back(i);
  std::vector<std::vector<duration>> all(from.work.clients.size());
  for (const auto& [file, clients] : asking) {
    auto times = read_times(file, from.work, clients);
    for (const std::uint32_t i : clients) {
      const duration repeat = from.work.clients[i].arrivals.repeat;
      if (repeat > duration::zero() && repeat <= times[i].back())
        throw error(errc::bad_trace, from.file.string() + ": clients/" + std::to_string(i) +
                                         "/arrivals/repeat_us is before the trace's end, expected "
                                         "more than " +
                                         std::to_string(to_us(times[i].back())));
      all[i] = std::move(times[i]);
    }
  }
  return all;
}

sources sources_of(const options& from, const workload_facts& facts,
                   const std::vector<std::uint32_t>& clients) {
  auto times = times_of(from);
  std::vector<client_source> all;
  for (const std::uint32_t i : clients)
    all.emplace_back(from.work.clients[i].arrivals, facts.clients[i].per_s, std::move(times[i]),
                     from.seed + seed_step * (i + 1));
  return sources(std::move(all));
}

client_facts alone(platform& on, const options& from, const client_spec& c,
                   std::span<const profile> model) {
  const configuration how = configuration_of(mode::seq, from);
  client_spec one = c;
  one.service = service_class::real_time;
  one.arrivals = {};
  sources asks({client_source(one.arrivals, 0, {}, from.seed)});
  run_result r;
  on.serve({how,
            true,
            preemptibility::never,
            std::nullopt,
            {&one, 1},
            model,
            asks,
            std::nullopt,
            on.solo_requests() + 1,
            nullptr,
            r,
            [](std::uint64_t) {}});
  const client_result& alone_result = r.clients.front();
  if (alone_result.latencies.size() < 2)
    throw error(errc::device_failed, c.model + ": alone it did not finish, expected it to");
  const auto n =
      static_cast<duration::rep>(alone_result.latencies.size() - 1); // the first warms up
  const duration sum = std::accumulate(alone_result.latencies.begin() + 1,
                                       alone_result.latencies.end(), duration::zero());
  return {sum / n, static_cast<double>(n) / to_s(r.window - alone_result.latencies.front())};
}

/// The end of a run's progress: milliseconds, or real-time requests.
std::uint64_t to_do(const options& from) {
  return from.length ? static_cast<std::uint64_t>(*from.length / std::chrono::milliseconds{1})
                     : from.requests.value();
}

std::optional<padding_choice> padding_of(const configuration& how, const options& from) {
  if (!how.dispatch.preemption.pads) return std::nullopt;
  padding_choice pad{*from.pad, from.pad_places};
  if (!from.pad_slow_down) return pad;
  pad.law = load_coefficients(from.law).contention;
  pad.most_slow_down = *from.pad_slow_down;
  return pad;
}

run_result run_mode(platform& on, mode m, const options& from, const workload_facts& facts,
                    std::span<const profile> models, common::timeline* record,
                    std::function<void(std::uint64_t)> progress) {
  if (!from.before.empty()) common::run_command("--before", from.before);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::uint32_t> numbers; // of the clients that take part
  std::vector<client_spec> clients;
  std::vector<profile> their_models;
  for (std::uint32_t i = 0; i < models.size(); ++i) {
    if (m == mode::rt_only && !from.work.clients[i].real_time()) continue;
    numbers.push_back(i);
    clients.push_back(from.work.clients[i]);
    their_models.push_back(models[i]);
  }
  sources asks = sources_of(from, facts, numbers);
  const configuration how = configuration_of(m, from);
  run_result result;
  result.how = m;
  on.serve({how, m == mode::seq, leaving_of(m, from), padding_of(how, from), clients, their_models,
            asks, from.length, from.requests, record, result, std::move(progress)});
  std::vector<client_result> all(models.size()); // clients left out have no results
  for (std::size_t i = 0; i < numbers.size(); ++i) all[numbers[i]] = std::move(result.clients[i]);
  result.clients = std::move(all);
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

} // namespace

void check_counters(const options& from, std::span<const profile> models) {
  std::vector<common::measured_file> files{{"--pad-slow-down", from.law}};
  std::set<std::string> without;
  bool real_time = false, best_effort = false;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const client_spec& c = from.work.clients[i];
    files.push_back({"--workload", from.profiles[i]});
    if (!has_counters(models[i]))
      without.insert(c.model);
    else
      (c.real_time() ? real_time : best_effort) = true;
  }
  common::check_machines("realtime", files);
  if (!without.empty() && (!real_time || !best_effort))
    refuse("--pad-slow-down",
           "no counters of the kernels of " + in_quotes(*without.begin()) + " to predict from",
           "profiles with counters of real-time and best-effort models, or none");
  if (!without.empty())
    std::fprintf(stderr, "realtime: --pad-slow-down: no counters of %s, padded by the rule alone\n",
                 fmt::format("{}", fmt::join(without, ", ")).c_str());
}

workload_facts facts_of(platform& on, const options& from, std::span<const profile> models) {
  workload_facts facts;
  facts.device_name = on.name();
  std::map<std::filesystem::path, client_facts> known;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto [at, fresh] = known.try_emplace(from.profiles[i]);
    if (fresh) at->second = alone(on, from, from.work.clients[i], models.subspan(i, 1));
    facts.clients.push_back(at->second);
  }
  return facts;
}

std::vector<run_result> run_modes(platform& on, const options& from, const workload_facts& facts,
                                  std::span<const profile> models, common::timeline* record) {
  const std::size_t threads = record == nullptr && from.before.empty() && on.runs_in_parallel()
                                  ? std::min(from.threads, from.modes.size())
                                  : 1;
  if (threads > 1) {
    common::shared_bar bar(std::to_string(from.modes.size()) + " modes", from.modes.size(),
                           to_do(from), from.progress);
    return gsched::run_in_parallel<run_result>(from.modes.size(), threads, [&](std::size_t i) {
      return run_mode(on, from.modes[i], from, facts, models, nullptr,
                      [&, i](std::uint64_t done) { bar.update(i, done); });
    });
  }
  std::vector<run_result> results;
  for (const mode m : from.modes) {
    common::progress_bar bar(name_of(m), to_do(from), from.progress);
    if (record != nullptr) record->begin_run(name_of(m));
    results.push_back(run_mode(on, m, from, facts, models, record,
                               [&](std::uint64_t done) { bar.update(done); }));
    if (record != nullptr) record->end_run();
  }
  return results;
}

} // namespace realtime
