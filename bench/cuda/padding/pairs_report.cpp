// SPDX-License-Identifier: Apache-2.0
#include "padding/pair_summary.hpp"
#include "padding/pairs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <utility>
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
void print_selection(const char* name, std::span<const pair> all, selection by, Admits admits,
                     results& out) {
  const double limit = limit_of(by);
  const selection_summary s = summary_of(all, by, limit, admits);
  fmt::print("{:<20} {:>5} {:>9.0f} {:>6.3f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>9.2f} {:>9.2f} "
             "{:>6.2f} {:>6} {:>6} {:>6} {:>6}\n",
             name, s.pairs, s.work_us, s.gained, s.part_mean, s.part_p95, s.part_max, s.best_mean,
             s.best_p95, s.best_p99, limit, s.false_safe, s.false_safe_of_proxy, s.false_unsafe,
             s.false_refused);
  out["selections"].push_back({{"name", name},
                               {"pairs", s.pairs},
                               {"part_mean_percent", s.part_mean},
                               {"part_p50_percent", s.part_p50},
                               {"part_p95_percent", s.part_p95},
                               {"part_max_percent", s.part_max},
                               {"whole_p50_percent", s.whole_p50},
                               {"whole_p95_percent", s.whole_p95},
                               {"of_best_mean_percent", s.best_mean},
                               {"of_best_p95_percent", s.best_p95},
                               {"of_best_p99_percent", s.best_p99},
                               {"best_effort_us", s.work_us},
                               {"best_effort_time_gained", s.gained},
                               {"limit", limit},
                               {"false_safe", s.false_safe},
                               {"false_safe_of_proxy", s.false_safe_of_proxy},
                               {"false_unsafe", s.false_unsafe},
                               {"false_refused", s.false_refused}});
}

template <class Counts>
void print_errors(const char* name, std::span<const pair> all, Counts counts, results& out) {
  const prediction_errors e = errors_of(all, counts);
  fmt::print("{:<20} {:>5} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f}\n", name, e.of_proxy.count,
             100 * e.of_proxy.p50, 100 * e.of_proxy.p90, 100 * e.of_best.p50, 100 * e.of_best.p90);
  out["prediction_errors"].push_back({{"name", name},
                                      {"pairs", e.of_proxy.count},
                                      {"of_proxy_p50_percent", 100 * e.of_proxy.p50},
                                      {"of_proxy_p90_percent", 100 * e.of_proxy.p90},
                                      {"of_best_p50_percent", 100 * e.of_best.p50},
                                      {"of_best_p90_percent", 100 * e.of_best.p90}});
}

std::string line_of(const subject& s) {
  const gsched::kernel_variant& k = s.facts;
  return fmt::format("{} {} blocks level {} {:.2f} us, a block {:.2f}, {} KiB", s.name(), k.blocks,
                     k.level, gsched::to_us(k.kernel_time), gsched::to_us(k.block_time),
                     s.bytes >> 10);
}

void print_worst(const char* name, const bench& b, std::span<const pair> of, selection by) {
  constexpr std::size_t most = 10;
  std::vector<pair> all(of.begin(), of.end());
  std::erase_if(all, [by](const pair& p) { return !p.of(by); });
  std::sort(all.begin(), all.end(),
            [](const pair& x, const pair& y) { return x.part_percent() > y.part_percent(); });
  if (all.size() > most) all.resize(most);
  if (all.empty()) return;
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

} // namespace

facts_file::facts_file(const bench& b) {
  if (b.how.facts.empty()) return;
  out_.open(b.how.facts);
  const auto head = [&](const char* role) {
    const results facts = facts_json(b.all.corunners().front());
    for (const auto& [key, _] : facts.items()) out_ << role << '_' << key << ',';
  };
  head("rt");
  head("be");
  out_ << "be_padded_blocks,level,rt_plain_us,rt_proxy_us,rt_padded_us,whole_plain_us,"
          "whole_proxy_us,whole_padded_us,predicted,of_plain,of_proxy";
  for (const selection s : every_selection) out_ << ',' << name_of(s);
  out_ << ",bandwidth,kept" << std::endl;
  if (!out_)
    throw gsched::error(gsched::errc::io,
                        b.how.facts + ": cannot be written, expected a writable path");
}

