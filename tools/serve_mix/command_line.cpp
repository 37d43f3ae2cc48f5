// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/command_line.hpp"

namespace serve_mix {

namespace {

constexpr const char* teaching =
    R"(Units: times of requests in milliseconds (MS), of the device in microseconds (US).
On a simulated GPU the same arguments and seed give the same results, byte for byte, but for
wall_s. On a GPU, models run as kernels of the same size and time that do nothing else, requests
come in real time, and it counts as busy while a segment is in flight.
direct and single stand for no scheduling at all: every request goes to the hardware at once,
to a stream of its own or to one stream for all.

Examples
  serve_mix
      two models, eight clients, 90% load, every policy: a table
  serve_mix --mix resnet18_b1=9,bert_base_b32=1 --policy fifo,srpt,srpt+deficit --load 0.8
      many short requests beside a few long ones
  serve_mix --arrivals lognormal:2 --load 1.1 --requests 20000 --plot latency.svg --json runs.json
      bursty arrivals, more than the device can serve
  serve_mix --arrivals closed:16 --policy direct,srpt --trace timeline.json
      sixteen requests always under way; open the trace in ui.perfetto.dev
  serve_mix --policy edf,srpt --slo 2x:5x --load 0.9
      deadlines that differ by request; edf refuses what would be late
  serve_mix --profiles mine.json --policy single --requests 100
      a profile of your own, alone
  serve_mix --device cuda --policy srpt+deficit,direct
      the same on the machine's first GPU

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, told in one line.)";

} // namespace

void declare(CLI::App& app, words& w) {
  common::declaration options(app);
  options.group("What is served");
  options.profiles(w);
  options.add(
      "--mix", w.mix, "NAME=W,...",
      "Models by file stem, and how often each is asked for;\nweights default to 1. Default: "
      "resnet18_b1=2,inception_v3_b1=1,\nor all files if --profiles names files");
  options.add("--clients", w.clients, "N", "Tenants among whom fair policies divide the device");
  options.add("--weights", w.weights, "W,...",
              "Of the clients, in order; the last one also of those\nthat follow. Deficit policies "
              "share by weight");
  options.add("--requests", w.requests, "N",
              "Requests in all, for each policy; 500 on a GPU\nif nothing is said");
  options.group("When requests arrive");
  options.add("--arrivals", w.arrivals, "LAW",
              "poisson, lognormal:SIGMA (burstier as sigma rises),\n"
              "closed:N (N requests under way at any time) or trace:FILE");
  options.add("--load", w.load, "X",
              "Rate times the mix's mean time alone on the device;\nabove 1 the device saturates");
  options.add("--rate", w.rate, "R", "Requests per second, in place of --load");
  options.add(
      "--slo", w.slo, "MS|Nx",
      "Deadline of a request from its arrival; 2x: twice what its\nmodel takes alone on the "
      "device; 2x:5x: drawn for each\nrequest from 2 to 5 times that; none: no deadline");
  options.add("--seed", w.seed, "N", "Of all that is random");
  options.group("How it is scheduled");
  options.add("--policy", w.policy, "P,...",
              "all, or some of\nfifo rr sjf srpt edf deficit srpt+deficit boost direct single;\n"
              "boost:1 is for the tail of latency, boost (:0.3) for both");
  options.add("--quantum", w.quantum, "US", "Device time of a segment, the unit of dispatch");
  options.add(
      "--most-quantum", w.most_quantum, "US",
      "Segments of a request grow up to this while no other\nrequest waits to be dispatched; at "
      "least --quantum");
  options.add(
      "--overshoot", w.overshoot, "X",
      "Beyond one GPU full of blocks, how many more are kept\nin flight, each segment by its mean "
      "fill");
  options.add("--lanes", w.lanes, "N", "Hardware streams that scheduled requests share");
  options.add("--spare-lanes", w.spare_lanes, "N",
              "More of them, used only while what runs leaves a part of\nthe GPU empty; default: "
              "120 with 8 lanes, otherwise none");
  options.add("--threshold", w.threshold, "US",
              "srpt+deficit: device time that a client may be owed");
  options.add("--slice", w.slice, "US", "rr: device time that a job gets in its turn");
  options.add("--evict", w.evict, "yes|no",
              "Take back what has not started when the policy prefers\na request that comes");
  options.add("--submission", w.submission, "HOW",
              "graph (one launch a segment) or launches (one a kernel)");
  options.add("--decision-delay", w.delay, "US", "Time that each decision takes the host");
  options.device(w);
  options.add("--threads", w.threads, "N",
              "On which the policies are simulated, with the same results;\n"
              "default: as many as this machine runs at once; 1 for a GPU\nor with --trace");
  options.outputs(w, "A timeline of each policy's run, for ui.perfetto.dev",
                  "Latency by policy and model: .svg, .png or .pdf\n(needs gnuplot)");
  options.about(
      "serve_mix",
      "Serves a mix of models on a GPU under a list of scheduling policies, and compares\n"
      "what they do to latency, throughput and fairness.",
      teaching);
}

} // namespace serve_mix
