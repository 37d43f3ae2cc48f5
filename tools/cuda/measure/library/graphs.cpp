// SPDX-License-Identifier: Apache-2.0
#include "measure/run.hpp"

#include "common/cli/main.hpp"
#include "common/cli/option_values.hpp"

#include "structs.hpp" // as the C library reads those of its callers

#include <gsched/gsched_measure.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr const char* program = "measure";
constexpr const char* graph_name = "gsched_measure_graph";
constexpr std::uint64_t most_graphs = 65536;

/// Errors   gsched::error, or an abi::refusal, with one line that names the graph and the field.
std::vector<gsched_measure_graph> read_graphs(const gsched_measure_graph* first,
                                              std::uint64_t count) {
  std::vector<gsched_measure_graph> all;
  if (count > most_graphs)
    common::refuse("count", std::to_string(count), "at most " + std::to_string(most_graphs));
  if (count > 0 && first == nullptr)
    common::refuse("graphs", "NULL", "as many as count: " + std::to_string(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    const gsched_measure_graph g = gsched::abi::element_of(first, i, graph_name, "graph");
    const std::string where = "graph " + std::to_string(i) + ".";
    if (g.graph == nullptr) common::refuse(where + "graph", "NULL", "a captured graph");
    if (g.model == nullptr) common::refuse(where + "model", "NULL", "a name");
    if (g.batch == 0) common::refuse(where + "batch", "0", "1 or more");
    all.push_back(g);
  }
  return all;
}

} // namespace

std::uint32_t gsched_measure_abi() { return GSCHED_MEASURE_ABI; }

int gsched_measure_check_options(int argc, char** argv) {
  return common::run_main(
      program, argc, argv,
      [](int n, char** words) { return measure::parse_options(n, words, true); },
      [](const measure::options&) { return 0; });
}

int gsched_measure_check_machine(int argc, char** argv) {
  return common::run_main(
      program, argc, argv,
      [](int n, char** words) { return measure::parse_options(n, words, true); },
      [](const measure::options& o) { return measure::check_machine(o); });
}

int gsched_measure_graphs(int argc, char** argv, const gsched_measure_graph* graphs,
                          std::uint64_t count) {
  std::vector<gsched_measure_graph> captured;
  return common::run_main(
      program, argc, argv,
      [&](int n, char** words) {
        std::optional<measure::options> o = measure::parse_options(n, words, count > 0);
        if (o) captured = read_graphs(graphs, count);
        return o;
      },
      [&](const measure::options& o) { return measure::run(o, captured); });
}
