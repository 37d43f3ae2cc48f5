// SPDX-License-Identifier: Apache-2.0
#include "idempotence/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/option_values.hpp"

#include <string>

namespace idempotence {

namespace {

constexpr const char* explanation_and_examples =
    R"(
A kernel that is stopped half-way can run again from its start if it is idempotent: if it has
overwritten none of its inputs. A kernel that works in place has overwritten them, but together
with the kernels that made its input it may be idempotent as a group, and then the whole group runs
again. Copies, sets and events run once, and no group contains one; --declare names those that may
run again. A kernel without a group is never stopped; preemption waits for its end.

A kernel with source that stops by itself has its unfinished blocks run later, and nothing before
it. It can stop at checkpoints if it is idempotent alone, or if its blocks have saved their results
by then, or written nothing (--declare N=saves). Otherwise it can stop between blocks, each of which
then runs once.

Sources of the memory accesses
  --trace FILE.json   a file: {"model": "...", "operations": [{"kind": "kernel", "name": "...",
                      "reads": [[address, bytes], ...], "writes": [...]}, ...]}
  --device cuda       the kernels of a built-in network, which record each address that they read or
                      write; and, of the same network captured as a graph, the memory that kernel
                      arguments point to, which a kernel without source may read and write
  --device host       the kernels of the built-in network, on the CPU

Examples
  idempotence --trace tools/data/traces/block.json
      each operation, its verdict and the reason
  idempotence --trace tools/data/traces/block.json --declare 9=idempotent
      the same, if the set may run again: the kernels that add to it have a group then
  idempotence --device cuda --check --json verdicts.json
      by addresses and by arguments, and the memory that a second run of each kernel changes
  idempotence --device host --reuse --save-trace mine.json
      buffers that share memory make groups longer; the trace is saved

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line; 3
if the GPU does not answer.)";

using namespace common;

void read_declared(options& o, const std::string& text) {
  for (const std::string& item : to_list("--declare", text)) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos)
      refuse("--declare", in_quotes(item), "N=idempotent, N=clobbers or N=saves");
    const auto n = to_count("--declare", item.substr(0, equals), 0, 1u << 30);
    const auto declared = to_choice<gsched::declared>("--declare", item.substr(equals + 1),
                                                      {{"idempotent", gsched::declared::idempotent},
                                                       {"clobbers", gsched::declared::clobbers},
                                                       {"saves", gsched::declared::saves}});
    if (!o.says.emplace(n, declared).second)
      refuse("--declare", std::to_string(n) + " twice", "each operation once");
  }
}

/// The options as typed.
struct raw_options {
  std::string trace, declared, limit = "60", save;
  device_option device{{.simulated = false, .preset = false, .host = true}};
  output_options output;
};

void declare(command_line& line, raw_options& raw, options& o) {
  line.group("Memory accesses: one of these two");
  line.option("--trace", raw.trace, "FILE", "A file of accesses");
  raw.device.declare(line, false, "");
  line.group("Options");
  line.option("--declare", raw.declared, "N=WORD,...",
              "Operation N, on your word, is idempotent, clobbers (its\ninputs) or saves");
  line.flag("--reuse", o.reuse, "Buffers of the network share memory, as in a memory plan");
  line.flag("--check", o.check, "On a GPU: run each kernel twice and compare");
  line.option("--limit", raw.limit, "S", "Seconds that the GPU may take");
  raw.output.declare(line, {.json = "All verdicts", .progress = false});
  line.option("--save-trace", raw.save, "FILE", "The recorded accesses");
}

void read(options& o, const raw_options& raw) {
  if (raw.trace.empty() == raw.device.empty())
    refuse(raw.trace.empty() ? "--trace" : "--device",
           raw.trace.empty() ? "not given, nor --device" : "given beside --trace", "one of both");
  if (!raw.trace.empty()) {
    o.trace = to_file("--trace", raw.trace, "an access trace's file");
    if (o.reuse || !raw.save.empty())
      refuse(o.reuse ? "--reuse" : "--save-trace", "given beside --trace", "--device");
  } else {
    raw.device.read(o.device);
    o.from = o.device.host ? place::host : place::gpu;
  }
  if (o.check && o.from != place::gpu) refuse("--check", "given without a GPU", "--device cuda");
  if (!raw.declared.empty()) read_declared(o, raw.declared);
  o.limit_s = to_number("--limit", raw.limit, {0, 3600, true, "seconds"});
  o.save = raw.save;
  raw.output.read(o, {{"--save-trace", o.save}});
}

} // namespace

std::optional<options> parse_options(int argc, char** argv) {
  options o;
  raw_options raw;
  command_line line(
      "idempotence",
      "Finds which operations of a model can be stopped and run again, and from where.",
      explanation_and_examples);
  declare(line, raw, o);
  if (!line.parse(argc, argv)) return std::nullopt;
  read(o, raw);
  line.refuse_unused(o.from == place::gpu, {"--limit"}, "without a GPU", "--device cuda");
  return o;
}

void declare(gsched::access_trace& t, const options& o) {
  for (const auto& [n, word] : o.says) {
    if (n >= t.operations.size())
      refuse("--declare", "operation " + std::to_string(n),
             "0 to " + std::to_string(t.operations.size() - 1));
    t.operations[n].says = word;
  }
}

} // namespace idempotence
