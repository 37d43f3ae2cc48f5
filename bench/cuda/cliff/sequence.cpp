// SPDX-License-Identifier: Apache-2.0
#include "cliff/sequence.hpp"
#include "cliff/contexts.hpp"

#include <gsched/core/error.hpp>

#include <cctype>
#include <map>
#include <string_view>

namespace cliff {

using gsched::cuda::check;

namespace {

struct step {
  char what; // ' ' is a plain launch
  char on;   // ' ' is no stream
};

[[noreturn]] void wrong(const std::string& text) {
  throw gsched::error(gsched::errc::bad_option,
                      "sequence " + text + ": expected parts like 7AB, joined by _");
}

std::vector<step> parse(const std::string& text) {
  std::vector<step> all;
  std::size_t at = 0;
  const auto more = [&] { return at < text.size() && text[at] != '_'; };
  const auto is = [&](int (*kind)(int)) {
    return more() && kind(static_cast<unsigned char>(text[at])) != 0;
  };
  while (at < text.size()) {
    std::size_t times = 0;
    while (is(std::isdigit) && times < 10000)
      times = 10 * times + static_cast<std::size_t>(text[at++] - '0');
    std::vector<step> part;
    while (more()) {
      char what = ' ';
      if (is(std::islower)) what = text[at++];
      if (what == 's') {
        part.push_back({what, ' '});
      } else {
        if (!is(std::isupper) || std::string_view(" xlkcthewgjryn").find(what) == std::string::npos)
          wrong(text);
        if (what == 'n' && std::string_view("MLPGHNO").find(text[at]) != std::string::npos)
          wrong(text);
        part.push_back({what, text[at++]});
      }
    }
    if (times == 0 || times > 10000 || part.empty()) wrong(text);
    for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), part.begin(), part.end());
    if (at < text.size()) ++at; // the '_'
  }
  if (all.empty()) wrong(text);
  return all;
}

/// The objects that the operations use; created before the first operation.
class stage {
public:
  stage(scene& s, const std::vector<step>& steps) : s_(s) {
    constexpr std::size_t bytes = 2 * size;
    check(cudaMalloc(reinterpret_cast<void**>(&device_), bytes), "memory");
    check(cudaMallocHost(&host_, size), "pinned memory");
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    std::vector<cudaStream_t> green;
    for (const step& what : steps) {
      if (what.what == 'g') graph(10);
      if (what.what == 'j') graph(1);
      if (what.what == 'r') graph(500);
      if ((what.on == 'G' || what.on == 'H') && green.empty()) green = green_streams(2, 64);
      if (what.on != ' ' && !streams_.contains(what.on)) streams_[what.on] = make(what.on, green);
    }
    s.synchronise();
  }

  void play(const step& what) {
    if (what.what == 's') return s_.synchronise();
    cudaStream_t& on = streams_.at(what.on);
    float* const memory = s_.memory();
    switch (what.what) {
    case ' ': return check(launch(kernel::same, memory, on), "kernel launch");
    case 'k': return check(launch(kernel::lasting, memory, on), "kernel launch");
    case 'l': return check(launch(kernel::cooperative, memory, on), "cooperative launch");
    case 'x': return launch_ex(on);
    case 'c':
      return check(cudaMemcpyAsync(device_ + size, device_, size, cudaMemcpyDeviceToDevice, on),
                   "copy");
    case 'h':
      return check(cudaMemcpyAsync(device_, host_, size, cudaMemcpyHostToDevice, on), "copy");
    case 't': return check(cudaMemsetAsync(device_, 0, size, on), "memset");
    case 'e': return check(cudaEventRecord(event_, on), "event");
    case 'w': return check(cudaStreamWaitEvent(on, event_, 0), "event");
    case 'g': return check(cudaGraphLaunch(graph(10), on), "graph launch");
    case 'j': return check(cudaGraphLaunch(graph(1), on), "graph launch");
    case 'r': return check(cudaGraphLaunch(graph(500), on), "graph launch");
    case 'y': return check(cudaStreamSynchronize(on), "stream");
    default: // n
      check(cudaStreamDestroy(on), "stream");
      on = s_.streams(1).front();
    }
  }

private:
  static constexpr std::size_t size = std::size_t{1} << 16;

  cudaStream_t make(char letter, const std::vector<cudaStream_t>& green) {
    switch (letter) {
    case 'M': return s_.main();
    case 'L': return cudaStreamLegacy;
    case 'P': return cudaStreamPerThread;
    case 'G': return green.at(0);
    case 'H': return green.at(1);
    case 'N':
    case 'O': return s_.streams(1, cudaStreamNonBlocking, -5).front();
    default: return s_.streams(1).front();
    }
  }

  cudaGraphExec_t graph(std::size_t kernels) {
    cudaGraphExec_t& it = graphs_[kernels];
    if (it == nullptr) it = make_graph(1, kernels, s_.memory());
    return it;
  }

  void launch_ex(cudaStream_t on) {
    float* memory = s_.memory();
    void* arguments[] = {&memory};
    cudaLaunchConfig_t how{};
    how.gridDim = dim3(1);
    how.blockDim = dim3(64);
    how.stream = on;
    check(cudaLaunchKernelExC(&how, graph_kernel(), arguments), "cudaLaunchKernelExC");
  }

  scene& s_;
  char* device_ = nullptr;
  void* host_ = nullptr;
  cudaEvent_t event_ = nullptr;
  std::map<char, cudaStream_t> streams_;
  std::map<std::size_t, cudaGraphExec_t> graphs_;
};

} // namespace

void play(scene& s, const std::string& text) {
  const std::vector<step> steps = parse(text);
  stage on(s, steps);
  for (const step& what : steps) on.play(what);
}

bool is_sequence(const std::string& text) {
  try {
    return !parse(text).empty();
  } catch (const gsched::error&) {
    return false;
  }
}

experiment_case sequence_case(const std::string& text) {
  return {"sequence." + text, [text](scene& s) {
            s.mark("before");
            s.dog().step("the sequence", 20);
            play(s, text);
            s.synchronise();
            s.mark("after");
          }};
}

} // namespace cliff
