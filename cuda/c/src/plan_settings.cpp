// SPDX-License-Identifier: Apache-2.0
#include "plan_settings.hpp"

#include "field_checks.hpp"
#include "refusal.hpp"
#include "structs.hpp"

#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/latency_csv.hpp>
#include <gsched/io/measured_files.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/shared_sm_slowdowns.hpp>
#include <gsched/partition/sharing.hpp>
#include <gsched/serving/graph_batches.hpp>
#include <gsched/serving/replanning.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace gsched::abi {

namespace {

using planners = std::tuple<elastic_planner, bounded_search_planner, exact_planner>;

template <class F>
bool any_planner(F f) {
  return std::apply([&](const auto&... p) { return (f(p) || ...); }, planners{});
}

constexpr std::string_view with_sharing = "+share"; ///< suffix of a planner's name
constexpr std::uint32_t most_gpus = 64;

/// What plans are made with, in place while a server has them.
struct plan_tables {
  latency_table latency;
  std::shared_ptr<const solo_table> solo; ///< null: nothing is predicted
  interference_coefficients law{};
  std::unique_ptr<const shared_sm_slowdowns> on_shared_sms; ///< null: no models on the same SMs

  /// The bandwidth of a batch is that of this table, which nothing corrects. `metrics` outlives it.
  [[nodiscard]] contention_interference beside(const solo_table& metrics) const {
    return {latency, metrics, law, on_shared_sms.get(), shared_sm_margin};
  }
};

/// Plans with the planner of that name, with interference by `metrics`; null: without.
[[nodiscard]] planner_function planner_of(std::string name, std::vector<gpu_shape> shapes,
                                          std::shared_ptr<const plan_tables> with,
                                          std::shared_ptr<const solo_table> metrics) {
  return [=](const latency_table& t, std::span<const model_demand> d) {
    std::optional<partition_plan> plan;
    any_planner([&](const auto& p) {
      if (p.name != name) return false;
      plan = with->on_shared_sms ? sharing_planner(p).plan(t, d, shapes, with->beside(*metrics))
             : metrics           ? p.plan(t, d, shapes, with->beside(*metrics))
                                 : p.plan(t, d, shapes);
      return true;
    });
    return plan;
  };
}

[[nodiscard]] interference_function expected_of(std::shared_ptr<const plan_tables> with,
                                                std::shared_ptr<const solo_table> metrics) {
  return [=](std::span<const gpulet> all, std::size_t which, std::size_t model) {
    return with->beside(*metrics)(all, which, model);
  };
}

[[nodiscard]] interference_learning learning_of(const std::string& planner,
                                                const std::vector<gpu_shape>& shapes,
                                                const std::shared_ptr<const plan_tables>& with) {
  return {
      with->beside(*with->solo), [=](std::span<const corun_factors> learned) {
        const auto metrics =
            std::make_shared<solo_table>(with_factors(*with->solo, with->latency, learned));
        return plan_rules{planner_of(planner, shapes, with, metrics), expected_of(with, metrics)};
      }};
}

/// "NAME=VERSION", between commas.
[[nodiscard]] std::map<std::string, std::string> libraries_of(std::string_view text) {
  std::map<std::string, std::string> all;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    const std::size_t equals = one.find('=');
    if (equals == 0 || equals >= one.size() - 1 ||
        !all.emplace(one.substr(0, equals), one.substr(equals + 1)).second)
      refuse("libraries: '" + std::string(one) + "', expected NAME=VERSION, each name once");
    text.remove_prefix(std::min(text.size(), one.size() + 1));
  }
  return all;
}

/// The profiles of these models in a folder: files NAME_bBATCH.json.
[[nodiscard]] std::vector<profile> profiles_of(const std::string& folder,
                                               std::span<const plan_model_shape> models,
                                               const architecture_limits& sm) {
  std::vector<std::filesystem::path> files;
  std::error_code bad;
  for (std::filesystem::directory_iterator at(folder, bad), end; !bad && at != end;
       at.increment(bad)) {
    const std::string name = at->path().stem().string();
    if (at->path().extension() == ".json" &&
        std::any_of(models.begin(), models.end(), [&](const plan_model_shape& m) {
          return name.substr(0, name.rfind("_b")) == m.name;
        }))
      files.push_back(at->path());
  }
  if (bad) throw error(errc::io, "profiles: " + folder + ": " + bad.message());
  std::sort(files.begin(), files.end());
  std::vector<profile> all;
  for (const std::filesystem::path& f : files) all.push_back(load_profile(f, sm));
  return all;
}

