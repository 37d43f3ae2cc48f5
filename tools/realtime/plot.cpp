// SPDX-License-Identifier: Apache-2.0
#include "realtime/plot.hpp"

#include "common/gnuplot.hpp"
#include "common/report/latency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <sstream>
#include <vector>

namespace realtime {

namespace {

double ms(gsched::duration d) { return static_cast<double>(d.count()) / 1e6; }

} // namespace

void write_gnuplot(std::ostream& out, const options& from, const workload_facts& facts,
                   std::span<const run_result> runs) {
  out << "$data << END\n"; // x, p50, mean, p99, throughput of real-time requests, of all, colour, a lighter one
  double least = 1e12, most = 0, top = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const run_summary s = summarise(from, facts, runs[i]);
    const latency_summary l = summarize(s.latencies);
    if (l.p50 <= gsched::duration::zero()) continue; // no place on a logarithmic axis
    least = std::min(least, ms(l.p50));
    most = std::max(most, ms(l.p99));
    top = std::max(top, s.throughput);
    const std::uint32_t colour = style_of(name_of(runs[i].how)).colour;
    out << fmt::format("{} {:.6f} {:.6f} {:.6f} {:.6f} {:.6f} {} {}\n", i, ms(l.p50), ms(l.mean),
                       ms(l.p99), s.real_time_throughput, s.throughput, colour, light(colour));
  }
  if (most <= 0) least = 0.1, most = 1, top = 1, out << "0 0.1 0.1 0.1 0 0 0 0\n";
  out << "END\n";
  const std::size_t width = 2 * std::max<std::size_t>(360, 80 + 56 * runs.size());
  out << gnuplot_preamble(from.plot, width, 460) << "set multiplot layout 1,2 title "
      << gnuplot_literal(from.work.name + " on " + from.device) << " font ',14'\n"
      << "set tmargin 3.5\nset rmargin 2\nunset key\n"
      << fmt::format("set xrange [-0.6:{}]\nset xtics (", static_cast<double>(runs.size()) - 0.4);
  for (std::size_t i = 0; i < runs.size(); ++i)
    out << (i ? "," : "") << gnuplot_literal(style_of(name_of(runs[i].how)).name) << ' ' << i;
  out << ") rotate by 40 right nomirror scale 0\n"
      << "set title 'real-time latency, ms: p50 to p99, dot: mean' font ',13'\nset logscale y\nset "
         "format y '%g'\n"
      << fmt::format("set yrange [{:g}:{:g}]\n", least / 1.8, most * 1.8)
      << gnuplot_log_ytics(least / 1.8, most * 1.8)
      << "plot $data using 1:2:(0):($4-$2):7 with vectors nohead lw 9 lc rgb variable,"
      << " $data using 1:3 with points pt 7 ps 0.75 lc rgb " << rgb(tone("mark")) << ','

      << " $data using 1:4:" << gnuplot_text("$4") << " with labels offset 0,0.8,"
      << " $data using 1:2:" << gnuplot_text("$2") << " with labels offset 0,-0.8\n"
      << "set title 'throughput over each model alone (dark: of real-time requests)' font ',13'\n"
      << "set ytics autofreq\nunset logscale y\nset style fill solid\nset boxwidth 0.6\n"
      << fmt::format("set yrange [0:{:g}]\n", 1.15 * std::max(top, 0.1))
      << "plot $data using 1:6:8 with boxes lc rgb variable,"
      << " $data using 1:5:7 with boxes lc rgb variable,"
      << " $data using 1:6:" << gnuplot_text("$6") << " with labels offset 0,0.6\n"
      << "unset multiplot\n";
}

void draw_plot(const options& from, const workload_facts& facts, std::span<const run_result> runs) {
  std::ostringstream script;
  write_gnuplot(script, from, facts, runs);
  draw(script.str(), from.plot);
}

} // namespace realtime
