// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/plot.hpp"

#include "common/gnuplot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace serve_mix {

namespace {

using gsched::duration;

double ms(duration d) { return static_cast<double>(d.count()) / 1e6; }

struct panel {
  std::string title;
  std::vector<latency_summary> rows; ///< one a run
};

std::vector<panel> panels_of(const options& from, std::span<const run_result> runs) {
  std::vector<panel> panels;
  const bool several = from.mix.size() > 1;
  if (several) panels.push_back({"all requests", {}});
  for (const mix_entry& m : from.mix) panels.push_back({m.name, {}});
  for (const run_result& r : runs) {
    if (several) panels[0].rows.push_back(summarize(r.latencies));
    for (std::size_t m = 0; m < r.per_model.size(); ++m)
      panels[m + (several ? 1 : 0)].rows.push_back(summarize(r.per_model[m].latencies));
  }
  return panels;
}

void put_data(std::ostream& out, std::size_t number, const panel& p,
              std::span<const run_result> runs) {
  out << "$panel" << number << " << END\n"; // x, p50, mean, p90, p99, colour
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const latency_summary& s = p.rows[i];
    if (s.p50 <= duration::zero()) continue; // nothing finished: no place on a logarithmic axis
    out << fmt::format("{} {:.6f} {:.6f} {:.6f} {:.6f} {}\n", i, ms(s.p50), ms(s.mean), ms(s.p90),
                       ms(s.p99), common::style_of(runs[i].policy).colour);
  }
  out << "END\n";
}

/// For all models and requests.
bool has_one_deadline(const options& from) { return from.slo && !from.slo->of_solo; }

void put_axes(std::ostream& out, const options& from, const std::vector<panel>& panels,
              std::span<const run_result> runs) {
  double least = 1e12, most = 0;
  for (const panel& p : panels) {
    for (const latency_summary& s : p.rows) {
      if (s.p50 <= duration::zero()) continue;
      least = std::min(least, ms(s.p50));
      most = std::max(most, ms(s.p99));
    }
  }
  if (most <= 0) least = 0.1, most = 1;
  if (has_one_deadline(from)) most = std::max(most, ms(from.slo->time));
  out << gnuplot_log_ytics(least / 2.2, most * 2.2)
      << fmt::format("set yrange [{:g}:{:g}]\nset xrange [-0.6:{}]\nset xtics (", least / 2.2,
                     most * 2.2, static_cast<double>(runs.size()) - 0.4);
  for (std::size_t i = 0; i < runs.size(); ++i)
    out << (i ? "," : "")
        << gnuplot_literal(std::string(common::style_of(runs[i].policy).name) +
                           (runs[i].apart ? apart_suffix : ""))
        << ' ' << i;
  out << ") rotate by 40 right nomirror scale 0\n";
}

void put_panel(std::ostream& out, const options& from, std::size_t number, const panel& p,
               bool leftmost) {
  const std::string data = "$panel" + std::to_string(number);
  out << "set title " << gnuplot_literal(p.title) << " font ',15'\n"
      << (leftmost ? "set ylabel 'latency, ms'\n" : "unset ylabel\n");
  const bool empty = std::all_of(p.rows.begin(), p.rows.end(), [](const latency_summary& s) {
    return s.p50 <= duration::zero();
  });
  out << "plot ";
  if (has_one_deadline(from))
    out << fmt::format("{:g} with lines lw 1.5 dt 2 lc rgb {} notitle", ms(from.slo->time),
                       rgb(tone("limit")));
  else
    out << "NaN notitle";
  if (!empty)
    out << ", " << data
        << " using 1:2:(0):($5-$2):6 with vectors nohead lw 9 lc rgb variable notitle"
        << ", " << data << " using 1:3 with points pt 7 ps 0.75 lc rgb " << rgb(tone("mark"))
        << " notitle"
        << ", " << data << " using 1:4 with points pt 2 ps 0.7 lw 1.5 lc rgb '#FFFFFF' notitle"
        << ", " << data << " using 1:5:" << gnuplot_text("$5")
        << " with labels offset 0,0.8 notitle"
        << ", " << data << " using 1:2:" << gnuplot_text("$2")
        << " with labels offset 0,-0.8 notitle";
  out << '\n';
}

} // namespace

void write_gnuplot(std::ostream& out, const options& from, const workload_facts& facts,
                   std::span<const run_result> runs) {
  const std::vector<panel> panels = panels_of(from, runs);
  const std::size_t columns = std::min<std::size_t>(panels.size(), 3);
  const std::size_t rows = (panels.size() + columns - 1) / columns;
  const std::size_t width = columns * std::max<std::size_t>(320, 60 + 48 * runs.size());
  std::string title = from.arrivals.text + " arrivals";
  if (facts.load) title += fmt::format(", load {:.2f}", *facts.load);
  title += fmt::format(", {} requests of {} clients on {}", requests_of(runs), from.clients,
                       from.device);
  const std::string legend = "bar: median to 99th percentile, dot: mean, cross: 90th percentile" +
                             std::string(from.slo ? ", dashed: deadline" : "");

  out << gnuplot_preamble(from.plot, width, 80 + 380 * rows) << "set multiplot layout " << rows
      << ',' << columns << " title " << gnuplot_literal(title) << ".\"\\n\"."
      << gnuplot_literal(legend) << " font ',14'\n"
      << "set logscale y\nset format y '%g'\nset tmargin 3.5\nset rmargin 2\nunset key\n";
  put_axes(out, from, panels, runs);
  for (std::size_t i = 0; i < panels.size(); ++i) put_data(out, i, panels[i], runs);
  for (std::size_t i = 0; i < panels.size(); ++i)
    put_panel(out, from, i, panels[i], i % columns == 0);
  out << "unset multiplot\n";
}

void draw_plot(const options& from, const workload_facts& facts, std::span<const run_result> runs) {
  std::ostringstream script;
  write_gnuplot(script, from, facts, runs);
  draw(script.str(), from.plot);
}

} // namespace serve_mix
