// SPDX-License-Identifier: Apache-2.0
#include "padding/pairs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/pad/options.hpp>
#include <gsched/pad/room.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <vector>

namespace padding {

namespace {

/// bytes / ns is GB/s.
double rate(std::uint64_t bytes, gsched::duration time) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(time.count(), 1));
}

/// A guest with so many blocks beside a real-time kernel, and who selects that.
struct pair {
  std::size_t real = 0, guest = 0;
  std::uint32_t blocks = 0;
  std::array<bool, 3> by{};
  bool bandwidth = false;
  timeline::figures alone{}, proxy{}, padded{};

  [[nodiscard]] double part_percent() const { return 100 * (padded.part_us / alone.part_us - 1); }
  [[nodiscard]] double whole_percent() const {
    return 100 * (padded.whole_us / alone.whole_us - 1);
  }
};

std::vector<pair> pairs_of(const bench& b) {
  std::vector<pair> all;
  for (std::size_t r = 0; r < b.all.real_time().size(); ++r)
    for (std::size_t g = 0; g < b.all.guests().size(); ++g) {
      std::map<std::uint32_t, pair> counts;
      for (const selection by : {selection::paper, selection::needed, selection::apart}) {
        const subject& real = b.all.real_time()[r];
        const subject& guest = b.all.guests()[g];
        const std::uint32_t n = blocks_for(by, b.all, r, g, b.sms);
        if (n == 0) continue;
        pair& p = counts.try_emplace(n, pair{r, g, n}).first->second;
        p.by[static_cast<std::size_t>(by)] = true;
        p.bandwidth = bandwidth_allows(real, guest, n, b.how.bandwidth_share * b.peak_gbps);
      }
      for (const auto& [_, p] : counts) all.push_back(p);
    }
  return all;
}

void measure(const bench& b, pair& p) {
  const share beside{p.guest, 0, p.blocks};
  const std::array<timeline::adder, 3> kernels{
      [&](cudaGraph_t g, subjects::after a, stamps* to) {
        return b.all.add(g, a, p.real, form::plain, to);
      },
      [&](cudaGraph_t g, subjects::after a, stamps* to) {
        return b.all.add(g, a, p.real, form::proxy, to);
      },
      [&](cudaGraph_t g, subjects::after a, stamps* to) {
        return b.all.add_padded(g, a, p.real, {&beside, 1}, to);
      }};
  const auto t = b.time.run(kernels, b.how.rounds, p.blocks);
  p.alone = t[0];
  p.proxy = t[1];
  p.padded = t[2];
}

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

void print_selection(const char* name, const bench& b, const std::vector<pair>& all, selection by,
                     bool third, results& out) {
  std::vector<double> part, whole;
  double sum = 0, gained = 0;
  for (const pair& p : all) {
    if (!p.by[static_cast<std::size_t>(by)] || (third && !p.bandwidth)) continue;
    part.push_back(p.part_percent());
    whole.push_back(p.whole_percent());
    sum += p.part_percent();
    const gsched::kernel_variant& g = b.all.guests()[p.guest].facts;
    const double guest_us = 1e-3 * static_cast<double>(g.kernel_time.count()) * p.blocks / g.blocks;
    gained += guest_us / p.alone.whole_us;
  }
  const double n = static_cast<double>(std::max<std::size_t>(part.size(), 1));
  using experiment::quantile;
  fmt::print("{:<18} {:>6} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>9.2f} {:>8.2f}\n", name,
             part.size(), sum / n, quantile(part, 0.5), quantile(part, 0.95), quantile(part, 1),
             quantile(whole, 0.5), quantile(whole, 0.95), gained / n);
  out["selections"].push_back({{"name", name},
                               {"pairs", part.size()},
                               {"part_mean_percent", sum / n},
                               {"part_p50_percent", quantile(part, 0.5)},
                               {"part_p95_percent", quantile(part, 0.95)},
                               {"part_max_percent", quantile(part, 1)},
                               {"whole_p50_percent", quantile(whole, 0.5)},
                               {"whole_p95_percent", quantile(whole, 0.95)},
                               {"guest_time_gained", gained / n}});
}

