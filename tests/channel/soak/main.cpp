// SPDX-License-Identifier: Apache-2.0
//
// The channel under clients and servers that die, that want more than their share, or that write
// whatever they like. Needs no GPU.
#include "commands.hpp"

#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  using namespace gsched::soak;
  CLI::App app("The channel's clients and servers as processes that die, compete and attack.");
  app.require_subcommand(1);
  deaths_options d;
  CLI::App* const to_deaths = app.add_subcommand(
      "deaths", "Clients and servers are killed at random; every request ends once or is accounted "
                "for, and the server is left with nothing.");
  to_deaths->add_option("--requests", d.requests, "Of all clients together")->capture_default_str();
  to_deaths->add_option("--clients", d.clients, "Processes at once")
      ->check(CLI::Range(1, 500))
      ->capture_default_str();
  to_deaths->add_option("--server-kills", d.server_kills, "Of the server, spread over the run")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  to_deaths
      ->add_option("--kill-every", d.kill_every_ms, "Milliseconds from one client's to the next")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  to_deaths->add_option("--seed", d.seed, "Of all that is drawn")->capture_default_str();
  to_deaths->add_option("--json", d.json, "Writes the result to this file");
  fairness_options f;
  CLI::App* const to_fairness = app.add_subcommand(
      "fairness", "Three saturating clients of weights 1, 2 and 4: shares of device time.");
  to_fairness->add_option("--seconds", f.seconds, "Measured")->capture_default_str();
  to_fairness->add_option("--threshold", f.threshold_ms, "Milliseconds of deficit_over<srpt>")
      ->capture_default_str();
  to_fairness->add_option("--tolerance", f.tolerance, "Most relative difference of a share")
      ->capture_default_str();
  to_fairness->add_option("--json", f.json, "Writes the result to this file");
  hostile_options h;
  CLI::App* const to_hostile = app.add_subcommand(
      "hostile", "A client that writes mutated messages, beside two that are served.");
  to_hostile->add_option("--messages", h.messages, "Mutated, at least")->capture_default_str();
  to_hostile
      ->add_option("--seconds", h.seconds,
                   "Of each turn: alone, beside a busy process, "
                   "beside the hostile client")
      ->capture_default_str();
  to_hostile
      ->add_option("--most-ratio", h.most_ratio,
                   "Fails if the p99 beside the hostile client is more than so many times "
                   "that beside the busy process; 0: it is only reported")
      ->capture_default_str();
  to_hostile
      ->add_option("--per-connection", h.per_connection,
                   "Mutated messages of a connection in the mean, if it lives so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  to_hostile
      ->add_option("--packet-every", h.packet_every,
                   "One in so many messages goes over the socket; 0: none")
      ->capture_default_str();
  to_hostile->add_flag("--idle", h.idle,
                       "The hostile client, and the busy one, get the CPU time that is left over");
  to_hostile->add_flag(
      "--reconnects", h.reconnects,
      "The hostile client connects and leaves as often as it can, and writes nothing");
  to_hostile
      ->add_option("--connect-rate", h.connect_rate,
                   "Connections a second that the host allows a process; 0: any number")
      ->capture_default_str();
  to_hostile->add_option("--seed", h.seed, "Of all that is drawn")->capture_default_str();
  to_hostile->add_option("--json", h.json, "Writes the result to this file");
  try {
    app.parse(argc, argv);
    if (*to_deaths) return deaths(d);
    if (*to_fairness) return fairness(f);
    return hostile(h);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    std::cerr << "channel_soak: " << e.what() << '\n';
    return 1;
  }
}
