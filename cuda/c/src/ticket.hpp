// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "futex.hpp"
#include "message.hpp"

#include <gsched/gsched_c.h>

#include <gsched/core/id.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/cuda/action.hpp>
#include <gsched/job/job.hpp>

#include <boost/intrusive/list.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched::abi {

struct desk;

/// What kind of memory a pointer of a caller's is.
enum class memory_kind : std::uint8_t { pageable, pinned, device };

/// A copy that a request asks for: the instance's memory is known when the request starts.
struct transfer {
  std::uint32_t buffer = 0; ///< which input or output of the model
  void* outside = nullptr;  ///< host or device memory of the caller
  memory_kind kind = memory_kind::pageable;
  cuda::copy_action action{nullptr, nullptr}; ///< in place until the copy has ended
};

} // namespace gsched::abi

/// A request from its submission until everybody has let go of it.
///
/// Threads  what is asked is set before it is posted; what came of it is written by the
/// dispatcher's
///          thread and read by others once the phase says that it has ended.
struct gsched_ticket {
  enum phase : std::uint32_t { pending, awaited, ended };
  /// Whether the collector gets the ticket at its end. With `collecting` the collector owns a
  /// share.
  enum collection : std::uint32_t { uncollected, collecting, over };

  explicit gsched_ticket(std::shared_ptr<gsched::abi::desk> d) : at(std::move(d)) {}
  ~gsched_ticket() {
    if (after != nullptr) after->let_go(); // it was not posted
  }
  gsched_ticket(const gsched_ticket&) = delete;
  gsched_ticket& operator=(const gsched_ticket&) = delete;

  // Shared ------------------------------------------------------------------------------------
  std::shared_ptr<gsched::abi::desk> at;
  gsched::sync::atomic<std::uint32_t> owners{2}; ///< who holds the ticket, and the server
  gsched::abi::futex_word now{pending};
  gsched::sync::atomic<bool> cancelling{false}; ///< the second message is under way
  gsched::sync::atomic<std::uint32_t> collect{uncollected};
  gsched::abi::message asked{gsched::abi::message::kind::submit, this, nullptr};
  gsched::abi::message cancel{gsched::abi::message::kind::cancel, this, nullptr};

  // What is asked -----------------------------------------------------------------------------
  std::uint32_t model = 0;
  std::uint32_t client = 0;
  bool real_time = false;
  std::int64_t arrival_ns = 0;
  std::int64_t deadline_ns = gsched::abi::never_ns;
  gsched_callback done = nullptr;
  void* user = nullptr;
  std::vector<gsched::abi::transfer> inputs;
  std::vector<gsched::abi::transfer> outputs;
  void* wait_event = nullptr;
  void* signal_event = nullptr;
  std::shared_ptr<void> marked{}; ///< wait_event, if it is the ticket's own
  gsched_ticket* after = nullptr; ///< with a share of it, until this one is taken up or has ended

  // The dispatcher's --------------------------------------------------------------------------
  boost::intrusive::list_member_hook<> live_hook{};
  gsched_ticket* next_posted = nullptr; ///< among those to be collected
  gsched::job_id id{};
  bool taken_up = false;     ///< counted in its model's entry until it has ended
  std::int64_t asked_ns = 0; ///< when its event was asked for
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>
      await_hook{}; ///< among those whose events have not completed

  // What came of it ---------------------------------------------------------------------------
  gsched_state state = GSCHED_PENDING;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t segments = 0;
  std::uint32_t instance = UINT32_MAX;
  std::string error;
  gsched_code code = GSCHED_OK;

  [[nodiscard]] bool has_ended() const noexcept {
    return now.load(gsched::sync::acquire) == ended; // [T1] acquire <- [T1] release in publish
  }

  /// Once, when all that came of it is written.
  void publish() noexcept {
    if (now.exchange(ended, gsched::sync::release) == awaited) // [T1] release -> [T1] acquire
      gsched::abi::futex_wake_all(now);
  }

  /// Asks for the ticket to be collected at its end. It stays as it is if that was asked for before
  /// or the request has ended; the answer is what it was.
  [[nodiscard]] collection try_collect() noexcept {
    hold();
    std::uint32_t was = uncollected;
    // [L1] acq_rel, acquire <-> [L1] acq_rel in end_collection: one of the two sees the other
    if (!collect.compare_exchange_strong(was, collecting, gsched::sync::acq_rel,
                                         gsched::sync::acquire))
      let_go();
    return static_cast<collection>(was);
  }
  /// Once, after publish. True: the collector is to get the ticket.
  [[nodiscard]] bool end_collection() noexcept {
    return collect.exchange(over, gsched::sync::acq_rel) == collecting; // [L1]
  }

  /// False if the deadline came first.
  [[nodiscard]] bool wait_until(std::int64_t until_ns) noexcept {
    for (;;) {
      if (has_ended()) return true;
      if (until_ns != gsched::abi::never_ns && gsched::abi::now_ns() >= until_ns) return false;
      std::uint32_t seen = pending;
      // unordered: has_ended orders what is read after it
      now.compare_exchange_strong(seen, awaited, gsched::sync::relaxed, gsched::sync::relaxed);
      if (seen != ended) gsched::abi::futex_wait(now, awaited, until_ns);
    }
  }

  void hold() noexcept { owners.fetch_add(1, gsched::sync::relaxed); } // unordered: one is held
  void let_go() noexcept {
    // [O1] acq_rel <-> [O1] acq_rel: what each owner did is before the end of the last
    if (owners.fetch_sub(1, gsched::sync::acq_rel) == 1) delete this;
  }
};

namespace gsched::abi {

using ticket = ::gsched_ticket;
using ticket_list = boost::intrusive::list<
    ticket, boost::intrusive::member_hook<ticket, boost::intrusive::list_member_hook<>,
                                          &ticket::live_hook>>;
using awaiting_list = boost::intrusive::list<
    ticket,
    boost::intrusive::member_hook<ticket,
                                  boost::intrusive::list_member_hook<
                                      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>,
                                  &ticket::await_hook>,
    boost::intrusive::constant_time_size<false>>;

} // namespace gsched::abi
