// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/devices/serving_device.hpp"
#include "gsched_server/operations/device_figures.hpp"
#include "gsched_server/operations/load.hpp"
#include "gsched_server/operations/load_report.hpp"
#include "gsched_server/operations/request_metrics.hpp"
#include "gsched_server/operations/status_board.hpp"
#include "gsched_server/requests/answer.hpp"
#include "gsched_server/requests/device_slot.hpp"
#include "gsched_server/requests/served.hpp"
#include "gsched_server/requests/tenant.hpp"
#include "gsched_server/requests/terms.hpp"
#include "gsched_server/settings/settings.hpp"

#include <gsched/core/time.hpp>
#include <gsched/server/ticket.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace gsched_server {

class request_log;

/// What a front end asks for.
struct service_request {
  served_ptr model;
  terms with;
  /// The bytes of each input. They stay in place until the end.
  std::vector<std::span<const std::byte>> inputs;
};

/// Models, tenants and limits in front of one or more devices, each with a gsched::server; knows no
/// protocol. A request goes to the device that placement.hpp chooses. What is on a device that
/// fails ends as unavailable, and further requests go to the others.
///
/// Every request has one end: `ended` is called once, on the caller's thread if the request is
/// refused at once, otherwise on a thread of the service, which it must not block for long.
///
/// Errors   gsched::error with one line.
/// Threads  any, but for the constructor, reload, close and the destructor.
class service {
public:
  /// It may take the outputs out.
  using on_end = std::function<void(answer&)>;

  /// Opens the devices and loads the models. The log outlives it; null: none.
  explicit service(const settings& s, const make_device& make = device_of,
                   request_log* log = nullptr);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Errors   refusal (not_found). A version is empty or "1".
  [[nodiscard]] served_ptr find(std::string_view name, std::string_view version = {}) const;
  /// By rising name.
  [[nodiscard]] std::vector<served_ptr> models() const;

  /// Submits. The ticket cancels; it is empty for a request that was refused at once.
  gsched::ticket infer(service_request&& what, on_end ended);
  /// Counts a request that a front end has refused by itself. Returns its answer, with an id.
  answer count_refused(std::string_view model, const terms& with, answer a);

  /// False from announce_end() on, and once every device has failed.
  [[nodiscard]] bool ready() const noexcept;
  /// Why it is not, if it is not.
  [[nodiscard]] const char* why_not_ready() const noexcept {
    return ready_.load(std::memory_order_relaxed) ? "every device has failed"
                                                  : "the server shuts down";
  }
  /// Never waits.
  [[nodiscard]] load_figures load() const;
  [[nodiscard]] const std::vector<std::unique_ptr<device_slot>>& devices() const noexcept {
    return devices_;
  }
  [[nodiscard]] std::string metrics() const;
  /// The load of the last second, for clients that ask for it.
  [[nodiscard]] std::shared_ptr<const load_meter::rendered> report() { return meter_.latest(); }
  /// What displays show, with so many of each device's last events.
  [[nodiscard]] observation observe(std::size_t events) const;
  /// The last events of each device, from this time on CLOCK_MONOTONIC.
  void write_trace(std::ostream& out, std::int64_t since_ns) const;
  /// Whether there are any: limits/trace_events.
  [[nodiscard]] bool keeps_events() const noexcept;

  /// Replaces limits, tenants and models. Requests that are in service are not affected. A device
  /// that has failed gets no more models.
  /// Errors   those of a model that cannot be loaded; then nothing has changed.
  void reload(const changeable& to);

  /// It is no longer ready, so that clients and proxies go elsewhere. Requests are still taken.
  void announce_end() noexcept { ready_.store(false, std::memory_order_relaxed); }
  /// Refuses further requests as unavailable.
  void stop_accepting() noexcept {
    announce_end();
    accepting_.store(false, std::memory_order_seq_cst);
  }
  /// Waits until every request has ended; false after the timeout.
  [[nodiscard]] bool wait_idle(gsched::duration timeout);
  /// Ends the devices. What they have not served in this time is cancelled.
  void close(gsched::duration drain_for) noexcept;

private:
  struct request;

  [[nodiscard]] served_ptr load(const model_plan& m);
  void set_tenants(const std::map<std::string, tenant_limits>& to);
  [[nodiscard]] std::shared_ptr<tenant> tenant_of(const std::string& name) const;
  /// Errors   refusal
  void admit(const service_request& what, tenant& by);
  /// Errors   refusal; gsched::error of a device that fails right then
  [[nodiscard]] gsched::ticket submit(service_request&& what, const std::shared_ptr<tenant>& by,
                                      const on_end& ended);
  void finish(request& r);
  void retire(const served* m) noexcept;
  void remove_retired();
  void note_end(std::string_view model, std::string_view by, const device_slot* on,
                const answer& a);
  [[nodiscard]] std::vector<device_figures> figures() const;
  [[nodiscard]] load_meter::sample measure() const;

  std::atomic<bool> ready_{true}, accepting_{true};
  std::atomic<std::uint32_t> most_requests_;
  std::atomic<std::uint32_t> active_{0};     ///< submitted or about to be, and not ended
  std::atomic<std::uint32_t> unanswered_{0}; ///< whose `ended` has not returned
  std::mutex idle_mutex_;
  std::condition_variable idle_;

  mutable std::shared_mutex mutex_; ///< of the two below
  std::map<std::string, served_ptr, std::less<>> models_;
  std::map<std::string, std::shared_ptr<tenant>, std::less<>> tenants_;

  std::string policy_;
  request_metrics metrics_;
  request_log* log_;
  load_meter meter_;
  std::atomic<std::uint64_t> reloads_{0};
  std::vector<std::unique_ptr<device_slot>> devices_; ///< as settings::devices

  std::mutex retired_mutex_;
  std::condition_variable has_retired_;
  std::deque<std::unique_ptr<const served>> retired_;
  bool ends_ = false;
  std::thread remover_;
};

} // namespace gsched_server