/// Errors   also bad_option for a model of which nothing is known.
[[nodiscard]] std::unique_ptr<const shared_sm_slowdowns>
slowdowns_of(const plan_settings& how, std::span<const plan_model_shape> models,
             const plan_tables& with, const gpu_shape& gpu, const architecture_limits& sm) {
  std::vector<profile> known;
  if (!how.profiles.empty()) known = profiles_of(how.profiles, models, sm);
  auto made = std::make_unique<const shared_sm_slowdowns>(with.latency, *with.solo,
                                                          std::move(known), with.law, sm, gpu.sms);
  for (std::size_t m = 0; m < models.size(); ++m)
    if (!made->has(m))
      refuse("planner " + how.planner + std::string(with_sharing) + ": no profile or metrics of " +
             models[m].name + " in batches up to " + std::to_string(models[m].batches.back()) +
             ", expected one");
  return made;
}

/// Buffers of a graph, of as many requests as a batch has; the bytes of one request each.
[[nodiscard]] std::vector<std::uint64_t> request_bytes(const gsched_buffer* all,
                                                       std::uint32_t count, std::uint32_t batch,
                                                       const std::string& whose) {
  std::vector<std::uint64_t> bytes;
  if (count > 0 && all == nullptr) refuse(whose + ": NULL, expected " + std::to_string(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string which = whose + "[" + std::to_string(i) + "]: ";
    if (all[i].device == nullptr || all[i].bytes == 0 || all[i].bytes % batch != 0)
      refuse(which + std::to_string(all[i].bytes) + " bytes, expected device memory of " +
             std::to_string(batch) + " requests of the same bytes");
    bytes.push_back(all[i].bytes / batch);
  }
  return bytes;
}

[[nodiscard]] plan_model_shape shape_of(const gsched_plan_model& m, std::size_t gpus) {
  plan_model_shape s;
  std::vector<std::set<std::uint32_t>> batches(gpus);
  if (m.name == nullptr || *m.name == '\0') refuse("name: expected one");
  s.name = m.name;
  if (m.graphs == nullptr || m.graphs_count == 0) refuse(s.name + ".graphs: expected at least one");
  if (m.graphs_count > 65536) refuse(s.name + ".graphs_count: expected at most 65536");
  s.slo = time_of((s.name + ".slo_us").c_str(), m.slo_us, 1, 1e12);
  if (!(m.rate >= 0 && m.rate <= 1e9)) refuse(s.name + ".rate: expected 0 to 1e9");
  s.rate = m.rate;
  for (std::uint32_t i = 0; i < m.graphs_count; ++i) {
    const std::string whose = s.name + ": graph " + std::to_string(i);
    const gsched_plan_graph g = plan_graph_of(m, i);
    if (g.graph == nullptr) refuse(whose + ".graph: NULL, expected a captured graph");
    if (g.batch == 0 || g.batch > 4096) refuse(whose + ".batch: expected 1 to 4096");
    const auto in = request_bytes(g.inputs, m.inputs, g.batch, whose + ".inputs");
    const auto out = request_bytes(g.outputs, m.outputs, g.batch, whose + ".outputs");
    if (i == 0) {
      s.inputs = in;
      s.outputs = out;
    } else if (in != s.inputs || out != s.outputs) {
      refuse(whose + ": other bytes for each request than the first graph has, expected the same");
    }
    if (g.gpu >= gpus)
      refuse(whose + ".gpu: " + std::to_string(g.gpu) + ", expected less than " +
             std::to_string(gpus) + ", a place in gpus");
    if (g.reserved != 0) refuse(whose + ".reserved: expected 0");
    batches[g.gpu].insert(g.batch);
  }
  for (std::size_t g = 1; g < gpus; ++g)
    if (batches[g] != batches[0])
      refuse(s.name + ".graphs: other batch sizes on gpus[" + std::to_string(g) +
             "] than on gpus[0], expected the same");
  s.batches.assign(batches[0].begin(), batches[0].end());
  return s;
}

} // namespace

