// SPDX-License-Identifier: Apache-2.0
#include "padding/pairs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace padding {

namespace {

results facts_json(const subject& s) {
  return {{"function", s.function},
          {"variant", s.variant},
          {"shape", s.shape},
          {"bytes", s.bytes},
          {"kernel_ns", s.facts.kernel_time.count()},
          {"block_ns", s.facts.block_time.count()},
          {"registers", s.facts.registers_per_thread},
          {"shared_bytes", s.facts.shared_bytes},
          {"threads", s.facts.threads_per_block},
          {"blocks", s.facts.blocks},
          {"level", s.facts.level}};
}

bool any_pair(const pair&) { return true; }

template <class Admits>
void print_selection(const char* name, const bench& b, const std::vector<pair>& all, selection by,
                     Admits admits, results& out) {
  std::vector<double> part, whole, of_best;
  double sum = 0, gained = 0;
  for (const pair& p : all) {
    if (!p.of(by) || !admits(p)) continue;
    part.push_back(p.part_percent());
    whole.push_back(p.whole_percent());
    of_best.push_back(p.of_best_percent());
    sum += p.part_percent();
    const gsched::kernel_variant& g = b.all.corunners()[p.corunner].facts;
    const double corunner_us =
        1e-3 * static_cast<double>(g.kernel_time.count()) * p.blocks / g.blocks;
    gained += corunner_us / p.alone.whole_us;
  }
  const double n = static_cast<double>(std::max<std::size_t>(part.size(), 1));
  const double best_mean = std::accumulate(of_best.begin(), of_best.end(), 0.0) / n;
  using experiment::quantile;
  fmt::print("{:<20} {:>6} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} "
             "{:>9.2f} {:>8.2f}\n",
             name, part.size(), sum / n, quantile(part, 0.5), quantile(part, 0.95),
             quantile(part, 1), quantile(whole, 0.5), quantile(whole, 0.95), best_mean,
             quantile(of_best, 0.95), quantile(of_best, 0.99), gained / n);
  out["selections"].push_back({{"name", name},
                               {"pairs", part.size()},
                               {"part_mean_percent", sum / n},
                               {"part_p50_percent", quantile(part, 0.5)},
                               {"part_p95_percent", quantile(part, 0.95)},
                               {"part_max_percent", quantile(part, 1)},
                               {"whole_p50_percent", quantile(whole, 0.5)},
                               {"whole_p95_percent", quantile(whole, 0.95)},
                               {"of_best_mean_percent", best_mean},
                               {"of_best_p95_percent", quantile(of_best, 0.95)},
                               {"of_best_p99_percent", quantile(of_best, 0.99)},
                               {"best_effort_time_gained", gained / n}});
}

std::string line_of(const subject& s) {
  const gsched::kernel_variant& k = s.facts;
  return fmt::format("{} {} blocks level {} {:.2f} us, a block {:.2f}, {} KiB", s.name(), k.blocks,
                     k.level, gsched::to_us(k.kernel_time), gsched::to_us(k.block_time),
                     s.bytes >> 10);
}

void print_worst(const char* name, const bench& b, std::vector<pair> all, selection by) {
  constexpr std::size_t most = 10;
  std::erase_if(all, [by](const pair& p) { return !p.of(by); });
  std::sort(all.begin(), all.end(),
            [](const pair& x, const pair& y) { return x.part_percent() > y.part_percent(); });
  if (all.size() > most) all.resize(most);
  fmt::print("\nthe worst by {}: part in percent, whole; us alone, by proxy, padded; blocks\n",
             name);
  for (const pair& p : all) {
    const share beside{p.corunner, 0, p.blocks};
    const gsched::cuda::pad_launch c = b.all.launch_of(p.real, {&beside, 1});
    fmt::print("{:>+8.2f} {:>+8.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>5}{}  {} | {} | both level {}, "
               "{} registers\n",
               p.part_percent(), p.whole_percent(), p.alone.part_us, p.proxy.part_us,
               p.padded.part_us, p.blocks, p.kept ? "" : " (dropped)",
               line_of(b.all.real_time()[p.real]), line_of(b.all.corunners()[p.corunner]),
               c.blocks_per_sm, c.proxy->registers);
  }
}

/// One line for each pair: the properties of both kernels, and the measurements.
void save_facts(const bench& b, const std::vector<pair>& all) {
  std::ofstream out(b.how.facts);
  const auto head = [&](const char* role) {
    const results facts = facts_json(b.all.corunners().front());
    for (const auto& [key, _] : facts.items()) out << role << '_' << key << ',';
  };
  head("rt");
  head("be");
  out << "be_padded_blocks,level,rt_plain_us,rt_proxy_us,rt_padded_us,whole_plain_us,"
         "whole_proxy_us,whole_padded_us\n";
  for (const pair& p : all) {
    for (const subject* s : {&b.all.real_time()[p.real], &b.all.corunners()[p.corunner]}) {
      const results facts = facts_json(*s);
      for (const auto& [_, value] : facts.items())
        out << (value.is_string() ? value.get<std::string>() : value.dump()) << ',';
    }
    const share beside{p.corunner, 0, p.blocks};
    out << p.blocks << ',' << b.all.launch_of(p.real, {&beside, 1}).blocks_per_sm << ','
        << p.alone.part_us << ',' << p.proxy.part_us << ',' << p.padded.part_us << ','
        << p.alone.whole_us << ',' << p.proxy.whole_us << ',' << p.padded.whole_us << '\n';
  }
  out.close();
  if (!out)
    throw gsched::error(gsched::errc::io,
                        b.how.facts + ": cannot be written, expected a writable path");
}

} // namespace

