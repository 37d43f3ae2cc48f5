// SPDX-License-Identifier: Apache-2.0
//
// What a gsched_server does, in a terminal: the figures of its status page, live or once.
#include "gsched_top/event_stream.hpp"
#include "gsched_top/frame.hpp"

#include "gsched_server/settings/address.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/main.hpp"
#include "common/cli/option_values.hpp"
#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

namespace {

struct options {
  gsched_server::address at;
  bool once = false, json = false;
};

std::optional<options> read_options(int argc, const char* const* argv) {
  options o;
  std::string at = "unix:" + (gsched_server::socket_folder() / "http.sock").string();
  common::command_line line("gsched_top", "Shows what a gsched_server does, twice a second.",
                            "\nIt ends with the server, or by Ctrl-C.");
  line.option("address", at, "ADDR", "The server's --http: unix:PATH or HOST:PORT");
  line.flag("--once", o.once, "Show one time, with the rates of half a second, and end");
  line.flag("--json", o.json, "Show the server's JSON, a line each time");
  if (!line.parse(argc, argv)) return std::nullopt;
  o.at = gsched_server::to_address("address", at);
  if (o.at.what == gsched_server::address::kind::none)
    common::refuse("address", "none", "unix:PATH or HOST:PORT");
  return o;
}

int show(const options& o) {
  gsched_top::event_stream events(o.at);
  const bool clears = !o.once && !o.json && ::isatty(STDOUT_FILENO) == 1;
  std::optional<std::string> snapshot = events.next();
  if (o.once && snapshot) snapshot = events.next(); // the first one may have no rates
  for (bool first = true; snapshot; snapshot = events.next()) {
    const std::string text = o.json ? *snapshot + "\n" : gsched_top::frame_of(*snapshot);
    if (clears) std::fputs("\x1b[H\x1b[J", stdout);
    if (!clears && !o.json && !first) std::fputs("\n", stdout);
    first = false;
    std::fwrite(text.data(), 1, text.size(), stdout);
    common::flush_standard_output();
    if (o.once) return 0;
  }
  if (o.once)
    throw common::run_error(gsched::errc::io,
                            o.at.text() + ": the server has ended, expected its events");
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("gsched_top", argc, argv, read_options, show);
}
