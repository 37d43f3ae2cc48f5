// SPDX-License-Identifier: Apache-2.0
//
// Serves models on partitions of GPUs, simulated or real, by plans that follow the rates, and says
// how many requests were late. Source: Choi et al., USENIX ATC 2022.
#include "serve_partitions/options.hpp"
#include "serve_partitions/report.hpp"
#include "serve_partitions/run.hpp"

#include "parts/main.hpp"
#include "parts/save.hpp"

#include <iostream>

namespace {

int serve(const serve_partitions::options& o) {
  for (const std::string& line : o.table->doubts())
    std::cerr << "serve_partitions: " << line << '\n';
  const serve_partitions::served r = serve_partitions::run(o);
  serve_partitions::print(std::cout, o, r);
  if (!o.json.empty())
    parts::save(o.json, [&](std::ostream& to) { serve_partitions::write_json(to, o, r); });
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return parts::run_main("serve_partitions", argc, argv, serve_partitions::parse_options, serve);
}