/// One line a pair: both kernels' facts, and what was measured.
void save_facts(const bench& b, const std::vector<pair>& all) {
  std::ofstream out(b.how.facts);
  const auto head = [&](const char* role) {
    const results facts = facts_json(b.all.guests().front());
    for (const auto& [key, _] : facts.items()) out << role << '_' << key << ',';
  };
  head("rt");
  head("be");
  out << "be_padded_blocks,level,rt_plain_us,rt_proxy_us,rt_padded_us,whole_plain_us,"
         "whole_proxy_us,whole_padded_us\n";
  for (const pair& p : all) {
    for (const subject* s : {&b.all.real_time()[p.real], &b.all.guests()[p.guest]}) {
      const results facts = facts_json(*s);
      for (const auto& [_, value] : facts.items())
        out << (value.is_string() ? value.get<std::string>() : value.dump()) << ',';
    }
    const share beside{p.guest, 0, p.blocks};
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

double peak_of(const subjects& all) {
  double most = 0;
  for (const auto* list : {&all.real_time(), &all.guests()})
    for (const subject& s : *list)
      if (s.function == "copy") most = std::max(most, rate(s.bytes, s.facts.kernel_time));
  return most;
}

std::uint32_t blocks_for(selection by, const subjects& all, std::size_t real_time,
                         std::size_t guest, gsched::sm_count sms) {
  const gsched::kernel_variant& real = all.real_time()[real_time].facts;
  gsched::kernel_variant other = all.guests()[guest].facts;
  const share any{guest, 0, 1};
  other.level = all.launch_of(real_time, {&any, 1}).blocks_per_sm;
  gsched::pad_options o;
  o.sms = sms;
  o.level = by == selection::paper ? gsched::level_rule::own : gsched::level_rule::needed;
  gsched::pad_room room(real, o);
  const std::uint32_t n = room.take(other, other.blocks);
  if (by != selection::apart) return n;
  return real.blocks < sms.count() ? std::min(n, sms.count() - real.blocks) : 0;
}

bool bandwidth_allows(const subject& real_time, const subject& guest, std::uint32_t blocks,
                      double most_gbps) {
  const double part = static_cast<double>(blocks) / guest.facts.blocks;
  const double bytes =
      static_cast<double>(real_time.bytes) + part * static_cast<double>(guest.bytes);
  return bytes / static_cast<double>(real_time.facts.kernel_time.count()) <= most_gbps;
}

void measure_pairs(const bench& b, results& out) {
  std::vector<pair> all = pairs_of(b);
  const double until = experiment::seconds_now() + b.how.seconds;
  // Spread over the pairs, so that what a short run leaves out is no whole kernel.
  std::vector<pair> done;
  constexpr std::size_t stride = 7;
  for (std::size_t first = 0; first < stride; ++first)
    for (std::size_t i = first; i < all.size(); i += stride) {
      if (experiment::seconds_now() > until) break;
      b.dog.step(b.all.real_time()[all[i].real].name() + " with " +
                     b.all.guests()[all[i].guest].name(),
                 30);
      measure(b, all[i]);
      done.push_back(all[i]);
    }
  b.dog.rest();
  fmt::print(
      "\nslowdown of real-time kernels in percent, over {} pairs of {} (the others: no time); "
      "the copies' peak is {:.0f} GB/s\n",
      done.size(), all.size(), b.peak_gbps);
  fmt::print("{:<18} {:>6} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8}\n", "selected by", "pairs",
             "mean", "p50", "p95", "max", "whole p50", "whole p95", "gained");
  print_selection("rules 1, 2", b, done, selection::paper, false, out);
  print_selection("+ bandwidth", b, done, selection::paper, true, out);
  print_selection("needed level", b, done, selection::needed, false, out);
  print_selection("+ bandwidth", b, done, selection::needed, true, out);
  print_selection("idle SMs", b, done, selection::apart, false, out);
  print_selection("+ bandwidth", b, done, selection::apart, true, out);
  std::fflush(stdout);
  for (const pair& p : done)
    out["pairs"].push_back({{"real_time", p.real},
                            {"guest", p.guest},
                            {"blocks", p.blocks},
                            {"paper", p.by[0]},
                            {"needed", p.by[1]},
                            {"apart", p.by[2]},
                            {"bandwidth", p.bandwidth},
                            {"part_plain_us", p.alone.part_us},
                            {"part_proxy_us", p.proxy.part_us},
                            {"part_padded_us", p.padded.part_us},
                            {"whole_plain_us", p.alone.whole_us},
                            {"whole_padded_us", p.padded.whole_us}});
  for (const subject& s : b.all.real_time()) out["real_time"].push_back(facts_json(s));
  for (const subject& s : b.all.guests()) out["guests"].push_back(facts_json(s));
  out["peak_gbps"] = b.peak_gbps;
  if (!b.how.facts.empty()) save_facts(b, done);
}

} // namespace padding
