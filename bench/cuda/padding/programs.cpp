// SPDX-License-Identifier: Apache-2.0
#include "padding/programs.hpp"

#include "padding/program_pair.hpp"

#include <gsched/core/time.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace padding {

namespace {

void measure_pair(const program_pair& both, const gsched::profile& host,
                  const gsched::profile& other, unsigned corunners, const run_options& how,
                  experiment::watchdog& dog, results& out) {
  for (const auto& [name, rule] : {std::pair{"own level", gsched::level_rule::own},
                                   std::pair{"needed level", gsched::level_rule::needed}}) {
    dog.step("programs: " + host.full_name() + " with " + other.full_name() + ", " + name, 60);
    const program_pair::figures f = both.run(rule, corunners, how.rounds);
    const double gained = f.in_turn_us - f.alone_us;
    const double slowdown = 100 * (f.padded_us / f.alone_us - 1);
    fmt::print(
        "{:<12} {} co-runner{} {:>4} parts: alone {:.1f} us, padded {:.1f} ({:+.2f}%), in turn "
        "{:.1f}; best-effort work of {:.1f} us done; in turn / padded {:.3f}\n",
        name, corunners, corunners == 1 ? " :" : "s:", f.parts, f.alone_us, f.padded_us, slowdown,
        f.in_turn_us, gained, f.in_turn_us / f.padded_us);
    std::fflush(stdout);
    out["programs"].push_back({{"rule", name},
                               {"corunners", corunners},
                               {"real_time", host.full_name()},
                               {"best_effort", other.full_name()},
                               {"parts", f.parts},
                               {"alone_us", f.alone_us},
                               {"padded_us", f.padded_us},
                               {"in_turn_us", f.in_turn_us},
                               {"slowdown_percent", slowdown},
                               {"best_effort_us", gained},
                               {"in_turn_over_padded", f.in_turn_us / f.padded_us}});
  }
}

} // namespace

void measure_programs(const gsched::cuda::gpu& on, const run_options& how,
                      experiment::watchdog& dog, results& out) {
  for (std::size_t i = 0; i < how.real_time.size(); ++i) {
    dog.step("programs: set-up of " + how.real_time[i] + " with " + how.best_effort[i], 120);
    const gsched::profile host = gsched::load_profile(how.profiles / (how.real_time[i] + ".json"));
    const gsched::profile other =
        gsched::load_profile(how.profiles / (how.best_effort[i] + ".json"));
    const program_pair both(on, host, other);
    fmt::print("\nstand-ins: {} ({} operations, {:.0f} us) padded with {} ({}, {:.0f} us); {} "
               "kernels with fewer registers\n",
               host.full_name(), host.operations.size(), gsched::to_us(host.total()),
               other.full_name(), other.operations.size(), gsched::to_us(other.total()),
               both.fewer_registers());
    std::fflush(stdout);
    for (const unsigned n : how.corunners) measure_pair(both, host, other, n, how, dog, out);
  }
  dog.rest();
}

} // namespace padding
