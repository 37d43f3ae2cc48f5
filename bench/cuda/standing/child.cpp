// SPDX-License-Identifier: Apache-2.0
#include "standing/run.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace standing {

namespace {

void put(const ordered_json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

} // namespace

ordered_json summary(const std::vector<double>& us) {
  return {{"n", us.size()},
          {"p10", experiment::quantile(us, 0.1)},
          {"p50", experiment::median(us)},
          {"p90", experiment::quantile(us, 0.9)},
          {"p99", experiment::quantile(us, 0.99)},
          {"max", experiment::quantile(us, 1)}};
}

int run_child(const std::string& part_name, const std::vector<std::string>& cases,
              const run_options& o) {
  const std::vector<part> parts = all_parts();
  const auto p = std::ranges::find(parts, part_name, &part::name);
  if (p == parts.end())
    throw gsched::error(gsched::errc::unknown_name, part_name + ": no such part");
  const std::vector<std::string> known = p->cases(o);
  for (const std::string& c : cases)
    if (std::ranges::find(known, c) == known.end())
      throw gsched::error(gsched::errc::unknown_name, c + ": no such case of " + part_name);
  std::optional<scene> s;
  try {
    s.emplace(o.gpu);
  } catch (const std::exception& wrong) {
    put({{"no_gpu", wrong.what()}});
    return 4;
  }
  put({{"gpu", s->gpu().name}, {"cuda_driver", s->gpu().driver_version}});
  for (const std::string& c : cases) {
    ordered_json line{{"case", c}};
    s->watch().begin(c);
    try {
      line.update(p->measure(*s, c, o));
    } catch (const std::exception& wrong) {
      s->release();
      line["error"] = wrong.what();
    }
    s->watch().rest();
    if (const auto step = s->watch().released_in()) line["released_in"] = *step;
    put(line);
    if (line.contains("error")) std::_Exit(1); // the context may be lost; the parent continues
  }
  std::_Exit(0); // the driver frees everything
}

} // namespace standing