gsched_plan_options default_plan_options() noexcept {
  const plan_server_options d;
  gsched_plan_options o{};
  o.size = sizeof o;
  o.planner = bounded_search_planner::name.data();
  o.replans = d.plan.replans ? 1 : 0;
  o.period_us = to_us(d.plan.period);
  o.headroom = d.plan.replanning.headroom;
  o.clusters = d.plan.replanning.clusters;
  o.tolerance = d.plan.replanning.tolerance;
  o.fall = d.plan.replanning.fall;
  o.added_us = 30;
  o.spin_us = to_us(d.spin);
  o.watchdog_ms = 10000;
  o.spare = 32;
  o.at_once = d.plan.frontend.start == batch_start::at_once ? 1 : 0;
  return o;
}

plan_settings plan_settings_of(const gsched_plan_options& o) {
  plan_settings s;
  refuse_unless(o.gpu >= 0, "gpu", "0 or more");
  refuse_unless(o.table != nullptr && *o.table != '\0', "table", "a CSV file of latencies");
  refuse_unless(o.planner != nullptr, "planner", "a name, not NULL");
  s.planner = o.planner;
  s.shares_sms = s.planner.ends_with(with_sharing);
  if (s.shares_sms) s.planner.resize(s.planner.size() - with_sharing.size());
  refuse_unless(any_planner([&](const auto& p) { return s.planner == p.name; }), "planner",
                "elastic, best or ideal, or one of them with +share");
  refuse_unless((o.interference == nullptr) == (o.solo == nullptr), "interference, solo",
                "both or none");
  refuse_unless(!s.shares_sms || o.interference != nullptr, "interference, solo",
                "both, as a planner with +share predicts slow-downs");
  refuse_unless(o.profiles == nullptr || s.shares_sms, "profiles",
                "NULL, as only a planner with +share uses them");
  refuse_unless(o.profiles == nullptr || *o.profiles != '\0', "profiles", "a folder");
  if (o.profiles != nullptr) s.profiles = o.profiles;
  if (o.libraries != nullptr) s.libraries = libraries_of(o.libraries);
  refuse_unless((o.gpus == nullptr) == (o.gpus_count == 0), "gpus, gpus_count", "both or none");
  if (o.gpus_count > most_gpus) refuse("gpus_count: expected at most " + std::to_string(most_gpus));
  refuse_unless(o.gpus == nullptr || o.gpu == 0 || o.gpu == o.gpus[0], "gpu",
                "0 or gpus[0] where gpus are given");
  refuse_unless(o.reserved == 0, "reserved", "0");
  if (o.gpus == nullptr) s.gpus = {o.gpu};
  for (std::uint32_t i = 0; i < o.gpus_count; ++i) {
    refuse_unless(o.gpus[i] >= 0, "gpus", "0 or more each");
    refuse_unless(std::find(s.gpus.begin(), s.gpus.end(), o.gpus[i]) == s.gpus.end(), "gpus",
                  "each GPU once");
    s.gpus.push_back(o.gpus[i]);
  }
  s.table = o.table;
  if (o.interference != nullptr) {
    s.interference = o.interference;
    s.solo = o.solo;
  }
  s.sms = o.sms;
  refuse_unless(o.replans <= 1, "replans", "0 or 1");
  refuse_unless(o.at_once <= 1, "at_once", "0 or 1");
  refuse_unless(o.learns <= 1, "learns", "0 or 1");
  refuse_unless(o.learns == 0 || o.interference != nullptr, "learns",
                "0 without interference and solo, which it corrects");
  refuse_unless(o.learns == 0 || o.replans != 0, "learns", "0 without replans");
  s.learns = o.learns != 0;
  if (o.at_once != 0) s.plan.frontend.start = batch_start::at_once;
  s.plan.replans = o.replans != 0;
  s.plan.period = time_of("period_us", o.period_us, 1000, 1e12);
  s.plan.replanning.headroom = o.headroom;
  s.plan.replanning.clusters = o.clusters;
  s.plan.replanning.tolerance = o.tolerance;
  s.plan.replanning.fall = o.fall;
  static_cast<void>(replanning(s.plan.replanning)); // refuses what is out of range
  s.added = time_of("added_us", o.added_us, 0, 1e9);
  s.spin = time_of("spin_us", o.spin_us, 0, 1e9);
  refuse_unless(o.watchdog_ms >= 1, "watchdog_ms", "at least 1");
  s.watchdog = std::chrono::milliseconds{o.watchdog_ms};
  s.longest_hang = 2 * s.watchdog + std::chrono::seconds{3};
  refuse_unless(o.spare <= 65536, "spare", "at most 65536");
  s.spare = o.spare;
  return s;
}

