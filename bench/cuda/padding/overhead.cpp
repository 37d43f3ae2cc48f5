// SPDX-License-Identifier: Apache-2.0
#include "padding/pairs.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <vector>

namespace padding {

namespace {

double percent(double with, double without) { return 100 * (with / without - 1); }

struct column {
  const char* name;
  std::vector<double> part, whole;
};

void print_summary(const column& c, results& out) {
  const auto mean = [](const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x;
    return v.empty() ? 0 : sum / static_cast<double>(v.size());
  };
  using experiment::quantile;
  fmt::print("{:<8} over plain: part mean {:+.2f}% p95 {:+.2f}% max {:+.2f}%; whole mean {:+.2f}% "
             "p95 {:+.2f}%\n",
             c.name, mean(c.part), quantile(c.part, 0.95), quantile(c.part, 1), mean(c.whole),
             quantile(c.whole, 0.95));
  out["overhead_summary"].push_back({{"form", c.name},
                                     {"part_mean_percent", mean(c.part)},
                                     {"part_p95_percent", quantile(c.part, 0.95)},
                                     {"part_max_percent", quantile(c.part, 1)},
                                     {"whole_mean_percent", mean(c.whole)},
                                     {"whole_p95_percent", quantile(c.whole, 0.95)}});
}

} // namespace

void measure_overhead(const bench& b, results& out) {
  fmt::print(
      "\nwithout co-runners, us: part (its first block's start to its last one's end), whole "
      "(to the next kernel's start)\n{:<30} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>5} {:>9}\n",
      "", "plain", "whole", "proxy", "whole", "pointer", "whole", "level", "registers");
  column proxy{"proxy", {}, {}}, pointer{"pointer", {}, {}};
  for (std::size_t i = 0; i < b.all.real_time().size(); ++i) {
    const subject& s = b.all.real_time()[i];
    b.dog.step(s.name(), 30);
    std::vector<timeline::adder> forms;
    for (const form f : {form::plain, form::proxy, form::pointer})
      forms.push_back([&b, i, f](cudaGraph_t g, subjects::after a, stamps* to) {
        return b.all.add(g, a, i, f, to);
      });
    const auto t = b.time.run(forms, b.how.rounds, static_cast<unsigned>(i));
    fmt::print("{:<30} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>5} {:>9}\n",
               s.name(), t[0].part_us, t[0].whole_us, t[1].part_us, t[1].whole_us, t[2].part_us,
               t[2].whole_us, s.facts.level, s.facts.registers_per_thread);
    std::fflush(stdout);
    proxy.part.push_back(percent(t[1].part_us, t[0].part_us));
    proxy.whole.push_back(percent(t[1].whole_us, t[0].whole_us));
    pointer.part.push_back(percent(t[2].part_us, t[0].part_us));
    pointer.whole.push_back(percent(t[2].whole_us, t[0].whole_us));
    results row{{"function", s.name()},
                {"blocks", s.facts.blocks},
                {"level", s.facts.level},
                {"proxy_registers", s.facts.registers_per_thread},
                {"set_up_plain_ns", s.plain.count()},
                {"set_up_proxy_ns", s.facts.kernel_time.count()}};
    for (std::size_t f = 0; f < 3; ++f) {
      constexpr std::array names{"plain", "proxy", "pointer"};
      row[names[f]] = {{"part_us", t[f].part_us}, {"whole_us", t[f].whole_us}};
    }
    out["overhead"].push_back(std::move(row));
  }
  print_summary(proxy, out);
  print_summary(pointer, out);
  b.dog.rest();
}

} // namespace padding
