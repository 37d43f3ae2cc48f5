// SPDX-License-Identifier: Apache-2.0
#include "measure/folder.hpp"
#include "measure/gpu_works.hpp"
#include "measure/row_file.hpp"
#include "measure/schedule.hpp"
#include "measure/session.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

constexpr int pair_rounds = 3;

/// Times of graphs at once and of each alone on the same SMs.
struct measured_together {
  std::vector<cuda::replay_times> solo;
  std::vector<cuda::replay_times> corun;
  double overlap = 1;
};

/// Of these graphs, each by its place.
using graph_list = std::vector<const measured_graph*>;

class companies {
public:
  companies(session& s, graph_list graphs, part_report& report)
      : session_(s), graphs_(std::move(graphs)), report_(report), replays_(options_of(s)) {}

  [[nodiscard]] const graph_list& graphs() const noexcept { return graphs_; }

  [[nodiscard]] std::string name(const company& c) const {
    std::string all;
    for (const company::member& m : c.members)
      all += (all.empty() ? "" : "+") + graphs_[m.graph]->name();
    return all;
  }

  /// In rounds: each graph alone on its SMs, then all at once, for each of the splits. Splits on
  /// which a graph does not run are left out, with a note.
  [[nodiscard]] std::vector<std::pair<split, measured_together>>
  measure(const company& c, const std::vector<split>& splits) {
    struct variant {
      split where;
      std::vector<const cuda::placed_graph*> graphs;
      std::vector<std::vector<double>> alone;
      std::vector<std::vector<double>> beside;
      double overlap = 1;
    };
    const std::size_t n = c.members.size();
    std::vector<variant> variants;
    for (const split& where : splits) {
      variant v{
          where, {}, std::vector<std::vector<double>>(n), std::vector<std::vector<double>>(n)};
      try {
        for (std::size_t i = 0; i < n; ++i)
          v.graphs.push_back(&session_.on.placed(program_of(c.members[i]), where[i]));
      } catch (const error& e) {
        if (!gpu_works()) throw;
        report_.leave_out(name(c), e.what());
        continue;
      }
      variants.push_back(std::move(v));
    }
    for (int round = 0; round < pair_rounds; ++round)
      for (variant& v : variants) {
        for (std::size_t i = 0; i < n; ++i) replays_.alone(*v.graphs[i], v.alone[i]);
        v.overlap = std::min(v.overlap, replays_.together(v.graphs, v.beside));
      }
    std::vector<std::pair<split, measured_together>> all;
    for (const variant& v : variants) {
      measured_together m;
      for (std::size_t i = 0; i < n; ++i) {
        m.solo.push_back(cuda::summarize(v.alone[i]));
        m.corun.push_back(cuda::summarize(v.beside[i]));
        report_.spread(m.solo.back().spread(), name(c) + ", alone");
      }
      m.overlap = v.overlap;
      all.emplace_back(v.where, std::move(m));
    }
    return all;
  }

private:
  static cuda::replay_options options_of(const session& s) {
    cuda::replay_options o;
    o.together = from_us(s.how.window_ms * 1e3 / pair_rounds);
    o.progressed = s.progressed();
    return o;
  }
  [[nodiscard]] const cuda::program& program_of(const company::member& m) const {
    return *graphs_[m.graph]->instances[m.instance];
  }

  session& session_;
  graph_list graphs_;
  part_report& report_;
  cuda::replayer replays_;
};

row_file::row side_key(const measured_graph& g, sm_count sms) {
  return {g.model, std::to_string(g.batch), std::to_string(sms.count())};
}

/// The graphs of --beside.
std::vector<std::size_t> named_graphs(const session& s) {
  std::vector<std::size_t> those;
  for (const std::string& name : s.how.beside) {
    const std::size_t before = those.size();
    for (std::size_t i = 0; i < s.graphs.size(); ++i)
      if (const measured_graph& g = s.graphs[i]; g.name() == name || g.model == name)
        those.push_back(i);
    if (those.size() == before)
      throw error(errc::unknown_name, "--beside: no graph \"" + name +
                                          "\", expected one that is measured, such as " +
                                          s.graphs.front().name());
  }
  return those;
}

graph_list graphs_of(part p, const session& s) {
  graph_list all;
  for (const measured_graph& g : s.graphs) all.push_back(&g);
  if (p == part::starts && !s.measures(*s.ticks)) all.push_back(s.ticks);
  return all;
}

/// `pairs`, with groups of more graphs, or `starts`.
class pair_part {
public:
  pair_part(part p, session& s)
      : session_(s), together_(s, graphs_of(p, s), report_),
        pairs_(s.how.out / (p == part::pairs ? "corun_pairs.csv" : start_pairs_name),
               {"model_a", "batch_a", "sms_a", "model_b", "batch_b", "sms_b", "solo_a_us",
                "solo_b_us", "corun_a_us", "corun_b_us", "corun_a_p10_us", "corun_a_p90_us",
                "corun_b_p10_us", "corun_b_p90_us", "overlap", "solo_a_p10_us", "solo_a_p90_us",
                "solo_b_p10_us", "solo_b_p90_us"},
               6),
        groups_(s.how.out / "corun_groups.csv",
                {"group", "model", "batch", "sms", "solo_us", "corun_us", "corun_p10_us",
                 "corun_p90_us", "solo_p10_us", "solo_p90_us"},
                1) {
    report_.name = name_of(p);
  }

