// SPDX-License-Identifier: Apache-2.0
#include "realtime/command_line.hpp"

namespace realtime {

namespace {

constexpr const char* teaching =
    R"(Modes, each on the same arrivals
  rt_only           best-effort clients are left out: what the others are compared with
  seq               one request at a time; when it is done, real-time ones go first
  streams           a stream for each client, whole graphs, no order
  streams_priority  the same, real-time streams with a higher priority
  preempt           best-effort work makes way as soon as a real-time request comes, and goes on
                    where it stood when none is left
  preempt_pad       as preempt, and best-effort work also runs beside real-time work, on a few SMs
                    (--side), where that slows it down by no more than --tolerance

A workload is a JSON file that names clients: class (real_time or best_effort), model (a profile)
and when it asks (uniform, poisson, closed loop with a time to think, or a trace). Rates may be
parts of what the model does alone, which is measured first. tools/data/README.md has the
format. Those that ship: disb_a to disb_e, driving, pair_*, and long_*, whose models' profiles are
constructed and not measured.

Units: times of the device in microseconds (US). A real-time request's latency counts from when it
was due until its reply; slowdown is the mean over that of rt_only. Throughput is the sum over
clients of requests a second over those of the model alone. Work done is best-effort work, parts
of requests too, over the time that real-time work leaves.
On a simulated GPU the same arguments and seed give the same results, byte for byte, but for
wall_s. On a GPU, models run as kernels of the same size and time that do nothing else.

Examples
  realtime
      a real-time client beside a best-effort one, in every mode: a table
  realtime --workload disb_e --mode rt_only,preempt --json runs.json --plot runs.svg
      five random real-time clients beside five best-effort ones
  realtime --workload pair_bert_vgg16 --mode preempt --trace timeline.json
      what was held when: open the trace in ui.perfetto.dev
  realtime --workload disb_b --mode preempt --floor 0.1
      real-time work without a pause, and a tenth of the time for the others
  realtime --workload mine.json --profiles mine/ --requests 1000 --seed 7
      a workload of your own
  realtime --workload disb_a --device cuda
      the same on the machine's first GPU

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, told in one line.)";

} // namespace

void declare(CLI::App& app, words& w) {
  common::declaration options(app);
  options.group("What is served");
  options.add("--workload", w.workload, "NAME", "One that ships, or FILE.json");
  options.profiles(w);
  options.add("--seconds", w.seconds, "S", "Device time of each mode's run");
  options.add(
      "--requests", w.requests, "N",
      "Real-time requests of each mode's run, in place of\n--seconds; with both, what ends first");
  options.add("--seed", w.seed, "N", "Of all that is random");
  options.group("How it is scheduled");
  options.add("--mode", w.mode, "M,...",
              "all, or some of\nrt_only seq streams streams_priority preempt preempt_pad");
  options.add(
      "--floor", w.floor, "X",
      "preempt*: part of the time, below 1, that best-effort\nwork gets even if real-time work "
      "never ends");
  options.add("--side", w.side, "SMS,...",
              "preempt_pad: sizes of the partition to try for work\nbeside, at most 4; or none");
  options.add("--pad", w.pad, "RULE",
              "preempt_pad: kernels of waiting best-effort requests go\nwithin real-time kernels "
              "that keep the blocks an SM\nholds of them: all (own), or as many as they need\n"
              "(needed); or none");
  options.add(
      "--pad-places", w.pad_places, "N",
      "preempt_pad: operations of a best-effort model from\nwhich it is carried on, at most: "
      "each takes a graph for\neach real-time model");
  options.add("--tolerance", w.tolerance, "PERCENT",
              "preempt_pad: how much longer real-time requests may\ntake for it");
  options.add(
      "--reserve", w.reserve, "SMS,...",
      "preempt*: best-effort models with long kernels leave one\nof these numbers of SMs to "
      "real-time requests at once, as\nis learned for each; rising, at most 4; or none");
  options.add("--reserve-fixed", w.reserve_fixed, "SMS", "In place of --reserve: always that many");
  options.add("--long-operation", w.long_operation, "US",
              "From which time a kernel counts as long");
  options.add(
      "--reserve-slow-down", w.reserve_slow_down, "PERCENT",
      "What --reserve aims at: how much longer real-time\nrequests may take in the mean because "
      "of what was\nrunning when they came ...");
  options.add("--reserve-tail", w.reserve_tail, "PERCENT", "... and the slowest in a hundred ...");
  options.add("--reserve-share", w.reserve_share, "PERCENT",
              "... and the part of what is left that the best-effort\nmodel keeps");
  options.add(
      "--leaves", w.leaves, "HOW",
      "Where best-effort kernels can leave before they end:\nnever (they are held between two of "
      "them), between_blocks\nor at_checkpoints.\nSegments of kernels that leave "
      "take at most 50 us");
  options.add("--lanes", w.lanes, "N", "Streams that best-effort requests share");
  options.add("--rt-lanes", w.real_time_lanes, "N",
              "rt_only, preempt*: streams of real-time requests");
  options.add("--quantum", w.quantum, "US", "Device time of a segment, the unit of dispatch");
  options.add(
      "--most-quantum", w.most_quantum, "US",
      "Segments of a request grow up to this while no other\nrequest waits to be dispatched; at "
      "least --quantum");
  options.add(
      "--overshoot", w.overshoot, "X",
      "Beyond one GPU full of blocks, how many more are kept\nin flight, each segment by its mean "
      "fill");
  options.device(w);
  options.add("--threads", w.threads, "N",
              "On which the modes are simulated, with the same results;\n"
              "default: as many as this machine runs at once; 1 for a GPU\nor with --trace");
  options.add("--before", w.before, "COMMAND",
              "Runs it before each mode: one that makes a context on\nthe GPU brings all modes' "
              "graphs to one speed\n(docs/cliff.md)");
  options.outputs(w, "A timeline of each mode's run, for ui.perfetto.dev",
                  "Latency and throughput by mode: .svg, .png or .pdf\n(needs gnuplot)");
  options.about(
      "realtime",
      "Serves real-time and best-effort clients on one GPU in a list of modes, and compares what\n"
      "they do to real-time latency and to the work that gets done.",
      teaching);
}

} // namespace realtime
