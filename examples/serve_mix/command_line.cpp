// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/command_line.hpp"

#include <CLI/CLI.hpp>

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
  serve_mix --profiles mine.json --policy single --requests 100
      a profile of your own, alone
  serve_mix --device cuda --policy srpt+deficit,direct
      the same on the machine's first GPU

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, told in one line.)";

} // namespace

void declare(CLI::App& app, words& w) {
  std::string group;
  const auto add = [&](const char* name, std::string& word, const char* type, const char* help) {
    app.add_option(name, word, help)->type_name(type)->group(group)->capture_default_str();
  };
  group = "What is served";
  app.add_option("--profiles", w.profiles,
                 "The models' profiles, as directories and files;\n"
                 "default: those that ship with gsched")
      ->type_name("DIR_OR_FILES")
      ->group(group);
  add("--mix", w.mix, "NAME=W,...",
      "Models by file stem, and how often each is asked for;\nweights default to 1. Default: "
      "resnet18_b1=2,inception_v3_b1=1,\nor all files if --profiles names files");
  add("--clients", w.clients, "N", "Tenants among whom fair policies divide the device");
  add("--requests", w.requests, "N",
      "Requests in all, for each policy; 500 on a GPU\nif nothing is said");
  group = "When requests arrive";
  add("--arrivals", w.arrivals, "LAW",
      "poisson, lognormal:SIGMA (burstier as sigma rises),\n"
      "closed:N (N requests under way at any time) or trace:FILE");
  add("--load", w.load, "X",
      "Rate times the mix's mean time alone on the device;\nabove 1 the device saturates");
  add("--rate", w.rate, "R", "Requests per second, in place of --load");
  add("--slo", w.slo, "MS", "Deadline of a request from its arrival; none: no deadline");
  add("--seed", w.seed, "N", "Of all that is random");
  group = "How it is scheduled";
  add("--policy", w.policy, "P,...",
      "all, or some of\nfifo rr sjf srpt edf deficit srpt+deficit direct single");
  add("--quantum", w.quantum, "US", "Device time of a segment, the unit of dispatch");
  add("--most-quantum", w.most_quantum, "US",
      "Segments of a request grow up to this while no other\nrequest waits to be dispatched");
  add("--overshoot", w.overshoot, "X",
      "Beyond one GPU full of blocks, how many more are kept\nin flight, each segment by its mean "
      "fill");
  add("--lanes", w.lanes, "N", "Hardware streams that scheduled requests share");
  add("--threshold", w.threshold, "US", "Deficit policies: device time that a client may be owed");
  add("--submission", w.submission, "HOW",
      "graph (one launch a segment) or launches (one a kernel)");
  add("--decision-delay", w.delay, "US", "Time that each decision takes the host");
  group = "On what device";
  add("--device", w.device, "NAME",
      "sim:h200, a simulated NVIDIA H200; a simulated GPU's\npreset, FILE.json; cuda or cuda:N, a "
      "GPU of this machine");
  add("--queues", w.queues, "N", "Hardware queues; default: as many as the device has");
  group = "What comes out";
  add("--json", w.json, "FILE", "All results");
  add("--trace", w.trace, "FILE", "A timeline of each policy's run, for ui.perfetto.dev");
  add("--plot", w.plot, "FILE", "Latency by policy and model: .svg, .png or .pdf\n(needs gnuplot)");
  app.add_flag("-q,--quiet", w.quiet, "No table")->group(group);
  app.add_flag("--no-progress", w.no_progress, "No progress bar on a terminal")->group(group);
  app.name("serve_mix");
  app.description(
      "Serves a mix of models on a GPU under a list of scheduling policies, and compares\n"
      "what they do to latency, throughput and fairness.");
  app.get_formatter()->column_width(30);
  app.set_help_flag("-h,--help", "This text");
  app.footer(teaching);
}

} // namespace serve_mix
