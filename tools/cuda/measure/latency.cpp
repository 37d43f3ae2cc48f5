// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu_works.hpp"
#include "measure/row_file.hpp"
#include "measure/session.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

constexpr int latency_rounds = 5;

/// The groups for the sizes that are asked for; all sizes if none are.
std::vector<group_range> sizes_of(const options& how, const places& on) {
  std::vector<group_range> all;
  std::string possible;
  for (std::size_t n = 1; n <= on.groups().size(); ++n) {
    const group_range r{0, n};
    possible += (n > 1 ? ", " : "") + std::to_string(on.sms(r).count());
    if (how.sms.empty() || std::find(how.sms.begin(), how.sms.end(), on.sms(r)) != how.sms.end())
      all.push_back(r);
  }
  for (const sm_count wanted : how.sms)
    if (std::none_of(all.begin(), all.end(),
                     [&](const group_range& r) { return on.sms(r) == wanted; }))
      throw error(errc::bad_option, "--sms: " + std::to_string(wanted.count()) +
                                        " SMs, expected sizes that this GPU has: " + possible);
  return all;
}

struct sized_graph {
  sm_count sms{};
  cuda::placed_graph graph;
  std::vector<double> times{};
};

} // namespace

void check_latency(const options& o, const places& on) { static_cast<void>(sizes_of(o, on)); }

part_report measure_latency(session& s, double until) {
  part_report report;
  report.name = name_of(part::latency);
  const std::vector<group_range> sizes = sizes_of(s.how, s.on);
  row_file file(s.how.out / "latency_batch_partition.csv",
                {"model", "batch", "sms", "latency_us", "p10_us", "p90_us", "replays"}, 3);
  const auto key = [](const measured_graph& g, sm_count sms) {
    return row_file::row{g.model, std::to_string(g.batch), std::to_string(sms.count())};
  };
  std::vector<const measured_graph*> missing;
  for (const measured_graph& g : s.graphs) {
    const auto there = static_cast<std::size_t>(
        std::count_if(sizes.begin(), sizes.end(),
                      [&](const group_range& r) { return file.has(key(g, s.on.sms(r))); }));
    report.kept += there;
    if (there < sizes.size()) missing.push_back(&g);
  }
  cuda::replayer replays({.progressed = s.progressed()});
  { // its end completes the report
    steps all(s, report, missing.size(), until);
    for (const measured_graph* const g : missing) {
      if (!all.begin(g->name())) break;
      std::vector<sized_graph> variants;
      for (const group_range& r : sizes) {
        const sm_count sms = s.on.sms(r);
        if (file.has(key(*g, sms))) continue;
        try {
          variants.push_back({sms, cuda::placed_graph(*g->instances.front(), s.on.at(r))});
        } catch (const error& e) {
          if (!gpu_works()) throw;
          report.leave_out(fmt::format("{} on {} SMs", g->name(), sms.count()), e.what());
        }
      }
      for (int round = 0; round < latency_rounds; ++round)
        for (sized_graph& v : variants) replays.alone(v.graph, v.times);
      std::vector<row_file::row> rows;
      for (const sized_graph& v : variants) {
        const cuda::replay_times t = cuda::summarize(v.times);
        row_file::row row = key(*g, v.sms);
        for (const double us : {t.median, t.p10, t.p90}) row.push_back(us_text(us));
        row.push_back(std::to_string(t.count));
        rows.push_back(std::move(row));
        report.spread(t.spread(), fmt::format("{} on {} SMs", g->name(), v.sms.count()));
      }
      file.add(rows);
      report.measured += rows.size();
    }
  }
  return report;
}

} // namespace measure
