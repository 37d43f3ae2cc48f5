// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/cuda/library/graphs.hpp"

#include "serve_partitions/cuda/run_on_gpus.hpp"
#include "serve_partitions/options.hpp"
#include "serve_partitions/report.hpp"

#include "common/cli/main.hpp"
#include "common/cli/option_values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace serve_partitions {

namespace {

using namespace gsched;

/// Programs of captured graphs, each leased to one partition at a time.
class captured_programs {
public:
  captured_programs(const options& o, std::span<const serve_partitions_graph> graphs) : o_(o) {
    for (const serve_partitions_graph& g : graphs) {
      const auto model = o.table->find(g.model);
      if (!model)
        common::refuse("graphs", common::in_quotes(g.model) + " is not in the table",
                       "a model of it", errc::unknown_name);
      if (g.gpu >= o.gpus.size()) continue; // not asked for
      const cuda::current_gpu here(o.device.gpu.value() + static_cast<int>(g.gpu));
      cuda::program_options how;
      how.name = std::string(g.model) + "_b" + std::to_string(g.batch);
      how.measure = false;
      free_[{g.gpu, *model, g.batch}].push_back(
          std::make_unique<cuda::program>(static_cast<CUgraph>(g.graph), how));
    }
  }

  [[nodiscard]] cuda::program_lease lease(const cuda::batch_program& b) {
    const std::lock_guard lock(guard_);
    auto& of = free_[{b.gpu, b.model, b.batch}];
    if (of.empty())
      throw error(errc::too_small, o_.table->name(b.model) + ", batch of " +
                                       std::to_string(b.batch) +
                                       ": all graphs are in use, expected one more of each batch");
    std::unique_ptr<cuda::program> p = std::move(of.back());
    of.pop_back();
    return std::shared_ptr<cuda::program>(p.release(), [this, key = key_of(b)](auto* back) {
      const std::lock_guard again(guard_);
      free_[key].emplace_back(back);
    });
  }

private:
  using key = std::tuple<std::uint32_t, std::size_t, std::uint32_t>;
  static key key_of(const cuda::batch_program& b) { return {b.gpu, b.model, b.batch}; }

  const options& o_;
  std::mutex guard_;
  std::map<key, std::vector<std::unique_ptr<cuda::program>>> free_;
};

} // namespace

} // namespace serve_partitions

int serve_partitions_graphs(int argc, char** argv, const serve_partitions_graph* graphs,
                            std::uint64_t count) {
  using namespace serve_partitions;
  return common::run_main("serve_partitions", argc, argv, parse_options, [&](options& o) {
    if (!o.device.gpu)
      common::refuse("--device", common::in_quotes(o.device.device),
                     "a real GPU, which has the graphs");
    for (const double x : o.true_slowdown)
      if (x != 1)
        common::refuse("--true-slowdown", "captured graphs take their own time", "1, or stand-ins");
    captured_programs programs(o, {graphs, count});
    return serve_and_tell(o, [&](const options& with) {
      return run_on_gpus(with,
                         [&](const gsched::cuda::batch_program& b) { return programs.lease(b); });
    });
  });
}