void report_pairs(const bench& b, const std::vector<pair>& done, std::size_t all, results& out) {
  fmt::print(
      "\nslowdown of real-time kernels in percent, over {} pairs of {} (the others: no time); "
      "the copies' peak is {:.0f} GB/s; of best: beside the faster of plain and proxy\n",
      done.size(), all, b.peak_gbps);
  fmt::print("{:<20} {:>6} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}\n",
             "selected by", "pairs", "mean", "p50", "p95", "max", "whole p50", "whole p95",
             "best mean", "best p95", "best p99", "gained");
  const auto within = [](const pair& p) { return p.bandwidth; };
  print_selection("rules 1, 2", b, done, selection::paper, any_pair, out);
  print_selection("+ bandwidth", b, done, selection::paper, within, out);
  print_selection("needed level", b, done, selection::needed, any_pair, out);
  print_selection("+ bandwidth", b, done, selection::needed, within, out);
  print_selection("idle SMs", b, done, selection::apart, any_pair, out);
  print_selection("quiet (the library)", b, done, selection::quiet, any_pair, out);
  print_selection(
      "kept after a trial", b, done, selection::quiet, [](const pair& p) { return p.kept; }, out);
  print_worst("rules 1, 2", b, done, selection::paper);
  print_worst("quiet", b, done, selection::quiet);
  std::fflush(stdout);
  for (const pair& p : done)
    out["pairs"].push_back({{"real_time", p.real},
                            {"best_effort", p.corunner},
                            {"blocks", p.blocks},
                            {"paper", p.of(selection::paper)},
                            {"needed", p.of(selection::needed)},
                            {"apart", p.of(selection::apart)},
                            {"quiet", p.of(selection::quiet)},
                            {"bandwidth", p.bandwidth},
                            {"kept", p.kept},
                            {"trial_percent", 100 * p.trial},
                            {"part_plain_us", p.alone.part_us},
                            {"part_proxy_us", p.proxy.part_us},
                            {"part_padded_us", p.padded.part_us},
                            {"whole_plain_us", p.alone.whole_us},
                            {"whole_padded_us", p.padded.whole_us}});
  for (const subject& s : b.all.real_time()) out["real_time"].push_back(facts_json(s));
  for (const subject& s : b.all.corunners()) out["best_effort"].push_back(facts_json(s));
  out["peak_gbps"] = b.peak_gbps;
  if (!b.how.facts.empty()) save_facts(b, done);
}

} // namespace padding
