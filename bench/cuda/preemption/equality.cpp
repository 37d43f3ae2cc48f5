// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"
#include "run.hpp"

#include <gsched/cuda/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <random>
#include <type_traits>
#include <vector>

namespace preemption_bench {

namespace {

using experiment::seconds_now;
using nlohmann::json;
using end_kind = cuda::preemption_end::kind;

/// A kernel whose results are known from undisturbed runs.
class known {
public:
  known(stage& s, kind k)
      : stage_(s), elements_(elements_of(k)), blocks_(blocks_of(k)), start_(elements_),
        memory_{s.device<float>(elements_), s.device<float>(elements_), s.device<float>(elements_),
                s.device<std::uint32_t>(blocks_), s.device<std::uint32_t>(blocks_)},
        launch_(make_result(k, who_, memory_)) {
    std::mt19937_64 random(11);
    std::uniform_real_distribution<float> value(-1, 1);
    for (float& x : start_) x = value(random);
    write(memory_.in, start_);
    prepare();
    const double from = seconds_now();
    start();
    finish();
    takes_ = seconds_now() - from;
    expected_ = read(memory_.out);
  }

  /// Preempts it a few times at random instants. Returns how often it was preempted before its end.
  unsigned disturb(std::mt19937_64& random) {
    std::uniform_real_distribution<double> instant(0, 1.1 * takes_);
    prepare();
    start();
    const unsigned most = 1 + static_cast<unsigned>(random() % 6);
    unsigned left = 0;
    for (unsigned i = 0; i < most; ++i) {
      const double until = seconds_now() + instant(random) * (i == 0 ? 1 : 0.5);
      while (seconds_now() < until) {
      }
      must(who_.preempt());
      if (launch_.wait().what == end_kind::ended) {
        must(who_.let_run(stage_.best_effort));
        return left;
      }
      ++left;
      resume();
    }
    finish();
    return left;
  }
  /// Bit by bit, and each block has ended once.
  [[nodiscard]] bool equal() const {
    const std::vector<float> got = read(memory_.out);
    const std::vector<std::uint32_t> ended = read(memory_.ended);
    return std::memcmp(got.data(), expected_.data(), got.size() * sizeof(float)) == 0 &&
           std::all_of(ended.begin(), ended.end(), [](std::uint32_t n) { return n == 1; });
  }
  [[nodiscard]] double takes_us() const noexcept { return takes_ * 1e6; }

private:
  static void must(std::error_code e) {
    if (e) cuda::fail(e, "launch");
  }
  template <class T>
  static void write(T* to, const std::vector<T>& from) {
    cuda::check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
                "memory");
  }
  template <class T>
  [[nodiscard]] std::vector<T> read(const T* from) const {
    std::vector<T> all(std::is_same_v<T, float> ? elements_ : blocks_);
    cuda::check(cudaMemcpy(all.data(), from, all.size() * sizeof(T), cudaMemcpyDeviceToHost),
                "memory");
    return all;
  }
  void prepare() {
    write(memory_.out, start_);
    write(memory_.ended, std::vector<std::uint32_t>(blocks_));
  }
  void start() { must(launch_.start(stage_.best_effort)); }
  void resume() {
    must(who_.let_run(stage_.best_effort));
    must(launch_.resume(stage_.best_effort));
  }
  void finish() {
    while (launch_.wait().what != end_kind::ended) resume();
  }

  stage& stage_;
  std::size_t elements_;
  unsigned blocks_;
  std::vector<float> start_;
  std::vector<float> expected_;
  result_memory memory_;
  cuda::tenant who_;
  cuda::preemptible_launch launch_;
  double takes_ = 0;
};

} // namespace

void equality(stage& s, const options& o, json& out) {
  fmt::print("\nresults after preemptions at random instants\n");
  json& rows = out["equality"]["kernels"] = json::array();
  bool all_equal = true;
  std::mt19937_64 random(12);
  for (const kind k : kinds) {
    s.dog.step(fmt::format("results of {}", name_of(k)), 120);
    known subject(s, k);
    const unsigned wanted = o.preemptions / static_cast<unsigned>(std::size(kinds)) + 1;
    unsigned left = 0;
    unsigned runs = 0;
    unsigned different = 0;
    for (; left < wanted && runs < 20 * wanted; ++runs) {
      left += subject.disturb(random);
      if (!subject.equal()) ++different;
    }
    all_equal &= different == 0 && left >= wanted;
    rows.push_back({{"kernel", name_of(k)},
                    {"takes_us", subject.takes_us()},
                    {"runs", runs},
                    {"preemptions", left},
                    {"different", different}});
    fmt::print("{:<32} {:>9.1f} us, {:>6} runs, {:>6} preemptions, {} different\n", name_of(k),
               subject.takes_us(), runs, left, different);
    std::fflush(stdout);
    s.dog.rest();
  }
  out["equality"]["all_equal"] = all_equal;
}

} // namespace preemption_bench
