// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/plot.hpp"

#include "common/gnuplot.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace serve_partitions {

namespace {

using namespace gsched;
using common::gnuplot_literal;
using common::rgb;
using common::series_colour;
using common::tone;

constexpr std::size_t most_drawn = 8; ///< apps, those with the most requests: each has a colour
constexpr std::size_t most_switches_drawn = 200;
constexpr double wide = 20; ///< times the smallest rate: above that they are drawn by powers of ten

class service_drawing {
public:
  service_drawing(std::ostream& out, const options& o, const service_outcome& r)
      : out_(out), o_(o), r_(r), drawn_(r.apps.size()),
        end_(std::max(to_s(o.service.length),
                      r.periods.empty() ? 0 : to_s(r.periods.back().begin.time_since_epoch()))) {
    std::iota(drawn_.begin(), drawn_.end(), std::size_t{0});
    std::stable_sort(drawn_.begin(), drawn_.end(), [&](std::size_t a, std::size_t b) {
      return r.apps[a].arrived > r.apps[b].arrived;
    });
    drawn_.resize(std::min(drawn_.size(), most_drawn));
  }

  void write() {
    write_data();
    fmt::print(out_,
               "set multiplot layout 3,1\nset lmargin at screen 0.08\nset rmargin at screen "
               "0.78\nset xrange [0:{}]\n",
               end_ > 0 ? end_ : 1);
    write_switches();
    write_rates();
    write_violations();
    write_sms();
    out_ << "unset multiplot\n";
  }

private:
  /// f(begin and length in seconds, period) for each that is not empty.
  template <class F>
  void each_period(F f) const {
    for (std::size_t i = 0; i < r_.periods.size(); ++i) {
      const double begin = to_s(r_.periods[i].begin.time_since_epoch());
      const double next =
          i + 1 < r_.periods.size() ? to_s(r_.periods[i + 1].begin.time_since_epoch()) : end_;
      if (next > begin) f(begin, next - begin, r_.periods[i]);
    }
  }

  static double percent(std::uint64_t part, std::uint64_t of) {
    return of > 0 ? 100 * static_cast<double>(part) / static_cast<double>(of) : 0;
  }

  /// $asked and $served, a block for each app, and $all: columns begin with the time. Steps go on
  /// to the end, so the last row is there again.
  void write_data() {
    std::ostringstream asked;
    for (const std::size_t a : drawn_) {
      double rate = 0;
      for (const rate_step& s : o_.apps[a].actual) {
        const double at = to_s(s.at.time_since_epoch());
        if (at >= end_) break;
        fmt::print(asked, "{} {}\n", at, rate = s.rate);
        see(rate);
      }
      fmt::print(asked, "{} {}\n\n\n", end_, rate);
    }
    out_ << "$asked << END\n" << asked.str() << "END\n$served << END\n";
    for (const std::size_t a : drawn_) {
      std::string row = "0 0";
      each_period([&](double begin, double length, const period_outcome& p) {
        const app_period& of = p.apps[a];
        const auto in_time = static_cast<double>(of.ended - of.violated) / length;
        row = fmt::format("{} {}", in_time, percent(of.violated, of.ended));
        fmt::print(out_, "{} {}\n", begin, row);
      });
      fmt::print(out_, "{} {}\n\n\n", end_, row);
    }
    out_ << "END\n$all << END\n";
    std::string row = "0 0";
    each_period([&](double begin, double, const period_outcome& p) {
      row = fmt::format("{} {}", percent(p.violated, p.ended), p.sms);
      fmt::print(out_, "{} {}\n", begin, row);
    });
    fmt::print(out_, "{} {}\nEND\n", end_, row);
  }

  void see(double rate) {
    if (!(rate > 0)) return;
    most_ = std::max(most_, rate);
    least_ = least_ > 0 ? std::min(least_, rate) : rate;
  }

  void write_switches() {
    if (r_.switched_at.size() > most_switches_drawn) return;
    for (const gsched::time_point t : r_.switched_at)
      fmt::print(
          out_,
          "set arrow from first {0},graph 0 to first {0},graph 1 nohead back dt 3 lc rgb {1}\n",
          to_s(t.time_since_epoch()), rgb(tone("axis")));
  }

  void title(const std::string& text) {
    fmt::print(out_, "set title {} font ',12'\n", gnuplot_literal(text));
  }

  void write_rates() {
    std::string more;
    if (r_.apps.size() > drawn_.size())
      more = fmt::format("; {} apps with fewer requests are not drawn",
                         r_.apps.size() - drawn_.size());
    title("requests a second: offered (thin), answered in time (thick)" + more);
    const bool is_wide = most_ > wide * least_;
    out_ << (is_wide ? "set logscale y\n" : "set yrange [0:*]\nset offsets 0,0,graph 0.06,0\n")
         << "set key outside right top Left reverse samplen 2\nplot ";
    for (std::size_t i = 0; i < drawn_.size(); ++i)
      fmt::print(out_,
                 "$asked index {0} using 1:2 with steps lw 1 dt 2 lc rgb {1} notitle, "
                 "$served index {0} using 1:{2} with steps lw 2.5 lc rgb {1} title {3}, ",
                 i, rgb(series_colour(i)), is_wide ? "($2>0?$2:1/0)" : "2",
                 gnuplot_literal(o_.apps[drawn_[i]].definition.name));
    out_ << "NaN notitle\nunset logscale y\nunset offsets\n";
  }

  void write_violations() {
    const app_outcome all = r_.all();
    title(fmt::format("late or dropped, % of those that ended in a period; {:.3g}% of all {}",
                      100 * all.violations(), all.arrived));
    out_ << "set yrange [0:*<100]\nplot ";
    for (std::size_t i = 0; i < drawn_.size(); ++i)
      fmt::print(out_, "$served index {} using 1:3 with steps lw 1.5 lc rgb {} notitle, ", i,
                 rgb(series_colour(i)));
    fmt::print(out_,
               "$all using 1:2 with steps lw 2 lc rgb {} title 'all', 1 with lines dt 2 lc rgb {} "
               "title '1%'\n",
               rgb(tone("mark")), rgb(tone("limit")));
  }

  void write_sms() {
    std::uint64_t there = 0;
    for (const gsched::gpu_shape& g : o_.gpus) there += g.sms.count();
    const std::size_t n = r_.switched_at.size();
    title(fmt::format("SMs of the plan, of {} by {}; {} of plans{}", there, o_.planner,
                      n == 1 ? "1 switch" : fmt::format("{} switches", n),
                      n > most_switches_drawn ? "" : " (dotted)"));
    fmt::print(out_,
               "set yrange [0:{}]\nset xlabel 'seconds'\nunset key\nset style fill solid 0.35 "
               "noborder\nplot $all using 1:3 with fillsteps lc rgb {}, $all using 1:3 "
               "with steps lw 2 lc rgb {}\n",
               std::max<std::uint64_t>(there, 1), rgb(tone("light")), rgb(tone("main")));
  }

  std::ostream& out_;
  const options& o_;
  const service_outcome& r_;
  std::vector<std::size_t> drawn_; ///< apps, the most asked for first
  double end_;                     ///< seconds
  double least_ = 0, most_ = 0;    ///< rates
};

} // namespace

void draw_plot(const options& o, const service_outcome& r, const std::filesystem::path& picture) {
  std::ostringstream script;
  script << common::gnuplot_preamble(picture, 1060, 760);
  service_drawing(script, o, r).write();
  common::draw(script.str(), picture);
}

} // namespace serve_partitions
