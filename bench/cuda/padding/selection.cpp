// SPDX-License-Identifier: Apache-2.0
#include "padding/fused.hpp"

#include <gsched/preempt/colocate/selection.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace padding {

void measure_selection(const bench& b, results& out) {
  constexpr std::size_t tasks = 100, variants = 10;
  gsched::pad_selector selector(tasks, variants);
  const std::vector<subject>& corunners = b.all.corunners();
  for (std::size_t t = 0; t < tasks; ++t) {
    std::vector<gsched::kernel_variant> of;
    for (std::size_t v = 0; v < variants; ++v) {
      gsched::kernel_variant k = corunners[(t * variants + v) % corunners.size()].facts;
      // Similar kernels without ties.
      k.kernel_time += gsched::duration{static_cast<std::int64_t>(t * 37 + v)};
      of.push_back(k);
    }
    selector.set(static_cast<std::uint32_t>(t), of);
  }
  constexpr int runs = 20000;
  std::vector<double> ns;
  std::uint64_t found = 0;
  for (const subject& real : b.all.real_time()) {
    const double start = experiment::seconds_now();
    for (int i = 0; i < runs; ++i)
      found += selector.select(real.facts, gsched::level_rule::needed, b.quiet.sms).has_value()
                   ? 1u
                   : 0u;
    ns.push_back(1e9 * (experiment::seconds_now() - start) / runs);
  }
  b.dog.step("launches of padded kernels", 30);
  const subjects::host_cost cost = b.all.time_host(0, {0, 0, 1});
  b.dog.rest();
  const double worst = *std::max_element(ns.begin(), ns.end());
  fmt::print(
      "\nhost, ns: selection among {} kernels median {:.0f}, worst {:.0f} ({} of {} found one); "
      "choice of the proxy {:.0f}; launch with new parts {:.0f}\n",
      tasks * variants, experiment::median(ns), worst, found / runs, ns.size(), cost.choose_ns,
      cost.launch_ns);
  std::fflush(stdout);
  out["host"] = {{"candidates", tasks * variants},
                 {"select_ns_median", experiment::median(ns)},
                 {"select_ns_worst", worst},
                 {"choose_ns", cost.choose_ns},
                 {"launch_ns", cost.launch_ns}};
}

} // namespace padding
