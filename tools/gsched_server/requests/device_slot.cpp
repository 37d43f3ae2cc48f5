// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/device_slot.hpp"

#include "common/cli/run_error.hpp"

#include <gsched/channel/host.hpp>
#include <gsched/core/error.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/server.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>

namespace gsched_server {

namespace {

/// What tenants send and get is in no core dump of the server.
void keep_out_of_dumps(std::span<std::byte> memory) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = at / page * page;
  static_cast<void>(
      ::madvise(reinterpret_cast<void*>(first), at + memory.size() - first, MADV_DONTDUMP));
}

} // namespace

device_slot::device_slot(std::uint32_t number, std::string name, std::unique_ptr<serving_device> on,
                         const settings& s, const std::string& socket)
    : number_(number), name_(std::move(name)), activity_(s.trace_events), device_(std::move(on)),
      server_(device_->open(s, number)) {
  if (activity_.capacity() > 0) server_->observe(&activity_);
  if (socket.empty()) return;
  gsched::channel::host_options listens;
  listens.socket = socket;
  listens.pin = [this](std::span<std::byte> memory) {
    keep_out_of_dumps(memory);
    device_->pin(memory);
  };
  listens.unpin = [this](std::span<std::byte> memory) { device_->unpin(memory); };
  try {
    host_ = std::make_unique<gsched::channel::host>(*server_, std::move(listens));
  } catch (const gsched::error& e) { // of this machine, and not of the command line
    throw common::run_error(gsched::errc::io, e.what());
  }
}

device_slot::~device_slot() { close(gsched::duration::zero()); }

void device_slot::start(std::function<void(gsched::request_record&)> finish) {
  collector_ = std::thread([this, finish = std::move(finish)] {
    std::array<gsched::request_record*, 64> ended;
    try {
      for (;;) {
        const std::uint32_t n =
            server_->collect(ended.data(), static_cast<std::uint32_t>(ended.size()));
        for (std::uint32_t i = 0; i < n; ++i) finish(*ended[i]);
      }
    } catch (const gsched::error&) { // the server is closed, and all were collected
    }
  });
}

void device_slot::close(gsched::duration drain_for) noexcept {
  if (std::exchange(closed_, true)) return;
  try {
    server_->close(drain_for);
  } catch (const std::exception&) { // requests have said why
  }
  if (collector_.joinable()) collector_.join();
}

served::place device_slot::load(const model_plan& m) {
  const gsched::model_id id =
      server_->add_model({}, [&] { return device_->make_model(m, queued); });
  activity_.name_model(index(id), m.name);
  return {number_, id, server_->model(id).facts.expected};
}

void device_slot::remove(gsched::model_id id) noexcept {
  try {
    server_->remove_model(id); // waits for requests of the channel
  } catch (const std::exception&) {
  }
}

void device_slot::offer(const served::place& at, const model_plan& m) {
  if (host_) host_->offer(at.id, m.name, m.profile.input.count(), m.profile.output.count());
}

void device_slot::withdraw(const served::place& at) {
  if (host_) host_->withdraw(at.id);
}

gsched::client_id device_slot::add_client(const std::string& name, double weight) {
  try {
    const gsched::client_id id = server_->add_client(weight);
    activity_.name_client(index(id), name);
    return id;
  } catch (const gsched::error&) {
    if (was_working()) throw;
  }
  return {};
}

gsched::server_load device_slot::was_load() const noexcept { return server_->was_load(); }

std::optional<gsched::server_statistics> device_slot::statistics() {
  try {
    return server_->statistics();
  } catch (const gsched::error&) {
    return std::nullopt;
  }
}

std::optional<std::uint64_t> device_slot::channel_clients() const {
  if (!host_) return std::nullopt;
  return host_->statistics().connected;
}

} // namespace gsched_server
