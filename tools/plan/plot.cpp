// SPDX-License-Identifier: Apache-2.0
#include "plan/plot.hpp"

#include "plan/plan_facts.hpp"

#include "common/gnuplot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace plan {

namespace {

using common::gnuplot_literal;
using common::rgb;
using gsched::gpulet;
using gsched::model_demand;
using gsched::portion;

constexpr std::size_t most_gpus_drawn = 64; ///< of each planner
constexpr std::size_t most_in_key = 20;     ///< models
constexpr double least_row_px = 32, lane_px = 13, head_px = 30, width_px = 1060, field_px = 960;

/// Draws from top to bottom; y is in pixels.
class plan_drawing {
public:
  plan_drawing(std::ostream& out, const options& o)
      : out_(out), o_(o), gpus_(std::min(o.gpus.size(), most_gpus_drawn)),
        all_sms_(o.gpus.empty() ? 1 : o.gpus[0].sms.count()) {
    for (const model_demand& d : o.scenarios[0].demands)
      if (d.rate > 0)
        colour_.emplace(d.model, common::light(common::series_colour(colour_.size())));
  }

  void draw(std::size_t planner, const answer& a) {
    std::string head = o_.planners[planner].name();
    if (!a.plan)
      head += a.is_proven_impossible ? ": there is no plan" : ": no plan found";
    else
      head += fmt::format(": {} SMs", sms_of(*a.plan));
    if (a.holds && !*a.holds) head += ", does not hold beside others";
    label(0, y_ + 0.6 * head_px, head, "left", 12);
    y_ += head_px;
    if (!a.plan) return;
    for (std::size_t g = 0; g < gpus_; ++g) {
      std::size_t lanes = 1;
      const std::vector<gpulet> here = drawn_on(*a.plan, g);
      for (const gpulet& l : here) lanes = std::max(lanes, l.portions.size());
      row_px_ = std::max(least_row_px, lane_px * static_cast<double>(lanes) + 4);
      rows_.emplace_back(y_ + row_px_ / 2, g);
      box(0, all_sms_, y_ + 2, y_ + row_px_ - 2, common::tone("empty"));
      double at = 0;
      for (const gpulet& l : here) draw(l, std::exchange(at, at + l.sms.count()));
      y_ += row_px_;
    }
    if (gpus_ < o_.gpus.size()) {
      label(0, y_ + 0.5 * head_px, fmt::format("and {} GPUs more", o_.gpus.size() - gpus_), "left",
            10);
      y_ += head_px;
    }
  }

  void finish() {
    out_ << fmt::format("set yrange [{}:0]\nset xrange [0:{}]\nset ytics (", y_ + 1, all_sms_);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      out_ << fmt::format("{}'GPU {}' {}", i ? "," : "", rows_[i].second, rows_[i].first);
    out_ << ") scale 0\nset xlabel 'SMs; in each partition its models, with their batch'\n"
         << "set key outside top center horizontal samplen 1\nset style fill solid\nplot ";
    std::size_t i = 0;
    for (const auto& [model, colour] : colour_)
      if (i++ < most_in_key)
        out_ << fmt::format("NaN with boxes lc rgb {} title {}, ", rgb(colour),
                            gnuplot_literal(o_.table->name(model)));
    out_ << "NaN notitle\n";
  }

  [[nodiscard]] double height() const { return y_; }

private:
  /// The partitions of a GPU; those of a region as one, with the models of all.
  [[nodiscard]] static std::vector<gpulet> drawn_on(const gsched::partition_plan& p,
                                                    std::size_t gpu) {
    std::vector<gpulet> all;
    for (const gpulet& l : p.gpulets) {
      if (l.gpu != gpu) continue;
      const auto same =
          std::find_if(all.begin(), all.end(), [&](const gpulet& o) { return share_sms(o, l); });
      if (same == all.end())
        all.push_back(l);
      else
        same->portions.insert(same->portions.end(), l.portions.begin(), l.portions.end());
    }
    return all;
  }

  /// A partition, with a lane for each of its models.
  void draw(const gpulet& l, double from) {
    const double to = from + l.sms.count();
    const auto lanes = static_cast<double>(l.portions.size());
    double top = y_ + 2;
    const double lane = (row_px_ - 4) / std::max(lanes, 1.0);
    for (const portion& p : l.portions) {
      box(from, to, top, top + lane, colour_.at(p.model));
      const double font = std::clamp(lane - 4, 5.0, 10.0);
      const std::string& name = o_.table->name(p.model);
      const double room = (to - from) * field_px / all_sms_ / (0.65 * font);
      for (const std::string& text :
           {fmt::format("{}, batch {}", name, p.batch), fmt::format("{} {}", name, p.batch),
            fmt::format("{}", p.batch)})
        if (static_cast<double>(text.size()) < room) {
          label((from + to) / 2, top + lane / 2, text, "center", font);
          break;
        }
      top += lane;
    }
    out_ << fmt::format("set object rectangle from {},{} to {},{} front fs empty border lc rgb {} "
                        "lw 1.5\n",
                        from, y_ + 2, to, y_ + row_px_ - 2, rgb(common::tone("axis")));
  }

