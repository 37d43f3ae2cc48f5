// SPDX-License-Identifier: Apache-2.0
#include "interference/suites.hpp"

#include <gsched/core/error.hpp>

#include <algorithm>
#include <cmath>

namespace interference {

namespace cuda = gsched::cuda;

namespace {

using kind = cuda::probe_kind;

/// Whether a probe runs a kernel that does something.
bool is_kernel(kind k) { return k != kind::sleep && k != kind::upload && k != kind::download; }

} // namespace

cuda::probe_options probe_of(cuda::probe_kind kind, std::uint32_t level, std::uint32_t threads,
                             std::uint32_t blocks) {
  cuda::probe_options o;
  o.kind = kind;
  o.level = level;
  o.threads = threads;
  o.blocks = blocks;
  return o;
}

const std::vector<std::string>& suite_names() {
  static const std::vector<std::string> names{"table3", "pitfalls",  "figure3", "copies",
                                              "places", "transfers", "power",   "matrix"};
  return names;
}

std::vector<experiment> suite(const std::string& name, std::uint32_t sms, std::uint64_t l2_bytes) {
  std::vector<experiment> all;
  const auto add = [&](const cuda::probe_options& victim, const cuda::probe_options& other,
                       cuda::probe_split split = {}) {
    all.push_back({name, victim, other, split});
  };
  const auto half = gsched::sm_count{static_cast<std::uint32_t>(std::lround(sms * 64.0 / 132))};
  if (name == "table3") { // two fp64 kernels of one warp a scheduler
    for (std::uint32_t ilp = 1; ilp <= 4; ++ilp)
      add(probe_of(kind::fp64, ilp), probe_of(kind::fp64, ilp));
  } else if (name == "pitfalls") {
    add(probe_of(kind::fp32), probe_of(kind::fp32));
    add(probe_of(kind::copy, 4096, 1024), probe_of(kind::fp32, 4, 1024));
    add(probe_of(kind::fp32, 4, 1024), probe_of(kind::copy, 4096, 1024));
  } else if (name == "figure3") { // two copies on SMs of their own, of equal sizes
    for (const double mb : {2., 4., 8., 12., 16., 20., 24., 26., 32., 48., 64.}) {
      const auto level = static_cast<std::uint32_t>(
          std::max(1.0, std::round(mb * static_cast<double>(l2_bytes) / (50 << 20))));
      for (const std::uint32_t threads : {1024u, 256u}) // many threads saturate L2 by themselves
        add(probe_of(kind::copy, level, threads), probe_of(kind::copy, level, threads), {half, {}});
    }
  } else if (name == "copies") { // memory-bound work beside more and more copying
    for (const std::uint32_t blocks : {34u, 68u, 102u, 136u})
      for (const kind victim : {kind::read, kind::copy, kind::chase})
        add(probe_of(victim, victim == kind::chase ? 16 : 4096),
            probe_of(kind::copy, 4096, 1024, blocks), {half, {}});
  } else if (name == "places") { // sleep takes places only
    for (const std::uint32_t registers : {32u, 128u, 255u})
      for (const std::uint32_t kib : {0u, 64u, 200u}) {
        cuda::probe_options sleeping = probe_of(kind::sleep, 1, 128);
        sleeping.registers = registers;
        sleeping.shared_bytes = kib * 1024;
        add(probe_of(kind::fp32, 1, 1024), sleeping);
        add(probe_of(kind::shared, 1), sleeping);
      }
  } else if (name == "transfers") { // the bus beside itself, and beside DRAM
    for (const kind victim : {kind::upload, kind::download, kind::read, kind::copy})
      for (const kind other : {kind::upload, kind::download, kind::copy})
        add(probe_of(victim, victim == kind::read || victim == kind::copy ? 4096 : 0),
            probe_of(other),
            victim == kind::copy && other == kind::copy ? cuda::probe_split{half, {}}
                                                        : cuda::probe_split{});
  } else if (name == "power") { // loads, not experiments
  } else if (name == "matrix") {
    for (const cuda::probe_description& v : cuda::probe_kinds())
      for (const cuda::probe_description& p : cuda::probe_kinds())
        if (is_kernel(v.kind) && is_kernel(p.kind)) add(probe_of(v.kind), probe_of(p.kind));
  } else {
    std::string known;
    for (const std::string& n : suite_names()) known += (known.empty() ? "" : ", ") + n;
    throw gsched::error(gsched::errc::unknown_name,
                        "suite \"" + name + "\", expected one of " + known);
  }
  return all;
}

} // namespace interference
