// SPDX-License-Identifier: Apache-2.0
#include "measure/graphs.hpp"

#include "common/cli/option_values.hpp"
#include "common/cuda/built_in_graphs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/server/adaptor.hpp>
#include <gsched/server/adaptor_library.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace measure {

using namespace gsched;

namespace {

constexpr std::uint32_t instances_of_each = 2; // so that a graph can run beside itself

cuda::program_options unmeasured(std::string name) {
  cuda::program_options how;
  how.name = std::move(name);
  how.measure = false;
  return how;
}

measured_graph built_in(const std::string& name) {
  struct kept {
    std::unique_ptr<common::held_graph> memory; ///< outlives the program
    cuda::program program;
  };
  measured_graph g;
  g.model = name;
  for (std::uint32_t i = 0; i < instances_of_each; ++i) {
    auto memory = common::built_in_graph(name, std::size_t{1} << 20);
    const CUgraph graph = memory->get();
    const auto both =
        std::make_shared<kept>(kept{std::move(memory), cuda::program(graph, unmeasured(g.name()))});
    g.instances.emplace_back(both, &both->program);
  }
  return g;
}

measured_graph stand_ins(const std::string& file) {
  const profile p = load_profile(file);
  measured_graph g{p.model, p.batch, p.dtype, p.input, p.output, {}};
  for (std::uint32_t i = 0; i < instances_of_each; ++i)
    g.instances.push_back(std::make_shared<cuda::program>(cuda::make_stand_in(p)));
  return g;
}

measured_graph adapted(const adaptor_choice& chosen, int gpu) {
  struct kept {
    std::shared_ptr<adaptor> made; ///< frees what the program uses, so after it
    std::shared_ptr<void> program;
  };
  const adaptor_library library(chosen.library.string());
  const std::shared_ptr<adaptor> made = library.make();
  adaptor_context context;
  context.device = "cuda:" + std::to_string(gpu);
  context.gpu = gpu;
  context.instances = instances_of_each;
  context.parameters = chosen.parameters;
  const std::string where = "adaptor " + library.file() + ": ";
  try {
    made->init(context);
  } catch (const std::exception& e) {
    throw error(errc::job_threw, where + "init: " + e.what());
  }
  measured_graph g{chosen.model, chosen.batch, "", {}, {}, {}};
  const adaptor_signature signature = made->signature();
  for (const adaptor_tensor& t : signature.inputs) g.input += byte_count{t.bytes()};
  for (const adaptor_tensor& t : signature.outputs) g.output += byte_count{t.bytes()};
  for (model_instance& i : context.take()) {
    cuda::program* const its = cuda::program::of(*i.program);
    if (its == nullptr)
      throw error(errc::bad_option, where + "a program without a captured graph, expected the "
                                            "host() of a cuda::program");
    g.instances.emplace_back(std::make_shared<kept>(kept{made, std::move(i.keep)}), its);
  }
  if (g.instances.empty())
    throw error(errc::bad_option, where + "init has added no program, expected one");
  return g;
}

void check_names(const std::vector<measured_graph>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& model = all[i].model;
    if (model.empty() || std::any_of(model.begin(), model.end(), [](char c) {
          return c == ',' || c == '"' || c == '/' || static_cast<unsigned char>(c) <= 0x20;
        }))
      throw error(errc::bad_option, "graph " + common::in_quotes(model) +
                                        ": expected a name without blanks, commas, quotes and "
                                        "slashes");
    for (std::size_t k = 0; k < i; ++k)
      if (all[k].name() == all[i].name())
        throw error(errc::bad_option,
                    "graph " + all[i].name() + ": there twice, expected each name once");
  }
}

} // namespace

measured_graph make_ticks() { return built_in("ticks"); }
bool is_ticks(const measured_graph& g) { return g.model == "ticks" && g.batch == 1; }

std::vector<measured_graph> make_graphs(const options& o,
                                        std::span<const gsched_measure_graph> captured) {
  std::vector<measured_graph> all;
  for (const std::string& m : o.models)
    all.push_back(m.ends_with(".json") ? stand_ins(m) : built_in(m));
  for (const adaptor_choice& a : o.adaptors) all.push_back(adapted(a, o.gpu));
  const std::size_t before = all.size();
  for (const gsched_measure_graph& c : captured) {
    measured_graph g{c.model,
                     c.batch,
                     c.dtype == nullptr ? "" : c.dtype,
                     byte_count{c.input_bytes},
                     byte_count{c.output_bytes},
                     {}};
    const auto at = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(before), all.end(),
                                 [&](const measured_graph& m) { return m.name() == g.name(); });
    auto p = std::make_shared<cuda::program>(static_cast<CUgraph>(c.graph), unmeasured(g.name()));
    if (at != all.end()) {
      at->instances.push_back(std::move(p));
      continue;
    }
    g.instances.push_back(std::move(p));
    all.push_back(std::move(g));
  }
  check_names(all);
  return all;
}

} // namespace measure