  void box(double from, double to, double top, double bottom, std::uint32_t colour) {
    out_ << fmt::format("set object rectangle from {},{} to {},{} fc rgb {} fs solid border lc "
                        "rgb '#FFFFFF'\n",
                        from, top, to, bottom, rgb(colour));
  }
  void label(double x, double y, const std::string& text, const char* where, double font) {
    out_ << fmt::format("set label {} at {},{} {} front noenhanced font ',{:.0f}'\n",
                        gnuplot_literal(text), x, y, where, font);
  }

  std::ostream& out_;
  const options& o_;
  std::size_t gpus_;
  double all_sms_;
  double y_ = 0;
  double row_px_ = least_row_px;
  std::map<std::size_t, std::uint32_t> colour_;        ///< by model
  std::vector<std::pair<double, std::size_t>> rows_{}; ///< y, GPU
};

void write_plans(std::ostream& out, const options& o, const answers& all) {
  std::ostringstream drawn;
  plan_drawing drawing(drawn, o);
  for (std::size_t p = 0; p < o.planners.size(); ++p) drawing.draw(p, all[p]);
  const auto height = static_cast<std::size_t>(std::min(drawing.height() + 110, 20000.0));
  drawing.finish();
  out << common::gnuplot_preamble(o.plot, 1060, height) << "set border 1\nunset grid\n"
      << "set lmargin at screen " << fmt::format("{:.3f}", 70 / width_px)
      << "\nset rmargin at screen " << fmt::format("{:.3f}\n", (70 + field_px) / width_px)
      << drawn.str();
}

void write_totals(std::ostream& out, const options& o, const answers& all) {
  const std::size_t n = o.planners.size();
  std::size_t impossible = 0;
  out << "$data << END\n"; // x, schedulable, of these hold, SMs, colour, a lighter one
  for (std::size_t p = 0; p < n; ++p) {
    const total t = total_of(o, all, p);
    impossible = std::max(impossible, t.impossible);
    const std::uint32_t colour = common::style_of(o.planners[p].name()).colour;
    out << fmt::format("{} {} {} {:.3f} {} {}\n", p, t.schedulable, t.holds.value_or(t.schedulable),
                       t.sms_of_common.value_or(0), colour, common::light(colour));
  }
  const std::size_t common = common_of(o, all), scenarios = o.scenarios.size();
  out << "END\n"
      << common::gnuplot_preamble(o.plot, 2 * std::max<std::size_t>(400, 90 + 56 * n), 460)
      << "set multiplot layout 1,2\nset tmargin 3.5\nset rmargin 2\nunset key\n"
      << "set style fill solid\nset boxwidth 0.6\n"
      << fmt::format("set xrange [-0.6:{}]\nset xtics (", static_cast<double>(n) - 0.4);
  for (std::size_t p = 0; p < n; ++p)
    out << (p ? "," : "") << gnuplot_literal(common::style_of(o.planners[p].name()).name) << ' '
        << p;
  out << ") rotate by 40 right nomirror scale 0\nset title 'plans for " << scenarios << " scenarios"
      << (o.law ? " (dark: hold beside others)" : "") << "' font ',13'\n"
      << fmt::format("set yrange [0:{:g}]\n", 1.12 * static_cast<double>(scenarios));
  if (impossible > 0)
    out << fmt::format("set arrow 1 from graph 0,first {0} to graph 1,first {0} nohead dt 2 lc rgb "
                       "{2}\nset label 1 'dashed: all but the {1} proven impossible' at graph "
                       "0.02,0.97 tc rgb {2} font ',10'\n",
                       scenarios - impossible, impossible, rgb(common::tone("limit")));
  out << "plot $data using 1:2:6 with boxes lc rgb variable,"
      << " $data using 1:3:5 with boxes lc rgb variable,"
      << " $data using 1:2:(sprintf('%d', $2)) with labels offset 0,0.6\n"
      << "unset arrow 1\nunset label 1\nset title 'SMs, mean of the " << common
      << " that all have a plan for' font ',13'\nset yrange [0:*]\nset offsets 0,0,graph 0.12,0\n"
      << "plot $data using 1:4:5 with boxes lc rgb variable,"
      << " $data using 1:4:(sprintf('%.0f', $4)) with labels offset 0,0.6\nunset multiplot\n";
}

} // namespace

void draw_plot(const options& o, const answers& all) {
  std::ostringstream script;
  o.scenarios.size() == 1 ? write_plans(script, o, all) : write_totals(script, o, all);
  common::draw(script.str(), o.plot);
}

} // namespace plan