  part_report run_pairs(double until) {
    std::mt19937_64 random(session_.how.seed);
    std::vector<std::size_t> instances;
    for (const measured_graph& g : session_.graphs) {
      instances.push_back(g.instances.size());
      if (instances.back() < 2)
        report_.notes.push_back(g.name() +
                                " beside itself left out: it has one instance, expected two");
    }
    std::vector<company> pairs = pairs_of(instances, random);
    if (!session_.how.beside.empty()) pairs = pairs_with(std::move(pairs), named_graphs(session_));
    std::vector<company> groups =
        groups_of(instances, session_.how.groups, session_.how.group_sizes, random);
    pending missing;
    for (company& c : interleaved(std::move(pairs), std::move(groups))) add(missing, std::move(c));
    measure_all(missing, until);
    return report_;
  }

  /// Each graph beside the one that only starts kernels, on SMs of their own.
  part_report run_starts(double until) {
    const graph_list& all = together_.graphs();
    const auto ticks =
        static_cast<std::size_t>(std::find(all.begin(), all.end(), session_.ticks) - all.begin());
    if (session_.on.groups().size() < 2)
      report_.notes.emplace_back("left out: this GPU has no partitions");
    std::vector<company> pairs;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != ticks) pairs.push_back({{{ticks, 0}, {i, 0}}});
    std::mt19937_64 random(session_.how.seed);
    std::shuffle(pairs.begin(), pairs.end(), random);
    pending missing;
    for (company& c : pairs) add(missing, std::move(c), false);
    measure_all(missing, until);
    return report_;
  }

private:
  using pending = std::vector<std::pair<company, std::vector<split>>>;

  void measure_all(const pending& missing, double until) {
    steps all(session_, report_, missing.size(), until);
    for (const auto& [c, splits] : missing) {
      if (!all.begin(together_.name(c))) break;
      for (const auto& [where, m] : together_.measure(c, splits)) write(c, where, m);
    }
  }

  /// Adds a company with those splits that have no rows yet; nothing if all have. Those of a pair
  /// end with that in which both share all SMs.
  void add(pending& to, company c, bool shared = true) {
    const std::size_t groups = session_.on.groups().size();
    const std::size_t n = c.members.size();
    std::vector<split> splits =
        n == 2 ? splits_for_two(groups)
               : std::vector<split>{equal_split(groups, n), shared_split(groups, n)};
    if (!shared) splits.pop_back();
    // A pair whose rows name it the other way round goes on so.
    if (const company other{{c.members.back(), c.members.front()}};
        n == 2 && std::any_of(splits.begin(), splits.end(), [&](const split& where) {
          return !where.empty() && pairs_.has(pair_key(other, where));
        }))
      c = other;
    std::erase_if(splits, [&](const split& where) {
      if (where.empty()) return true;
      const bool there =
          n == 2 ? pairs_.has(pair_key(c, where)) : groups_.has_all({label(c, where)}, n);
      report_.kept += there ? (n == 2 ? 1 : n) : 0;
      return there;
    });
    if (!splits.empty()) to.emplace_back(std::move(c), std::move(splits));
  }

  [[nodiscard]] const measured_graph& graph(const company& c, std::size_t i) const {
    return *together_.graphs()[c.members[i].graph];
  }
  [[nodiscard]] row_file::row pair_key(const company& c, const split& where) const {
    row_file::row key;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::string& field : side_key(graph(c, i), session_.on.sms(where[i])))
        key.push_back(std::move(field));
    return key;
  }
  /// "lenet_b1@40+vgg16_b8@44+vgg16_b1@48"
  [[nodiscard]] std::string label(const company& c, const split& where) const {
    std::string all;
    for (std::size_t i = 0; i < c.members.size(); ++i)
      all += fmt::format("{}{}@{}", i > 0 ? "+" : "", graph(c, i).name(),
                         session_.on.sms(where[i]).count());
    return all;
  }

  void write(const company& c, const split& where, const measured_together& m) {
    if (c.members.size() == 2) {
      row_file::row row = pair_key(c, where);
      for (const cuda::replay_times& t : m.solo) row.push_back(us_text(t.median));
      for (const cuda::replay_times& t : m.corun) row.push_back(us_text(t.median));
      for (const cuda::replay_times& t : m.corun)
        for (const double us : {t.p10, t.p90}) row.push_back(us_text(us));
      row.push_back(fmt::format("{:.3f}", m.overlap));
      for (const cuda::replay_times& t : m.solo)
        for (const double us : {t.p10, t.p90}) row.push_back(us_text(us));
      pairs_.add({row});
      ++report_.measured;
      return;
    }
    std::vector<row_file::row> rows;
    for (std::size_t i = 0; i < c.members.size(); ++i) {
      row_file::row row{label(c, where)};
      for (std::string& field : side_key(graph(c, i), session_.on.sms(where[i])))
        row.push_back(std::move(field));
      for (const double us : {m.solo[i].median, m.corun[i].median, m.corun[i].p10, m.corun[i].p90,
                              m.solo[i].p10, m.solo[i].p90})
        row.push_back(us_text(us));
      rows.push_back(std::move(row));
    }
    groups_.add(rows);
    report_.measured += rows.size();
  }

  session& session_;
  part_report report_;
  companies together_;
  row_file pairs_;
  row_file groups_;
};

} // namespace

void check_pairs(const session& s) { static_cast<void>(named_graphs(s)); }

part_report measure_pairs(session& s, double until) {
  return pair_part(part::pairs, s).run_pairs(until);
}
part_report measure_starts(session& s, double until) {
  return pair_part(part::starts, s).run_starts(until);
}

} // namespace measure
