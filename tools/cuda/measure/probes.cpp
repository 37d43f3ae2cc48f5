// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu_works.hpp"
#include "measure/probe_list.hpp"
#include "measure/row_file.hpp"
#include "measure/session.hpp"
#include "measure/whole_graph.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/beside_probe.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

constexpr double sleep_us = 10'000; ///< of a sleeping probe, one before each replay

/// A graph, or a probe that is measured like one, beside a probe.
struct probing {
  std::optional<std::size_t> graph; ///< of the session
  cuda::probe_options victim{};     ///< without a graph
  cuda::probe_options probe{};
  bool shared = true; ///< all SMs for both; else some groups for each
};

/// The first groups that have as many SMs as --split says, or half of them.
std::size_t groups_of_victim(const options& o, const places& on) {
  if (o.victim_sms.count() == 0) return on.groups().size() / 2;
  return cuda::groups_for(o.victim_sms, on.groups());
}

class probe_part {
public:
  explicit probe_part(session& s)
      : session_(s),
        file_(s.how.out / "probes.csv",
              {"probe", "victim", "batch", "victim_sms", "probe_sms", "kind", "level", "blocks",
               "alone_us", "beside_us", "beside_p10_us", "beside_p90_us", "probe_rate_alone",
               "probe_rate_beside", "held_up", "probe_sms_seen", "alone_p10_us", "alone_p90_us"},
              5, 3) {
    report_.name = name_of(part::probes);
  }

  part_report run(double until) {
    std::vector<probing> missing;
    const std::vector<cuda::probe_options> probes =
        chosen(probe_list(session_.gpu.sms, session_.gpu.l2.count()), session_.how.probes);
    const bool parts = session_.on.groups().size() > 1;
    if (!parts && session_.how.split == sm_split::own)
      report_.notes.emplace_back("the GPU's SMs are one group, which cannot be split");
    if (session_.how.split == sm_split::own &&
        std::any_of(probes.begin(), probes.end(),
                    [](const auto& p) { return p.kind == cuda::probe_kind::sleep; }))
      report_.notes.emplace_back("sleep is left out: its blocks take only places of their own SMs");
    for (const cuda::probe_options& p : probes)
      for (const bool shared : {true, false}) {
        if (session_.how.split == (shared ? sm_split::own : sm_split::shared)) continue;
        if (!shared && (!parts || p.kind == cuda::probe_kind::sleep)) continue;
        for (std::size_t g = 0; g < session_.graphs.size(); ++g) add(missing, {g, {}, p, shared});
        for (const cuda::probe_options& v : probes) // one that is chosen with a level is none
          if (is_usual(v, session_.gpu.l2.count()) && v.kind != cuda::probe_kind::sleep)
            add(missing, {std::nullopt, v, p, shared});
      }
    std::mt19937_64 random(session_.how.seed); // so that a run that ends early has a sample
    std::shuffle(missing.begin(), missing.end(), random);
    measure_all(missing, until);
    return report_;
  }

private:
  void measure_all(const std::vector<probing>& missing, double until) {
    steps all(session_, report_, missing.size(), until);
    for (const probing& p : missing) {
      const std::string what = fmt::format("{} beside {}", name(p), p.probe.name());
      if (!all.begin(what)) break;
      try {
        measure(p);
      } catch (const error& e) { // one that fits on no SM, for example
        if (e.code() == errc::io || !gpu_works()) throw;
        report_.leave_out(what, e.what());
      }
    }
  }

  void add(std::vector<probing>& to, probing p) {
    if (file_.has(key(p)))
      ++report_.kept;
    else
      to.push_back(std::move(p));
  }

  [[nodiscard]] std::string name(const probing& p) const {
    return p.graph ? session_.graphs[*p.graph].name() : p.victim.name();
  }
  /// The SMs of the first groups, and of the rest; all for both where they are shared.
  [[nodiscard]] std::pair<sm_count, sm_count> sms(const probing& p) const {
    if (p.shared) return {session_.gpu.sms, session_.gpu.sms};
    const std::size_t own = groups_of_victim(session_.how, session_.on);
    return {session_.on.sms({0, own}), session_.on.sms({own, session_.on.groups().size()})};
  }
  [[nodiscard]] row_file::row key(const probing& p) const {
    const auto [mine, its] = sms(p);
    return {p.probe.name(), p.graph ? session_.graphs[*p.graph].model : p.victim.name(),
            std::to_string(p.graph ? session_.graphs[*p.graph].batch : 1),
            std::to_string(mine.count()), std::to_string(its.count())};
  }

  void measure(const probing& p) {
    cuda::beside_options how;
    how.gpu = session_.gpu.ordinal;
    how.turns = 3;
    how.turn_ms = 5;
    how.limit_s = 0.2; // what is held up waits for so long
    how.progressed = session_.progressed();
    if (p.probe.kind == cuda::probe_kind::sleep) {
      how.each_replay_us = sleep_us;
      how.turn_ms = 60;
    }
    const cuda::probe_split split{p.shared ? sm_count{} : sms(p).first, {}};
    std::optional<cuda::probe> victim;
    std::optional<whole_graph> graph;
    if (p.graph)
      graph.emplace(*session_.graphs[*p.graph].instances.front());
    else
      victim.emplace(p.victim, sms(p).first);
    const cuda::beside_result r = cuda::measure_beside(
        graph ? graph->get() : victim->finite(victim->rounds_for(probe_us)), p.probe, split, how);
    const cuda::probe_description& kind =
        *std::find_if(cuda::probe_kinds().begin(), cuda::probe_kinds().end(),
                      [&](const cuda::probe_description& d) { return d.kind == p.probe.kind; });
    row_file::row row = key(p);
    row.emplace_back(kind.name);
    row.push_back(std::to_string(p.probe.level != 0 ? p.probe.level : kind.usual_level));
    row.push_back(std::to_string(p.probe.blocks != 0 ? p.probe.blocks : r.probe_sms.count()));
    for (const double us : {r.alone.median, r.beside.median, r.beside.p10, r.beside.p90})
      row.push_back(us_text(us));
    for (const double rate : {r.probe_rate_alone, r.probe_rate_beside})
      row.push_back(fmt::format("{:.6g}", rate));
    row.emplace_back(r.held_up ? "1" : "0");
    row.push_back(std::to_string(r.last.sms));
    for (const double us : {r.alone.p10, r.alone.p90}) row.push_back(us_text(us));
    file_.add({std::move(row)});
    ++report_.measured;
    report_.spread(r.alone.spread(), name(p) + ", alone");
  }

  session& session_;
  part_report report_;
  row_file file_;
};

} // namespace

void check_probes(const options& o, const places& on) {
  if (o.victim_sms.count() == 0 || groups_of_victim(o, on) < on.groups().size()) return;
  const std::size_t groups = on.groups().size();
  throw error(errc::bad_option,
              "--split: " + std::to_string(o.victim_sms.count()) + " SMs, expected " +
                  (groups > 1 ? "at most " + std::to_string(on.sms({0, groups - 1}).count()) +
                                    ", so that some are left for the probe"
                              : "shared, as this GPU's SMs are one group"));
}

part_report measure_probes(session& s, double until) { return probe_part(s).run(until); }

} // namespace measure