void facts_file::add(const bench& b, const pair& p) {
  if (b.how.facts.empty()) return;
  for (const subject* s : {&b.all.real_time()[p.real], &b.all.corunners()[p.corunner]}) {
    const results facts = facts_json(*s);
    for (const auto& [_, value] : facts.items())
      out_ << (value.is_string() ? value.get<std::string>() : value.dump()) << ',';
  }
  const share beside{p.corunner, 0, p.blocks};
  out_ << p.blocks << ',' << b.all.launch_of(p.real, {&beside, 1}).blocks_per_sm << ','
       << p.alone.part_us << ',' << p.proxy.part_us << ',' << p.padded.part_us << ','
       << p.alone.whole_us << ',' << p.proxy.whole_us << ',' << p.padded.whole_us << ',';
  if (p.predicted) out_ << *p.predicted;
  out_ << ',' << p.of_plain() << ',' << p.of_proxy();
  for (const selection s : every_selection) out_ << ',' << p.of(s);
  out_ << ',' << p.bandwidth << ',' << p.kept << std::endl;
  if (!out_)
    throw gsched::error(gsched::errc::io,
                        b.how.facts + ": cannot be written, expected a writable path");
}

void report_pairs(const bench& b, std::span<const pair> done, std::size_t all, results& out) {
  fmt::print("\nslowdown of real-time kernels in percent, over {} pairs of {} (the others: no "
             "time); the copies' peak is {:.0f} GB/s\n"
             "work: best-effort us in all padded kernels; gained: the same over the plain kernel; "
             "best: beside the faster of plain and proxy\n"
             "slower: admitted, beyond the limit (of the faster form, of the proxy); missed: with "
             "fewer blocks than rules 1 and 2, or (refused) none, though all are within it\n",
             done.size(), all, b.peak_gbps);
  fmt::print("{:<20} {:>5} {:>9} {:>6} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6} {:>6} "
             "{:>6}\n",
             "selected by", "pairs", "work", "gained", "mean", "p95", "max", "best mean",
             "best p95", "best p99", "limit", "slower", "proxy", "missed", "none");
  const auto within = [](const pair& p) { return p.bandwidth; };
  print_selection("rules 1, 2", done, selection::paper, any_pair, out);
  print_selection("+ bandwidth", done, selection::paper, within, out);
  print_selection("needed level", done, selection::needed, any_pair, out);
  print_selection("+ bandwidth", done, selection::needed, within, out);
  print_selection("idle SMs", done, selection::apart, any_pair, out);
  print_selection("quiet (the library)", done, selection::quiet, any_pair, out);
  print_selection(
      "kept after a trial", done, selection::quiet, [](const pair& p) { return p.kept; }, out);
  const bool predicted =
      std::any_of(done.begin(), done.end(), [](const pair& p) { return p.predicted.has_value(); });
  if (predicted) {
    print_selection("limits at 1.05", done, selection::within_5, any_pair, out);
    print_selection("limits at 1.1", done, selection::within_10, any_pair, out);
    print_selection("limits at 1.2", done, selection::within_20, any_pair, out);
    fmt::print(
        "\nerrors of predicted slow-downs in percent of the measured ones\n{:<20} {:>5} {:>9} "
        "{:>9} {:>9} {:>9}\n",
        "pairs of", "pairs", "proxy p50", "proxy p90", "best p50", "best p90");
    print_errors("all selections", done, any_pair, out);
    for (const selection s : {selection::needed, selection::quiet, selection::within_5})
      print_errors(
          name_of(s), done, [s](const pair& p) { return p.of(s); }, out);
  }
  print_worst("rules 1, 2", b, done, selection::paper);
  print_worst("quiet", b, done, selection::quiet);
  print_worst("limits at 1.05", b, done, selection::within_5);
  std::fflush(stdout);
  for (const pair& p : done) {
    results row{{"real_time", p.real}, {"best_effort", p.corunner}, {"blocks", p.blocks}};
    for (const selection s : every_selection) row[name_of(s)] = p.of(s);
    row["bandwidth"] = p.bandwidth;
    row["kept"] = p.kept;
    row["trial_percent"] = 100 * p.trial;
    if (p.predicted) row["predicted"] = *p.predicted;
    row["part_plain_us"] = p.alone.part_us;
    row["part_proxy_us"] = p.proxy.part_us;
    row["part_padded_us"] = p.padded.part_us;
    row["whole_plain_us"] = p.alone.whole_us;
    row["whole_padded_us"] = p.padded.whole_us;
    out["pairs"].push_back(std::move(row));
  }
  for (const subject& s : b.all.real_time()) out["real_time"].push_back(facts_json(s));
  for (const subject& s : b.all.corunners()) out["best_effort"].push_back(facts_json(s));
  out["peak_gbps"] = b.peak_gbps;
}

} // namespace padding
