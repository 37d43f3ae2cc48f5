// SPDX-License-Identifier: Apache-2.0
//
// host_process SOCKET: serves clients on the paced simulator, for tests of clients in other
// processes and languages. Writes "ready", and at the end of its input what it has counted. Models:
//  brief    256 bytes, which it turns round, in 100 us
//  endless  no bytes, 20 s
//  failing  no bytes; it fails
// Under edf, so that a request whose deadline cannot be met is rejected.
#include "channel/hosted.hpp"

#include <gsched/channel.hpp>
#include <gsched/policy/edf.hpp>

#include <cstdio>
#include <exception>
#include <memory>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: host_process SOCKET\n", stderr);
    return 2;
  }
  try {
    gsched::channel::host_options how;
    how.socket = argv[1];
    channel_test::hosted_by<gsched::edf> h(how);
    h.host->offer(h.server.add_model({}, [] { return std::make_unique<channel_test::failing>(); }),
                  "failing", 0, 0);
    std::puts("ready");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    const bool left = h.come_to(0);
    const gsched::channel::host_statistics s = h.host->statistics();
    std::printf("%s accepted %llu read %llu finished %llu\n",
                left ? "all have left," : "some stay,", static_cast<unsigned long long>(s.accepted),
                static_cast<unsigned long long>(s.requests.read),
                static_cast<unsigned long long>(s.requests.finished));
    return left ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "host_process: %s\n", e.what());
    return 1;
  }
}
