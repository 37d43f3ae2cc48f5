// SPDX-License-Identifier: Apache-2.0
// Sequences that distinguish the possible rules of the trigger.

#include "cliff/contexts.hpp"
#include "cliff/sequence.hpp"

#include <array>
#include <thread>

namespace cliff {

using gsched::cuda::check;

namespace {

/// Two host threads, each with its own stream; `P` is the per-thread default stream.
experiment_case threads(const std::string& name, int each, bool per_thread_default) {
  return {"sequence." + name, [=](scene& s) {
            s.mark("before");
            s.dog().step("two threads", 20);
            const std::vector<cudaStream_t> own = s.streams(2);
            std::array<cudaError_t, 2> result{};
            const auto work = [&](std::size_t i) {
              result[i] = cudaSetDevice(this_program().gpu);
              const cudaStream_t on = per_thread_default ? cudaStreamPerThread : own[i];
              for (int k = 0; k < each && result[i] == cudaSuccess; ++k)
                result[i] = launch(kernel::same, s.memory(), on);
              if (result[i] == cudaSuccess) result[i] = cudaStreamSynchronize(on);
            };
            std::thread first(work, 0);
            std::thread second(work, 1);
            first.join();
            second.join();
            for (const cudaError_t r : result) check(r, "a thread's launches");
            s.mark("after");
          }};
}

/// Captured launches on two streams; the graph is then replayed.
void captured(scene& s) {
  s.mark("before");
  s.dog().step("capture", 20);
  const std::vector<cudaStream_t> on = s.streams(2);
  void* memory = nullptr;
  check(cudaMalloc(&memory, 512), "memory");
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;
  check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "event");
  check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), "event");
  check(cudaStreamBeginCapture(on[0], cudaStreamCaptureModeRelaxed), "capture");
  check(cudaEventRecord(fork, on[0]), "event");
  check(cudaStreamWaitEvent(on[1], fork, 0), "event");
  for (int i = 0; i < 50; ++i)
    for (const cudaStream_t stream : on) {
      check(launch(kernel::same, s.memory(), stream), "kernel launch");
      check(cudaMemsetAsync(memory, 0, 512, stream), "memset");
    }
  check(cudaEventRecord(join, on[1]), "event");
  check(cudaStreamWaitEvent(on[0], join, 0), "event");
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(on[0], &graph), "capture");
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph, 0), "graph instantiation");
  for (int i = 0; i < 20; ++i)
    for (const cudaStream_t stream : on) check(cudaGraphLaunch(ready, stream), "graph launch");
  s.synchronise();
  s.mark("after");
}

/// Streams that are created and used once before the first graph.
void streams_first(scene& s) {
  const std::vector<cudaStream_t> on = s.streams(2);
  s.launch(kernel::same, on, 7);
  s.mark("before");
  s.launch(kernel::same, on, 1);
  s.mark("after");
}

/// The 16th launch follows launches in a second context.
void other_context_between(scene& s) {
  s.mark("before");
  const std::vector<cudaStream_t> on = s.streams(2);
  s.launch(kernel::same, on, 7);
  in_context(second_context(), [&] {
    float* memory = nullptr;
    check(cudaMalloc(reinterpret_cast<void**>(&memory), 512), "memory");
    for (int i = 0; i < 7; ++i)
      for (const cudaStream_t stream : s.streams(2))
        check(launch(kernel::same, memory, stream), "kernel launch");
    s.synchronise();
  });
  s.mark("after");
  s.launch(kernel::same, on, 1);
  s.mark("two_more");
}

} // namespace

void add_sequences(cases& to) {
  for (const char* text :
       {// counts: in total, on each stream, or changes of stream
        "7AB", "7AB_1A", "8AB", "14A_1B", "15A_1B", "16A_1B", "100A_1B", "1A_14B", "1A_15B",
        "7A_8B", "8A_8B", "9A_7B", "9A_8B", "20A_7B", "20A_8B", "8A_7B_1A", "2A_6B_2A_6B",
        "8A_1B_7C", "8A_4B_4C", "9A_4B_3C", "5A_5B_6C", "4A_4B_4C_4D", "8A_100s_8B", "30A_1B_30A",
        "5AAB_1A", "100A_7BA", "100A_8BA", "ABCDEFQRSTUVWXY", "ABCDEFQRSTUVWXYZ",
        // with the stream of the graphs
        "15M_1A", "15A_1M", "100M_1A", "1M_15A", "7MA_1M", "8MA", "100M_100A", "4000A", "4000M",
        // operations in between
        "7AsBs_1As", "8AsBs", "7AgMBgM_1A", "8AgMBgM", "8AgABgB", "15A_1gB", "15A_1gB_1B",
        "100gA_100gB_7AB_1A", "100gA_100gB_8AB", "8AeAwBBeBwA", "7AeAwBBeBwA_1A", "7AB_1L_1A",
        // beside work in progress
        "1rM_8AB", "1rM_20AB", "1rM_400AB", "1rM_1s_8AB", "1rC_8AB", "1rA_8AB", "20kM_8AB",
        "20kC_8AB", "1rM_8AB_1s_1A", "1rM_8AB_1s_7AB_1A", "1rM_8AB_1s_8AB", "1rM_1nAnB_20AB",
        "1rM_5ABCDEFQ",
        // copies and memsets
        "16cA", "100cA", "7cAcB", "7cAcB_1cA", "8cAcB", "16tA", "7tAtB", "7tAtB_1tA", "8tAtB",
        "15A_1cB", "4ABcAcB", "4ABtAtB", "8AcB", "8AtB", "100hAhB", "100AcA", "100AtA",
        // kinds of launches
        "7xAxB_1xA", "8xAxB", "7lAlB_1lA", "8lAlB", "7kAkB_1kA", "8kAkB",
        // kinds of streams
        "7LA_1L", "8LA", "8PA", "7NO_1N", "8NO", "7GH_1G", "8GH", "8GA", "8MG",
        // destroyed streams
        "7AB_1nAnB_1A", "7AB_1nAnB_1AB", "7AB_1nB_100A", "15nAA", "16nAA", "7AB_1nB_1B"}) {
    std::string whole = text;
    if (std::isdigit(static_cast<unsigned char>(whole.front())) == 0) whole = "1" + whole;
    to.push_back(sequence_case(whole));
  }
  for (const std::string text : {"7AB_1A", "8AB"}) { // one queue to the GPU for all streams
    to.push_back(sequence_case(text));
    to.back().name += ".one_connection";
    to.back().environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  }
  to.push_back(threads("two_threads.l7", 7, false));
  to.push_back(threads("two_threads.l8", 8, false));
  to.push_back(threads("two_threads.per_thread_default.l8", 8, true));
  to.push_back({"sequence.captured_on_two_streams", captured});
  to.push_back({"sequence.streams_first.7AB.then.1AB", streams_first});
  to.push_back({"sequence.other_context_between", other_context_between});
}

} // namespace cliff
