// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/report.hpp"

#include "serve_partitions/plot.hpp"

#include "common/cli/option_values.hpp"
#include "common/report/json.hpp"
#include "common/report/progress.hpp"
#include "common/report/save.hpp"
#include "common/report/solo_factors.hpp"

#include <gsched/server/described_error.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iostream>
#include <ostream>
#include <string>
#include <vector>

namespace serve_partitions {

namespace {

using namespace gsched;
using common::json;
using common::rounded;
using common::us;

constexpr std::size_t most_printed = 20; ///< periods

double seconds_of(const options& o) { return to_s(o.service.length); }

double share(std::uint64_t part, std::uint64_t of) {
  return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : 0;
}

void print_row(std::ostream& out, const std::string& name, const app_outcome& a, double seconds,
               std::optional<duration> slo) {
  fmt::print(out, "{:<20}{:>10}{:>11.1f}{:>9}{:>9}{:>10.3f}%", name, a.arrived,
             static_cast<double>(a.in_time) / seconds, a.late, a.dropped, 100 * a.violations());
  if (slo)
    fmt::print(out, "{:>10.2f}{:>10.2f}{:>10.2f}\n", to_us(a.latency.percentile(0.5)) / 1e3,
               to_us(a.latency.percentile(0.99)) / 1e3, to_us(*slo) / 1e3);
  else
    fmt::print(out, "\n");
}

/// The rates that rose, where a period had too little room.
std::string change_of(const options& o, const service_outcome& r, std::size_t period) {
  const period_outcome& p = r.periods[period];
  std::string rises;
  for (std::size_t m = 0; m < p.measured.size(); ++m) {
    const double before = period > 0 ? r.periods[period - 1].measured[m] : 0;
    if (before > 0 && p.measured[m] > 2 * before)
      rises +=
          fmt::format("; {} rose from {:.1f} to {:.1f}/s", o.table->name(m), before, p.measured[m]);
  }
  return rises;
}

/// The models whose factor is not 1: "resnet50 1.41, vgg16 1.38".
std::string factors_of(const options& o, const std::vector<double>& factors) {
  std::string all;
  for (std::size_t m = 0; m < factors.size(); ++m)
    if (factors[m] != 1)
      all += fmt::format("{}{} {:.3g}", all.empty() ? "" : ", ", o.table->name(m), factors[m]);
  return all;
}

/// The models whose learned factors are not 1: "vgg16 1.2 and 0.9".
std::string factors_of(const options& o, const std::vector<corun_factors>& factors) {
  std::string all;
  for (std::size_t m = 0; m < factors.size(); ++m)
    if (factors[m] != corun_factors{})
      all += fmt::format("{}{} {:.2f} and {:.2f}", all.empty() ? "" : ", ", o.table->name(m),
                         factors[m].sensitivity, factors[m].pressure);
  return all;
}

double mean(double sum, std::uint64_t of) { return of > 0 ? sum / static_cast<double>(of) : 0; }

void print_learned(std::ostream& out, const options& o, const service_outcome& r) {
  fmt::print(out, "\n{:<20}{:>12}{:>7}{:>10}{:>7}{:>10}   {}\n", "interference learned",
             "sensitivity", "within", "pressure", "within", "batches",
             "batches of a size differ, with neighbours as predicted");
  for (std::size_t m = 0; m < r.learned.size(); ++m) {
    const learned_interference& l = r.learned[m];
    if (l.watched == 0) continue;
    const auto within = [](double error) { return fmt::format("x{:.2f}", std::exp(error)); };
    fmt::print(out, "{:<20}{:>12.2f}{:>7}{:>10.2f}{:>7}{:>10}", o.table->name(m),
               l.factors.sensitivity, within(l.unsure.sensitivity), l.factors.pressure,
               within(l.unsure.pressure), l.watched);
    if (l.of.batches > 0)
      fmt::print(out, "   by {:.2f}%; by --solo alone {:.2f}%",
                 100 * mean(l.of.learned, l.of.batches), 100 * mean(l.of.at_first, l.of.batches));
    fmt::print(out, "\n");
  }
}

/// What was learned of batch times or violations, where that is why there is another plan.
std::string lesson_of(const options& o, const period_outcome& p) {
  if (p.reason == replan_reason::times)
    return "batches take so many times the planned time: " + factors_of(o, p.corrections);
  if (p.reason == replan_reason::interference)
    return "sensitivity and pressure, times those of --solo: " + factors_of(o, p.factors);
  if (p.reason == replan_reason::violations)
    return "rates are planned times " + factors_of(o, p.margins) + ", for what was late";
  return {};
}

/// Why the first of the plans that failed did, in one line.
std::string failure_of(const service_outcome& r) { return describe(r.plan_failure).line; }

/// The SMs that the last plan leaves idle, and why; empty: none.
std::string idle_of(const options& o, const period_outcome& p) {
  std::uint32_t sms = 0, gpus = 0;
  for (std::size_t g = 0; g < p.gpu_sms.size(); ++g) {
    if (p.gpu_sms[g] == 0)
      ++gpus;
    else
      sms += o.gpus[g].sms.count() - std::min(o.gpus[g].sms.count(), p.gpu_sms[g]);
  }
  std::string all;
  if (gpus > 0)
    all += fmt::format("{} GPUs idle: {}", gpus,
                       p.plan.gpulets.empty() ? "there is no plan"
                       : o.service.fills
                           ? "there are fewer models than GPUs, or no partition fits there"
                           : "--leave-idle");
  if (sms > 0)
    all += fmt::format("{}{} SMs idle on GPUs in use: {}", all.empty() ? "" : "; ", sms,
                       o.service.fills ? "no partition gains more by them than its neighbours "
                                         "lose, within their SLOs"
                                       : "--leave-idle");
  return all;
}

json factors_json(const options& o, const std::vector<corun_factors>& factors) {
  json all = json::object();
  for (std::size_t m = 0; m < factors.size(); ++m)
    if (factors[m] != corun_factors{})
      all[o.table->name(m)] = {{"sensitivity", rounded(factors[m].sensitivity)},
                               {"pressure", rounded(factors[m].pressure)}};
  return all;
}
json factors_json(const options& o, const std::vector<double>& factors) {
  json all = json::object();
  for (std::size_t m = 0; m < factors.size(); ++m)
    if (factors[m] != 1) all[o.table->name(m)] = rounded(factors[m]);
  return all;
}

/// Where the time of stalled batches went beyond what was expected.
struct stall_parts {
  duration to_launch{}; ///< from the decision to the launch call
  duration launch{};    ///< in it
  duration queued{};    ///< until its stream reached it on the GPU
  duration running{};   ///< on the GPU, beyond the expected time
  duration unseen{};    ///< until the host saw its end
};

stall_parts parts_of(const batch_stall& s) {
  const auto later = [](time_point from, time_point to) {
    return std::max(duration::zero(), to - from);
  };
  const batch_times& t = *s.times;
  return {later(s.decided, t.launching), t.launched - t.launching, later(t.launched, t.started),
          std::max(duration::zero(), later(t.started, t.ended) - s.expected),
          later(t.ended, t.seen)};
}

void print_stalls(std::ostream& out, const options& o, const service_outcome& r) {
  if (o.service.stall <= duration::zero()) return;
  const double limit = to_us(o.service.stall) / 1e3;
  if (r.stalled == 0) {
    fmt::print(out, "no batch took more than {:g} ms longer than expected\n", limit);
    return;
  }
  stall_parts sum;
  std::size_t traced = 0, planning = 0, preempted = 0, behind = 0;
  for (const batch_stall& s : r.stalls) {
    planning += s.planning;
    behind += s.behind.has_value();
    if (!s.times) continue;
    ++traced;
    preempted += s.times->preempted > 0;
    const stall_parts p = parts_of(s);
    sum.to_launch += p.to_launch;
    sum.launch += p.launch;
    sum.queued += p.queued;
    sum.running += p.running;
    sum.unseen += p.unseen;
  }
  const auto mean = [&](duration d) { return to_us(d) / 1e3 / static_cast<double>(traced); };
  fmt::print(out, "{} batches took more than {:g} ms longer than expected", r.stalled, limit);
  if (traced > 0)
    fmt::print(
        out,
        ": in the mean {:.2f} ms to the launch, {:.2f} in it, {:.2f} queued on the GPU, {:.2f} "
        "too long on the GPU, {:.2f} until seen",
        mean(sum.to_launch), mean(sum.launch), mean(sum.queued), mean(sum.running),
        mean(sum.unseen));
  fmt::print(
      out,
      "; of {}, {} began when another partition's batch ended, {} ran while a plan was made, "
      "in {} the host's thread was preempted\n",
      r.stalls.size(), behind, planning, preempted);
}

json stalls_json(const options& o, const service_outcome& r) {
  json all = json::array();
  for (const batch_stall& s : r.stalls) {
    json row{{"at_s", rounded(to_s(s.decided.time_since_epoch()))},
             {"model", o.table->name(s.model)},
             {"batch", s.batch},
             {"gpu", s.gpu},
             {"partition", s.partition},
             {"sms", s.sms.count()},
             {"expected_us", us(s.expected)},
             {"took_us", us(s.took)},
             {"beside", s.beside},
             {"planning", s.planning}};
    if (s.behind) row["behind"] = o.table->name(*s.behind);
    if (s.times) {
      const stall_parts p = parts_of(s);
      row["to_launch_us"] = us(p.to_launch);
      row["launch_us"] = us(p.launch);
      row["queued_us"] = us(p.queued);
      row["gpu_us"] = us(s.times->ended - s.times->started);
      row["unseen_us"] = us(p.unseen);
      row["longest_pause_us"] = us(s.times->longest_pause);
      row["longest_launch_us"] = us(s.times->longest_launch);
      row["preempted"] = s.times->preempted;
    }
    all.push_back(std::move(row));
  }
  return all;
}

json latency_json(const gsched::trace::histogram& h) {
  return {{"mean", us(h.mean())},
          {"p50", us(h.percentile(0.5))},
          {"p99", us(h.percentile(0.99))},
          {"max", us(h.max())}};
}

json app_json(const app_outcome& a, double seconds) {
  return {{"arrived", a.arrived},
          {"in_time", a.in_time},
          {"late", a.late},
          {"dropped", a.dropped},
          {"violations", rounded(a.violations())},
          {"in_time_per_s", rounded(static_cast<double>(a.in_time) / seconds)}};
}

} // namespace

void print(std::ostream& out, const options& o, const served& all) {
  const service_outcome& r = all.outcome;
  fmt::print(out, "{:<20}{:>10}{:>11}{:>9}{:>9}{:>11}{:>10}{:>10}{:>10}\n", "", "arrived",
             "in time/s", "late", "dropped", "violations", "p50, ms", "p99, ms", "SLO, ms");
  for (std::size_t a = 0; a < o.apps.size(); ++a)
    print_row(out, o.apps[a].definition.name, r.apps[a], seconds_of(o), o.apps[a].definition.slo);
  print_row(out, "all", r.all(), seconds_of(o), std::nullopt);
  if (all.making) {
    fmt::print(out, "\n{:<20}{:>10}{:>13}{:>21}{:>18}\n", "", "batches", "of expected",
               "median over it, ms", "p99 over it, ms");
    for (std::size_t m = 0; m < r.models.size(); ++m)
      if (const model_outcome& of = r.models[m]; of.batches > 0)
        fmt::print(out, "{:<20}{:>10}{:>13.3f}{:>21.3f}{:>18.3f}\n", o.table->name(m), of.batches,
                   static_cast<double>(of.took.count()) / static_cast<double>(of.expected.count()),
                   to_us(of.excess.percentile(0.5)) / 1e3, to_us(of.excess.percentile(0.99)) / 1e3);
  }
  double sms = 0, worst = 0;
  for (const period_outcome& p : r.periods) {
    sms += p.sms / static_cast<double>(r.periods.size());
    worst = std::max(worst, share(p.violated, p.ended));
  }
  fmt::print(
      out,
      "\n{} periods, {} switches of plan; {:.1f} of {} SMs planned, in the mean; {} batches; "
      "at worst {:.2f}% violations in a period\n",
      r.periods.size(), r.switches, sms,
      o.gpus.size() * (o.gpus.empty() ? 0 : o.gpus[0].sms.count()), r.batches, 100 * worst);
  if (all.making) {
    const partition_making& p = *all.making;
    const auto ms = [](duration d) { return to_us(d) / 1e3; };
    fmt::print(
        out,
        "{}: {} partitions made and {} found ready, {} let go; {:.1f} ms to decide and {:.1f} "
        "ms to make them, {:.1f} ms at most for a plan; a batch took {:.1f} us to begin, {:.1f} "
        "ms at most, and ends were looked for each {:.1f} ms at most\n",
        p.gpu, p.made, p.kept, p.let_go, ms(p.deciding), ms(p.making), ms(p.longest),
        to_us(p.beginning) / std::max(1.0, static_cast<double>(r.batches)), ms(p.longest_begin),
        ms(p.longest_pause));
    double host = 0;
    for (const model_outcome& m : r.models) host = std::max(host, m.host_part());
    if (host > o.service.margins.host)
      fmt::print(out,
                 "up to {:.0f}% of a model's batch times may be the host's, which launched them or "
                 "looked for "
                 "their ends late; no plan was made for that\n",
                 100 * host);
  }
  if (r.failed_plans > 0)
    fmt::print(out, "{} times a new plan could not be made, and the one before went on: {}\n",
               r.failed_plans, failure_of(r));
  if (const period_outcome& p = r.periods.back(); p.on_shared_sms > 0)
    fmt::print(out, "{} of {} partitions run on the SMs of others, at the same time\n",
               p.on_shared_sms, p.partitions);
  if (const std::string beyond = beyond_fit(o, r.periods.back().plan); !beyond.empty())
    fmt::print(out, "plans are extrapolated: beyond what the fit and --solo have seen in {}\n",
               beyond);
  if (const std::string idle = idle_of(o, r.periods.back()); !idle.empty())
    fmt::print(out, "{}\n", idle);
  if (r.periods.size() > 1) {
    fmt::print(out, "violations by period, %:");
    for (std::size_t i = 0; i < r.periods.size() && i < most_printed; ++i)
      fmt::print(out, " {:.2f}", 100 * share(r.periods[i].violated, r.periods[i].ended));
    fmt::print(out, "{}\n", r.periods.size() > most_printed ? " ..." : "");
  }
  if (const std::string times = factors_of(o, r.periods.back().corrections); !times.empty())
    fmt::print(out, "batch times over those of table and interference, as learned: {}\n", times);
  for (const std::size_t m : r.periods.back().too_slow)
    fmt::print(
        out,
        "{}: batches take {:.3g} times as planned, and no partition keeps the SLO; requests are "
        "dropped, but for probes\n",
        o.table->name(m), r.periods.back().corrections[m]);
  if (!r.learned.empty()) print_learned(out, o, r);
  print_stalls(out, o, r);
  std::size_t printed = 0, more = 0;
  for (std::size_t i = 0; i < r.periods.size(); ++i) {
    const period_outcome& p = r.periods[i];
    const double at = to_s(p.begin.time_since_epoch());
    std::string change = change_of(o, r, i);
    if (const std::string lesson = lesson_of(o, p); !lesson.empty()) change += "; " + lesson;
    const double wanted = o.service.replanning.headroom;
    const bool has_room = p.factor >= wanted * (1 - 1e-9);
    if (!p.no_plan && has_room && change.empty()) continue;
    if (++printed > most_printed) {
      ++more;
      continue;
    }
    const std::string plan =
        p.factor == 0 ? "no plan for these rates, all is dropped"
        : p.no_plan   ? "no plan that serves more of these rates, the one before goes on"
        : has_room
            ? "planned for"
            : fmt::format("room for {:.4g} times these rates, not for {:g}", p.factor, wanted);
    fmt::print(out, "at {:.1f} s: {}{}; {:.2f}% violations until the next period\n", at, plan,
               change, 100 * share(p.violated, p.ended));
  }
  if (more > 0) fmt::print(out, "and {} periods more of that kind; --json lists all\n", more);
}

void write_json(std::ostream& out, const options& o, const served& all) {
  const service_outcome& r = all.outcome;
  const double seconds = seconds_of(o);
  json j{{"what", "serve_partitions"},
         {"table", o.table_name},
         {"planner", o.planner},
         {"gpus", o.gpus.size()},
         {"sms", o.gpus.empty() ? 0 : o.gpus[0].sms.count()},
         {"seconds", rounded(seconds)},
         {"period_s", rounded(to_s(o.service.period))},
         {"replans", o.service.replans},
         {"headroom", o.service.replanning.headroom},
         {"clusters", o.service.replanning.clusters},
         {"rate_error", o.error.part},
         {"rate_error_is_fixed", o.error.is_fixed},
         {"true_slowdown", factors_json(o, o.true_slowdown)},
         {"interference", o.truth.has_value()},
         {"planned_interference", o.planned.has_value()},
         {"share_sms", o.shared_planned != nullptr},
         {"shared_error", o.shared_error},
         {"seed", o.seed}};
  if (!o.only.empty()) j["only"] = o.only;
  if (!o.batches.empty()) j["batches_of_graphs"] = o.batches;
  if (all.making)
    j["real"] = {{"gpu", all.making->gpu},
                 {"data", o.carries_data},
                 {"partitions_made", all.making->made},
                 {"partitions_kept", all.making->kept},
                 {"partitions_let_go", all.making->let_go},
                 {"deciding_us", us(all.making->deciding)},
                 {"making_us", us(all.making->making)},
                 {"longest_making_us", us(all.making->longest)},
                 {"beginning_us", us(all.making->beginning)},
                 {"longest_begin_us", us(all.making->longest_begin)},
                 {"longest_pause_us", us(all.making->longest_pause)}};
  j["all"] = app_json(r.all(), seconds);
  j["switches"] = r.switches;
  if (r.failed_plans > 0) {
    j["failed_plans"] = r.failed_plans;
    j["plan_failure"] = failure_of(r);
  }
  j["batches"] = r.batches;
  json& apps = j["apps"] = json::array();
  for (std::size_t a = 0; a < o.apps.size(); ++a) {
    json row{{"name", o.apps[a].definition.name}, {"slo_us", us(o.apps[a].definition.slo)}};
    if (!o.apps[a].expected.empty()) row["rate"] = rounded(o.apps[a].expected.front().rate);
    row.update(app_json(r.apps[a], seconds));
    row["latency_us"] = latency_json(r.apps[a].latency);
    apps.push_back(std::move(row));
  }
  json& models = j["models"] = json::array();
  for (std::size_t m = 0; m < r.models.size(); ++m) {
    const gsched::request_counts& c = r.models[m].counts;
    if (c.arrived > 0)
      models.push_back({{"model", o.table->name(m)},
                        {"slo_us", us(o.slos[m])},
                        {"arrived", c.arrived},
                        {"in_time", c.in_time},
                        {"late", c.late},
                        {"dropped", c.dropped},
                        {"batches", r.models[m].batches},
                        {"batch_expected_us", us(r.models[m].expected)},
                        {"batch_took_us", us(r.models[m].took)},
                        {"batch_host_us", us(r.models[m].host)},
                        {"batch_over_us", latency_json(r.models[m].excess)},
                        {"latency_us", latency_json(r.models[m].latency)}});
  }
  if (o.service.stall > duration::zero()) {
    j["stalled"] = r.stalled;
    j["stalls"] = stalls_json(o, r);
  }
  if (o.learns) {
    json& learned = j["learned"] = json::array();
    for (std::size_t m = 0; m < r.learned.size(); ++m)
      if (const learned_interference& l = r.learned[m]; l.watched > 0)
        learned.push_back({{"model", o.table->name(m)},
                           {"sensitivity", rounded(l.factors.sensitivity)},
                           {"pressure", rounded(l.factors.pressure)},
                           {"sensitivity_error", rounded(l.unsure.sensitivity)},
                           {"pressure_error", rounded(l.unsure.pressure)},
                           {"batches", l.watched},
                           {"predicted", l.of.batches},
                           {"error_at_first", rounded(mean(l.of.at_first, l.of.batches))},
                           {"error", rounded(mean(l.of.learned, l.of.batches))}});
  }
  json& periods = j["periods"] = json::array();
  for (const period_outcome& p : r.periods) {
    json measured = json::object(), came = json::object(), too_slow = json::array();
    for (const std::size_t m : p.too_slow) too_slow.push_back(o.table->name(m));
    for (std::size_t m = 0; m < p.measured.size(); ++m)
      if (r.models[m].counts.arrived > 0) {
        measured[o.table->name(m)] = rounded(p.measured[m]);
        came[o.table->name(m)] = p.arrived[m];
      }
    periods.push_back({{"begin_s", rounded(to_s(p.begin.time_since_epoch()))},
                       {"measured", std::move(measured)},
                       {"came", std::move(came)},
                       {"ended", p.ended},
                       {"violated", p.violated},
                       {"reason", std::string(name_of(p.reason))},
                       {"corrections", factors_json(o, p.corrections)},
                       {"too_slow", std::move(too_slow)},
                       {"margins", factors_json(o, p.margins)},
                       {"factors", factors_json(o, p.factors)},
                       {"factor", rounded(p.factor)},
                       {"partitions", p.partitions},
                       {"on_shared_sms", p.on_shared_sms},
                       {"sms", p.sms},
                       {"gpu_sms", p.gpu_sms},
                       {"switched", p.switched},
                       {"no_plan", p.no_plan},
                       {"beyond_the_fit", beyond_fit(o, p.plan)}});
  }
  out << j.dump(1) << '\n';
}

namespace {

void write_batches(std::ostream& out, const options& o, const std::deque<ended_batch>& batches) {
  out << "begin_us,end_us,gpu,partition,region,sms,model,batch,planned_us,least_us,host_us,gpu_"
         "us\n";
  for (const ended_batch& b : batches)
    fmt::print(out, "{:.3f},{:.3f},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{}\n",
               to_us(b.begun.time_since_epoch()), to_us(b.ended.time_since_epoch()), b.gpu,
               b.partition, b.region, b.sms.count(), o.table->name(b.model), b.batch,
               to_us(b.planned), to_us(b.least), to_us(b.host),
               b.on_gpu ? fmt::format("{:.3f}", to_us(*b.on_gpu)) : "");
}

/// A run of so many simulated requests takes a minute or two.
constexpr double most_simulated = 1e8, most_requests = 1e9;

/// Refuses rates and a length that bring more requests than that.
void check_length(const options& o) {
  double all = 0;
  for (const offered_app& a : o.apps)
    for (std::size_t i = 0; i < a.actual.size(); ++i) {
      const gsched::time_point end{o.service.length};
      const gsched::time_point until =
          i + 1 < a.actual.size() ? std::min(a.actual[i + 1].at, end) : end;
      all += a.actual[i].rate * std::max(0.0, to_s(until - a.actual[i].at));
    }
  if (const double most = o.device.gpu ? most_requests : most_simulated; all > most)
    common::refuse("--seconds", fmt::format("{:.3g} requests in all", all),
                   fmt::format("at most {:.3g}: lower rates or a shorter time", most));
}

} // namespace

int serve_and_tell(options& o, const std::function<served(const options&)>& serve) {
  if (!o.assumed.empty()) std::cerr << "serve_partitions: " << o.assumed << '\n';
  for (const std::string& line : o.table->doubts())
    std::cerr << "serve_partitions: " << line << '\n';
  if (o.max_rates) {
    const double factor = scale_to_most(o);
    if (!o.quiet)
      fmt::print("rates times {:.4g}: the most that {} has a plan for\n\n", factor, o.planner);
  }
  check_length(o);
  std::deque<ended_batch>
      batches; // grows without a copy, which the thread that serves would wait for
  const served r = [&] {
    common::progress_bar bar("serving", static_cast<std::uint64_t>(o.service.length.count()),
                             o.progress);
    o.service.on_progress = [&](duration passed) {
      bar.update(static_cast<std::uint64_t>(passed.count()));
    };
    if (!o.batch_log.empty())
      o.service.on_batch = [&](const ended_batch& b) { batches.push_back(b); };
    return serve(o);
  }();
  if (!o.quiet) print(std::cout, o, r);
  if (!o.json.empty()) common::save(o.json, [&](std::ostream& to) { write_json(to, o, r); });
  if (!o.plot.empty()) draw_plot(o, r.outcome, o.plot);
  if (!o.batch_log.empty())
    common::save(o.batch_log, [&](std::ostream& to) { write_batches(to, o, batches); });
  if (!o.learned.empty())
    common::save(o.learned, [&](std::ostream& to) {
      common::write_factors(to, o.solo_file, [&](solo_metrics& row) {
        if (const auto m = o.table->find(row.model))
          row.factors = row.factors.times(r.outcome.learned[*m].factors);
      });
    });
  return 0;
}

} // namespace serve_partitions
