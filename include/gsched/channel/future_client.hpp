// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/answer.hpp>
#include <gsched/channel/client.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/payload.hpp>
#include <gsched/channel/shared_client.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gsched::channel {

/// A client with futures: requests from any thread, many in flight, and a thread of its own that
/// reads the replies.
///
///     channel::future_client c("/run/gsched.sock");
///     const channel::model_entry m = c.model("resnet18");
///     channel::payload io = c.allocate(m);
///     fill(io.inputs<float>());
///     channel::pending_answer p = c.submit(m, std::move(io));
///     channel::answer a = p.get();             // a.end says how it ended, a.io.outputs<float>()
///
/// Every request that submit has taken ends once, in its future or in its callback: with the reply,
/// or as outcome::unknown when the server goes or the client is closed. The piece of the arena is
/// free again when the answer is destroyed.
///
/// Errors   gsched::error, one line: closed once the server has gone or the client was closed, and
///          bad_option in a forked child, where the object can only be destroyed.
/// Cost     submit: two locks and an allocation or two more than client::predict. The thread waits
///          as client_options::wait says, and sleeps while no request is in flight.
/// Threads  any, but for the destructor.
class future_client {
public:
  /// Called once with the end of a request, on the thread that reads replies: others wait for it to
  /// return. It must not throw. It may call everything here.
  using callback = std::function<void(answer)>;

  /// Connects.
  /// Errors   as client.
  explicit future_client(const std::string& socket, const client_options& how = {})
      : state_(std::make_shared<state>(socket, how)), thread_([s = state_] { s->read_all(); }) {}
  future_client(const future_client&) = delete;
  future_client& operator=(const future_client&) = delete;
  ~future_client() {
    close();
    if (thread_.joinable()) thread_.detach(); // in a forked child, or on that thread itself
  }

  /// Waits for the server.
  [[nodiscard]] std::vector<model_entry> models() { return state_->client.models(); }
  /// Errors   unknown_name, with the names that there are.
  [[nodiscard]] model_entry model(std::string_view name) { return state_->client.model(name); }

  /// Room for the inputs and outputs of a request.
  /// Errors   too_small if no piece of that size is free.
  [[nodiscard]] payload allocate(const model_entry& m) {
    return {shared(), m.input_bytes, m.output_bytes};
  }

  /// Submits; never waits. An error gives the payload back.
  /// Errors   too_small while most_in_flight() requests have no reply; bad_option for a payload of
  ///          another client.
  pending_answer submit(const model_entry& m, payload io, const predict_options& how = {}) {
    std::promise<answer> end;
    std::future<answer> got = end.get_future();
    const std::uint64_t id = state_->submit(m.id, {std::move(io), std::move(end), {}}, how);
    return {shared(), id, std::move(got)};
  }
  /// The same with a callback. Returns the number of the request.
  std::uint64_t submit(const model_entry& m, payload io, const predict_options& how,
                       callback done) {
    return state_->submit(m.id, {std::move(io), {}, std::move(done)}, how);
  }
  /// As pending_answer::cancel; a number without a request is ignored.
  void cancel(std::uint64_t id) { state_->client.cancel(id); }

  [[nodiscard]] std::uint64_t in_flight() const { return state_->client.in_flight(); }
  [[nodiscard]] std::uint32_t most_in_flight() const noexcept {
    return state_->client.most_in_flight();
  }

  /// Ends the connection. All requests have ended when it returns, those without a reply as
  /// unknown; not so where a callback calls it, or a forked child. Again: waits for the same.
  void close() {
    if (::getpid() != process_) return;
    state_->client.close();
    if (std::this_thread::get_id() == reader_) return;
    const std::lock_guard one(joining_);
    if (thread_.joinable()) thread_.join();
  }

private:
  /// A request in flight.
  struct entry {
    payload io;
    std::promise<answer> end;
    callback done; ///< if any, in place of the promise

    void finish(reply r) noexcept {
      answer a{std::move(r), std::move(io)};
      if (done)
        done(std::move(a));
      else
        end.set_value(std::move(a));
    }
  };
  using entries = std::unordered_map<std::uint64_t, entry>;

  /// What the thread shares with the client, and what payloads keep.
  struct state {
    state(const std::string& socket, const client_options& how) : client(socket, how) {
      open.reserve(client.most_in_flight() + 1);
    }

    std::uint64_t submit(std::uint32_t model, entry e, const predict_options& how) {
      if (!e.io.is_of(client))
        throw error(errc::bad_option,
                    "channel: a payload of another client, expected one of allocate()");
      client.refuse_child(); // in which the lock may be held for ever
      constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
      const std::lock_guard held(mutex);
      if (over) throw error(errc::closed, *over);
      // Its place is there before the request is: nothing throws afterwards.
      entries::node_type place = open.extract(open.try_emplace(none, std::move(e)).first);
      place.key() = client.predict(model, place.mapped().io.bytes(), how);
      const std::uint64_t id = place.key();
      open.insert(std::move(place));
      return id;
    }

    void read_all() noexcept {
      pthread_setname_np(pthread_self(), "gsched-replies");
      std::string why;
      try {
        for (;;)
          if (std::optional<reply> r = client.read_result_within(duration::max()))
            end(std::move(*r));
      } catch (const error& e) {
        why = e.what();
      } catch (const std::bad_alloc&) {
        why = "channel: out of host memory, expected enough for a reply";
        client.close();
      }
      entries left;
      {
        const std::lock_guard held(mutex);
        over = why;
        left = std::move(open);
      }
      for (auto& [id, e] : left) {
        reply r;
        r.id = id;
        r.how = outcome::unknown;
        r.why = reason::server_closed;
        r.text = why;
        e.finish(std::move(r));
      }
    }
    void end(reply r) {
      entries::node_type e;
      {
        const std::lock_guard held(mutex);
        e = open.extract(r.id);
      }
      if (e) e.mapped().finish(std::move(r)); // else a server that answers what it was not asked
    }

    shared_client client;
    std::mutex mutex;
    entries open;                    ///< in flight, by number
    std::optional<std::string> over; ///< the connection has ended, and why
  };

  [[nodiscard]] std::shared_ptr<shared_client> shared() const noexcept {
    return {state_, &state_->client};
  }

  std::shared_ptr<state> state_;
  std::mutex joining_;
  std::thread thread_;
  std::thread::id reader_ = thread_.get_id();
  pid_t process_ = ::getpid();
};

} // namespace gsched::channel