gsched_plan_model plan_model_of(const gsched_plan_model* models, std::uint32_t i) {
  return element_of(models, i, "gsched_plan_model", "model");
}

gsched_plan_graph plan_graph_of(const gsched_plan_model& m, std::uint32_t i) {
  return element_of(m.graphs, i, "gsched_plan_graph", "graph", offsetof(gsched_plan_graph, gpu));
}

std::vector<plan_model_shape> shapes_of(const gsched_plan_model* models, std::uint32_t count,
                                        std::size_t gpus) {
  if (models == nullptr || count == 0) refuse("models: expected at least one");
  if (count > GSCHED_MOST_MODELS)
    refuse("count: expected at most " + std::to_string(GSCHED_MOST_MODELS));
  std::vector<plan_model_shape> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    all.push_back(shape_of(plan_model_of(models, i), gpus));
    for (std::uint32_t k = 0; k < i; ++k)
      if (all[k].name == all[i].name) refuse(all[i].name + ": twice, expected each model once");
  }
  return all;
}

std::string compare_machines(const plan_settings& how, machine here) {
  here.libraries = how.libraries;
  std::vector<measured_file> given{{"table", how.table}};
  for (const auto& [option, path] : {std::pair{"interference", &how.interference},
                                     {"solo", &how.solo},
                                     {"profiles", &how.profiles}})
    if (!path->empty()) given.push_back({option, *path});
  const machine_findings found = compare_with_here(given, here);
  if (!found.other_gpu.empty()) refuse(found.other_gpu + ", expected measurements of this GPU");
  std::string warning;
  for (const std::string& note : found.notes) warning += (warning.empty() ? "" : "; ") + note;
  return warning;
}

foreseen_offer offer_of(const plan_settings& how, std::span<const plan_model_shape> models,
                        const gpu_shape& gpu, const architecture_limits& sm,
                        const copy_times& copies) {
  std::vector<graph_model> graphs;
  for (const plan_model_shape& m : models)
    graphs.push_back({m.name, m.batches, m.inputs, m.outputs});
  latency_table table = with_graphs(load_latency_table(how.table), graphs, how.added, copies);
  gpu_shape shape = gpu;
  if (how.sms > 0) {
    if (sm_count{how.sms} > gpu.sms || sm_count{how.sms} < gpu.group)
      refuse("sms: " + std::to_string(how.sms) + ", expected " + std::to_string(gpu.group.count()) +
             " to " + std::to_string(gpu.sms.count()));
    shape.sms = sm_count{how.sms};
  }
  const auto with = std::make_shared<plan_tables>(plan_tables{table, {}, {}, {}});
  foreseen_offer offer{{std::move(table), std::vector(how.gpus.size(), shape), {}}};
  if (!how.interference.empty()) {
    with->solo = std::make_shared<const solo_table>(load_solo_table(how.solo));
    with->law = load_coefficients(how.interference);
    for (const plan_model_shape& m : models)
      if (!with->solo->has(m.name))
        refuse("solo: no metrics of " + m.name + ", expected rows of it");
    if (how.shares_sms) with->on_shared_sms = slowdowns_of(how, models, *with, gpu, sm);
    offer.expected = expected_of(with, with->solo);
    offer.beyond_fit = [with](const partition_plan& p) {
      return with->beside(*with->solo).beyond_fit(p);
    };
    if (how.learns) offer.learning = learning_of(how.planner, offer.shapes, with);
  }
  offer.planner = planner_of(how.planner, offer.shapes, with, with->solo);
  for (const plan_model_shape& m : models)
    offer.models.push_back({std::make_unique<planned>(m.name, m.inputs, m.outputs), m.slo, m.rate});
  return offer;
}

} // namespace gsched::abi
