// SPDX-License-Identifier: Apache-2.0
#include "cliff/experiments.hpp"
#include "cliff/run.hpp"
#include "cliff/sequence.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace cliff {

using gsched::cuda::check;
using nlohmann::ordered_json;

std::vector<experiment_case> all_cases() {
  cases all;
  add_controls(all);
  add_sequences(all);
  add_speeds(all);
  add_bases(all);
  add_counts(all);
  add_cures(all);
  add_harmless(all);
  add_surroundings(all);
  add_streams(all);
  add_kernels(all);
  return all;
}

std::optional<experiment_case> find_case(const std::string& name) {
  for (const experiment_case& c : all_cases())
    if (c.name == name) return c;
  unsigned streams = 0;
  int launches = 0;
  if (std::sscanf(name.c_str(), "count.s%u.l%d", &streams, &launches) == 2 && streams >= 1 &&
      streams <= 128 && launches >= 1 && launches <= 100000)
    return count_case(streams, launches);
  if (const std::string head = "sequence.";
      name.starts_with(head) && is_sequence(name.substr(head.size())))
    return sequence_case(name.substr(head.size()));
  return std::nullopt;
}

int run_child(const std::string& name) {
  // Output of kernels must not mix with the results.
  const int figures_to = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, 1);
  ordered_json out{{"experiment", name}};
  experiment::watchdog dog("gsched.gpu.cliff --child " + name);
  int status = 0;
  try {
    const std::optional<experiment_case> found = find_case(name);
    if (!found) throw gsched::error(gsched::errc::unknown_name, name + ": no such experiment");
    dog.step("start of CUDA", 20);
    int gpus = 0;
    if (const cudaError_t none = cudaGetDeviceCount(&gpus); none != cudaSuccess) {
      status = 4;
      check(none, "CUDA");
    }
    check(cudaInitDevice(this_program().gpu, found->device_flags, cudaInitDeviceFlagsAreValid),
          "GPU");
    check(cudaSetDevice(this_program().gpu), "GPU");
    scene s(dog);
    found->run(s);
    for (const auto& [label, f] : s.marks)
      out["marks"].push_back({{"label", label},
                              {"graph700_us", f.large_us},
                              {"graph100_us", f.small_us},
                              {"graph700_wall_us", f.wall_us}});
    for (const auto& [label, value] : s.extras) out["extras"][label] = value;
  } catch (const std::exception& wrong) {
    out["error"] = wrong.what();
    if (status == 0) status = 1;
  }
  const std::string line = out.dump() + "\n";
  const ssize_t written = ::write(figures_to, line.data(), line.size());
  // The driver destroys the context: destructors may hang on what an experiment left on the GPU.
  std::_Exit(written == static_cast<ssize_t>(line.size()) ? status : 1);
}

} // namespace cliff
