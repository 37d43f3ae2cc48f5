// SPDX-License-Identifier: Apache-2.0
#include "idempotence/options.hpp"

#include "common/command_line.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace idempotence {

namespace {

constexpr const char* teaching =
    R"(A kernel that is killed half-way can be run again from its start if it is idempotent: if it has
overwritten nothing that it reads. One that works in place has; but together with the kernels that
made its input it may be idempotent as a group, and then all of them are run again. Copies, sets and
events run once, and no group reaches across one; --declare says which of them may run again. What
has no group is never killed, only waited for.

A kernel with source that leaves by itself has its unfinished blocks run later, and nothing before
it. So it may leave at checkpoints if it is idempotent alone, or if its blocks have saved what they
have done by then, or written nothing (--declare N=saves). Else it may leave between blocks, each of
which runs once then.

Where the accesses come from
  --trace FILE.json   a file: {"model": "...", "operations": [{"kind": "kernel", "name": "...",
                      "reads": [[address, bytes], ...], "writes": [...]}, ...]}
  --device cuda       a built-in network's kernels, which record each address that they read or
                      write; and, of the same network captured as a graph, what its arguments
                      point to, all of which a kernel whose source is not at hand may read and write
  --device host       the built-in network's kernels, on the CPU

Examples
  idempotence --trace tools/data/traces/block.json
      each operation, its verdict, and why
  idempotence --trace tools/data/traces/block.json --declare 9=idempotent
      the same, if the set may run again: what adds to it has a group then
  idempotence --device cuda --check --json verdicts.json
      by addresses and by arguments, and what running each kernel twice changes
  idempotence --device host --reuse --save-trace mine.json
      buffers that share memory make groups longer; the trace is kept

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, told in one line; 3 if the
GPU does not answer.)";

gsched::declared declared_of(const std::string& item, std::size_t equals) {
  const std::string word = item.substr(equals + 1);
  if (word == "idempotent") return gsched::declared::idempotent;
  if (word == "clobbers") return gsched::declared::clobbers;
  if (word == "saves") return gsched::declared::saves;
  common::refuse("--declare", common::in_quotes(item), "N=idempotent, N=clobbers or N=saves");
}

void read_declared(options& o, const std::string& words) {
  for (const std::string& item : common::to_list("--declare", words)) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos)
      common::refuse("--declare", common::in_quotes(item), "N=idempotent, N=clobbers or N=saves");
    const auto n = common::to_count("--declare", item.substr(0, equals), 0, 1u << 30);
    if (!o.says.emplace(n, declared_of(item, equals)).second)
      common::refuse("--declare", std::to_string(n) + " twice", "each operation once");
  }
}

} // namespace

std::optional<options> parse_options(int argc, char** argv) {
  options o;
  std::string trace, device, declared, limit = "60", json, save;
  CLI::App app("Which operations of a model can be killed and run again, and from where.");
  app.name("idempotence");
  const auto add = [&](const char* name, std::string& word, const char* type, const char* help) {
    app.add_option(name, word, help)->type_name(type);
  };
  add("--trace", trace, "FILE", "an access trace");
  add("--device", device, "NAME", "host, cuda or cuda:N: a built-in network on it");
  add("--declare", declared, "N=WORD,...",
      "operation N is idempotent, clobbers, or saves: your word");
  app.add_flag("--reuse", o.reuse, "the network's buffers share memory, as in a memory plan");
  app.add_flag("--check", o.check, "on a GPU: run each kernel twice and compare");
  add("--limit", limit, "S", "seconds that the GPU may take; default: 60");
  add("--json", json, "FILE", "write all verdicts to this file");
  add("--save-trace", save, "FILE", "write what was recorded to this file");
  app.footer(teaching);
  if (!common::parse(app, argc, argv)) return std::nullopt;
  if (trace.empty() == device.empty())
    common::refuse(trace.empty() ? "--trace" : "--device",
                   trace.empty() ? "not given, nor --device" : "given beside --trace",
                   "one of both");
  if (!trace.empty()) {
    o.trace = common::to_file("--trace", trace, "an access trace's file");
    if (o.reuse || !save.empty())
      common::refuse(o.reuse ? "--reuse" : "--save-trace", "given beside --trace", "--device");
  } else {
    o.from = device == "host" ? place::host : place::gpu;
    if (o.from == place::host)
      o.device.device = device;
    else
      common::read_device(o.device, device);
    if (o.from == place::gpu && !o.device.gpu)
      common::refuse("--device", common::in_quotes(device), "host, cuda or cuda:N",
                     gsched::errc::unknown_name);
  }
  if (o.check && o.from != place::gpu)
    common::refuse("--check", "given without a GPU", "--device cuda");
  if (!declared.empty()) read_declared(o, declared);
  o.limit_s = common::to_number("--limit", limit, {0, 3600, true, "seconds"});
  common::refuse_unused(app, o.from == place::gpu, {"--limit"}, "without a GPU", "--device cuda");
  o.json = json;
  o.save = save;
  common::check_outputs({{"--json", o.json}, {"--save-trace", o.save}});
  return o;
}

void declare(gsched::access_trace& t, const options& o) {
  for (const auto& [n, word] : o.says) {
    if (n >= t.operations.size())
      common::refuse("--declare", "operation " + std::to_string(n),
                     "0 to " + std::to_string(t.operations.size() - 1));
    t.operations[n].says = word;
  }
}

} // namespace idempotence
