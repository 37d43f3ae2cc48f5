// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/rest_front.hpp"

#include "gsched_server/network/http_listener.hpp"
#include "gsched_server/network/rest_messages.hpp"
#include "gsched_server/network/tls.hpp"
#include "gsched_server/operations/load_report.hpp"
#include "gsched_server/operations/metrics.hpp"
#include "gsched_server/operations/request_id.hpp"
#include "gsched_server/operations/status_board.hpp"
#include "gsched_server/operations/status_page.hpp"
#include "gsched_server/requests/service.hpp"

#include "common/cli/option_values.hpp"

#include <gsched/core/time.hpp>

#include <fmt/format.h>
#include <httplib.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace gsched_server {

namespace rest {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds longest_idle{30}; ///< of a connection between two requests

constexpr const char* json_type = "application/json";

inline int status_of(outcome o) noexcept {
  switch (o) {
  case outcome::ok: return 200;
  case outcome::invalid: return 400;
  case outcome::not_found: return 404;
  case outcome::denied: return 403;
  case outcome::exhausted: return 429;
  case outcome::late: return 504;
  case outcome::cancelled: return 499;
  case outcome::unavailable: return 503;
  case outcome::failed: break;
  }
  return 500;
}

inline constexpr const char* no_files_left =
    "HTTP/1.1 503 Service Unavailable\r\n"
    "Content-Type: application/json\r\nContent-Length: 87\r\n"
    "Retry-After: 1\r\nConnection: close\r\n\r\n"
    R"({"error":"the server has no file descriptors left, )"
    R"(expected fewer connections at once"})";

/// A connection, as httplib reads and writes it. A request has a minute to arrive, and a limit of
/// bytes, whatever it says of its length; once the server ends, it has a second.
class connection final : public httplib::Stream {
public:
  /// Without TLS where that is null.
  connection(int socket, std::uint64_t most_bytes, std::function<bool()> server_ends,
             const tls_context* tls)
      : socket_(socket), most_(most_bytes), server_ends_(std::move(server_ends)) {
    if (tls != nullptr) tls_.emplace(*tls, socket);
  }

  /// Before the first request. False if the client does not come up with TLS in a while.
  [[nodiscard]] bool open() {
    if (!tls_) return true;
    until_ = clock::now() + std::chrono::seconds{10};
    return wait_step([&] { return tls_->handshake(); });
  }

  /// Waits for the next request; false if there will be none, or `gives_up` says so.
  template <class GivesUp>
  [[nodiscard]] bool wait_request(GivesUp gives_up) {
    constexpr int slice_ms = 50;
    read_bytes_ = 0;
    for (const clock::time_point from = clock::now(); from_ == to_;) {
      if (has_bytes() || poll_for(POLLIN, slice_ms)) break;
      if (gives_up(clock::now() - from)) return false;
    }
    until_ = clock::now() + std::chrono::minutes{1};
    return true;
  }
  /// Whether the client has closed the connection, or its sending side.
  [[nodiscard]] bool has_ended() noexcept {
    if (from_ != to_) return false;
    if (tls_) return tls_->was_ended();
    char c;
    const ssize_t n = ::recv(socket_, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  bool is_readable() const override { return from_ != to_ || has_bytes() || poll_for(POLLIN, 0); }
  bool is_writable() const override { return poll_for(POLLOUT, write_ms); }
  ssize_t read(char* to, std::size_t size) override {
    if (from_ == to_) {
      if (read_bytes_ >= most_) return -1;
      const ssize_t n = receive();
      if (n <= 0) return n;
      from_ = 0;
      to_ = static_cast<std::size_t>(n);
      read_bytes_ += to_;
    }
    const std::size_t n = std::min(size, to_ - from_);
    std::copy_n(buffer_.data() + from_, n, to);
    from_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, std::size_t size) override {
    return taken_over ? -1 : put(from, size);
  }
  ssize_t put(const char* from, std::size_t size) {
    if (tls_) {
      std::size_t n = 0;
      until_ = clock::now() + std::chrono::milliseconds{write_ms};
      return wait_step([&] { return tls_->write(from, size, n); }) ? static_cast<ssize_t>(n) : -1;
    }
    if (!poll_for(POLLOUT, write_ms)) return -1;
    ssize_t n = 0;
    do n = ::send(socket_, from, size, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; } // it would be refused from 1024 on, for select()

  /// Reads for a while what the client still sends, so that it gets to the response before it
  /// learns that the connection is closed.
  void linger() noexcept {
    tls_.reset(); // which says so, too
    ::shutdown(socket_, SHUT_WR);
    const clock::time_point until = clock::now() + std::chrono::seconds{1};
    while (clock::now() < until && poll_for(POLLIN, 100) &&
           ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) > 0) {
    }
  }

  /// Writes all of a text; false if the client does not take it in time, or the server ends.
  [[nodiscard]] bool put_all(std::string_view text) {
    constexpr int slice_ms = 100;
    const clock::time_point until = clock::now() + std::chrono::milliseconds{write_ms};
    while (!text.empty()) {
      ssize_t n = 0;
      if (tls_) {
        n = put(text.data(), text.size());
      } else {
        if (server_ends_() || clock::now() >= until) return false;
        if (!poll_for(POLLOUT, slice_ms)) continue;
        n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
      }
      if (n <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// Sleeps; false once the client or the server has left.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds t) {
    constexpr std::chrono::milliseconds slice{50};
    for (const clock::time_point until = clock::now() + t; clock::now() < until;) {
      if (server_ends_() || has_ended()) return false;
      std::this_thread::sleep_for(std::min<clock::duration>(slice, until - clock::now()));
    }
    return true;
  }

  bool taken_over = false; ///< its handler has written the response itself
  bool closes = false;     ///< after the response, since the request was not read to its end

private:
  static constexpr int write_ms = 30'000;

  [[nodiscard]] bool has_bytes() const noexcept { return tls_ && tls_->has_bytes(); }
  /// As recv.
  [[nodiscard]] ssize_t receive() {
    if (tls_) {
      std::size_t n = 0;
      const bool done = wait_step([&] { return tls_->read(buffer_.data(), buffer_.size(), n); });
      return done ? static_cast<ssize_t>(n) : -1;
    }
    if (!wait_until(POLLIN)) return -1;
    ssize_t n = 0;
    do n = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    while (n < 0 && errno == EINTR);
    return n;
  }
  /// Repeats a call of TLS until it need not wait; false if it fails, or the time is over.
  template <class Call>
  [[nodiscard]] bool wait_step(Call call) {
    for (;;) {
      const tls_session::step s = call();
      if (s == tls_session::step::done) return true;
      if (s == tls_session::step::over ||
          !wait_until(s == tls_session::step::wait_read ? POLLIN : POLLOUT))
        return false;
    }
  }
  [[nodiscard]] bool wait_until(short what) {
    constexpr int slice_ms = 100;
    while (clock::now() < until_) {
      if (poll_for(what, slice_ms)) return true;
      if (server_ends_()) until_ = std::min(until_, clock::now() + std::chrono::seconds{1});
    }
    return false;
  }
  [[nodiscard]] bool poll_for(short what, int ms) const noexcept {
    pollfd p{socket_, what, 0};
    return ::poll(&p, 1, ms) > 0;
  }

  int socket_;
  std::optional<tls_session> tls_;
  std::uint64_t most_, read_bytes_ = 0;
  std::function<bool()> server_ends_;
  std::array<char, 16384> buffer_;
  std::size_t from_ = 0, to_ = 0; ///< what of the buffer is not read
  clock::time_point until_{};
};

/// The connection whose request this thread is at.
inline thread_local connection* current = nullptr;

/// Waits for the end of an inference on the thread of its connection. A client that leaves cancels
/// it.
inline answer infer_and_wait(service& on, service_request&& what) {
  std::mutex mutex;
  std::condition_variable has_ended;
  std::optional<answer> end;
  gsched::ticket t = on.infer(std::move(what), [&](answer& a) {
    const std::lock_guard lock(mutex);
    end = std::move(a);
    has_ended.notify_one(); // with the lock: the waiting thread then destroys it
  });
  std::unique_lock lock(mutex);
  while (!has_ended.wait_for(lock, std::chrono::milliseconds{50}, [&] { return end.has_value(); }))
    if (t && current->has_ended()) t.cancel();
  return *end;
}

/// httplib's parser and routes, on connections of our own: it has no Unix sockets everywhere, and
/// its queue of connections is short.
class router final : public httplib::Server {
public:
  router(service& to, std::uint64_t request_bytes, std::uint32_t threads, const tls_context* tls)
      : on_(to), tls_(tls),
        board_([&to](std::size_t events) { return to.observe(events); }, threads / 4) {
    set_payload_max_length(request_bytes);
    set_keep_alive_timeout(longest_idle.count()); // what responses say of it
    set_keep_alive_max_count(1'000'000);
    set_pre_routing_handler([this](const httplib::Request& q, httplib::Response& r) {
      return refuse_early(q, r) ? HandlerResponse::Handled : HandlerResponse::Unhandled;
    });
    Get(".*", [this](const httplib::Request& q, httplib::Response& r) { answer_to(q, r); });
    Post(".*", [this](const httplib::Request& q, httplib::Response& r) { answer_to(q, r); });
    set_error_handler([](const httplib::Request&, httplib::Response& r) {
      if (!r.body.empty()) return;
      if (r.status == 413 || r.status == 400) current->closes = true;
      r.set_content(error_json(fmt::format("HTTP status {}: {}", r.status,
                                           r.status == 413   ? "the body is too large"
                                           : r.status == 404 ? "no such resource"
                                                             : "a bad request")),
                    json_type);
    });
  }

  template <class GivesUp>
  void serve(int socket, GivesUp gives_up) {
    const auto server_ends = [&] { return gives_up(clock::duration::max()); };
    connection c(socket, payload_max_length_ + around_body, server_ends, tls_);
    if (!c.open()) return;
    current = &c;
    bool closed = false;
    while (!closed && !c.closes && c.wait_request(gives_up))
      if (!process_request(c, server_ends(), closed, {})) break;
    if (c.closes) c.linger();
    current = nullptr;
  }

private:
  static constexpr std::uint64_t around_body = 256 * 1024; ///< headers, chunks, what is read ahead
  static constexpr std::size_t longest_path = 1024;

  /// Before the body is read.
  bool refuse_early(const httplib::Request& q, httplib::Response& r) const {
    const auto refuse = [&](int status, const char* line) {
      r.status = status;
      r.set_content(error_json(line), json_type);
      r.set_header("Connection", "close");
      current->closes = true;
      return true;
    };
    if (q.path.size() > longest_path) return refuse(414, "the path is too long");
    if (q.has_header("Content-Encoding"))
      return refuse(415, "Content-Encoding: given, expected a body as it is");
    if (q.method != "GET" && q.method != "HEAD" && q.method != "POST")
      return refuse(405, "unknown method, expected GET or POST");
    const std::size_t lengths = q.get_header_value_count("Content-Length");
    if (lengths == 0) return false;
    const std::string text = q.get_header_value("Content-Length");
    std::uint64_t n = 0;
    const auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (lengths > 1 || q.has_header("Transfer-Encoding") || stop == text.data() ||
        stop != text.data() + text.size())
      return refuse(400, "Content-Length: expected one whole number, without Transfer-Encoding");
    if (ec != std::errc{} || n > payload_max_length_)
      return refuse(413, "the body is too large"); // httplib would read it all first
    return false;
  }

  void answer_to(const httplib::Request& q, httplib::Response& r) {
    std::string model;
    terms with;
    if (const std::string id = q.get_header_value(request_id_header); is_request_id(id))
      with.id = id; // before what can be refused
    try {
      route(q, r, model, with);
    } catch (const refusal& e) {
      answer says = e.says;
      if (says.what == outcome::invalid || says.what == outcome::not_found)
        if (q.method == "POST" && q.path.ends_with("/infer"))
          says = on_.count_refused(model, with, std::move(says));
      give_error(r, says);
      if (!says.id.empty()) give_facts(q, r, says);
    } catch (const std::exception& e) { // out of memory, or a device that hangs
      give_error(r, {.what = outcome::failed, .line = e.what()});
    }
  }

  static void give_error(httplib::Response& r, const answer& a) {
    r.status = status_of(a.what);
    if (a.retry_after > gsched::duration::zero())
      r.set_header("Retry-After",
                   std::to_string(std::chrono::ceil<std::chrono::seconds>(a.retry_after).count()));
    r.set_content(error_json(a.line), json_type);
  }

  /// The id of a request, and the load if that is asked for.
  void give_facts(const httplib::Request& q, httplib::Response& r, const answer& a) {
    r.set_header(request_id_header, a.id);
    if (!q.has_header(load_format_header)) return;
    const std::string report =
        on_.report()->report.in_format(q.get_header_value(load_format_header));
    if (!report.empty()) r.set_header(load_header, report);
  }

  void route(const httplib::Request& q, httplib::Response& r, std::string& model, terms& with) {
    std::vector<std::string> parts; // of the path, which is decoded
    for (std::size_t from = 1; from <= q.path.size();) {
      const std::size_t slash = std::min(q.path.find('/', from), q.path.size());
      parts.push_back(q.path.substr(from, slash - from));
      from = slash + 1;
    }
    const bool get = q.method != "POST";
    const auto give = [&](const std::string& text) { r.set_content(text, json_type); };
    const auto nothing = [&] {
      throw refusal(outcome::not_found, q.method + " " + common::in_quotes(q.path) +
                                            ": no such resource, expected one of the protocol");
    };
    if (parts.size() == 1 && parts[0] == "metrics" && get)
      return r.set_content(metrics(), "text/plain; version=0.0.4; charset=utf-8");
    if (parts.size() == 1 && parts[0].empty() && get) return give_page(r);
    if (parts.size() == 1 && parts[0] == "events" && get) return give_events(r);
    if (parts.size() == 1 && parts[0] == "trace" && get) return give_trace(q, r);
    if (parts.empty() || parts[0] != "v2") nothing();
    if (parts.size() == 1 && get) return give(server_json());
    if (parts.size() == 3 && parts[1] == "health" && get) {
      if (parts[2] == "live") return give(R"({"live":true})");
      if (parts[2] != "ready") nothing();
      if (!on_.ready()) r.status = 503;
      return give(on_.ready() ? R"({"ready":true})" : R"({"ready":false})");
    }
    if (parts.size() == 3 && parts[1] == "repository" && parts[2] == "index" && !get)
      return give(index_json(on_, q.body));
    if (parts.size() < 3 || parts[1] != "models") nothing();
    const bool versioned = parts.size() >= 5 && parts[3] == "versions";
    const std::size_t rest = versioned ? 5 : 3;
    const std::string verb = parts.size() == rest + 1 ? parts[rest] : "";
    if (parts.size() > rest + 1) nothing();
    const served_ptr m = on_.find(parts[2], versioned ? parts[4] : "");
    model = m->plan.name;
    if (verb.empty() && parts.size() == rest && get) return give(model_json(*m));
    if (verb == "ready" && get) {
      if (!on_.ready()) r.status = 503;
      return give(
          fmt::format(R"({{"name":{},"ready":{}}})", error_text(m->plan.name), on_.ready()));
    }
    if (verb != "infer" || get) nothing();
    infer(q, r, m, with);
  }

  std::string metrics() {
    metrics_text watchers;
    board_.write(watchers);
    return on_.metrics() + watchers.text();
  }

  void give_page(httplib::Response& r) {
    status_page page = make_status_page(board_.latest()->json);
    r.set_header("Content-Security-Policy", page.content_security_policy);
    r.set_header("X-Content-Type-Options", "nosniff");
    r.set_header("Referrer-Policy", "no-referrer");
    r.set_header("Cache-Control", "no-store");
    r.set_content(std::move(page.html), "text/html; charset=utf-8");
  }

  /// httplib's own streams end at once, as it thinks that it listens on nothing.
  void give_events(httplib::Response& r) {
    connection& c = *current;
    if (!board_.stream([&](std::string_view text) { return c.put_all(text); },
                       [&](std::chrono::milliseconds t) { return c.wait_for(t); }))
      return give_error(r, {.what = outcome::unavailable,
                            .line = "as many watch as may: a quarter of limits/http_threads, "
                                    "expected fewer",
                            .retry_after = std::chrono::seconds{1}});
    c.taken_over = true;
  }

  void give_trace(const httplib::Request& q, httplib::Response& r) {
    constexpr double longest_s = 3600;
    if (!on_.keeps_events())
      throw refusal(outcome::not_found, "no events are kept, expected limits/trace_events above 0");
    double seconds = 5;
    if (q.has_param("seconds")) {
      const std::string text = q.get_param_value("seconds");
      const auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), seconds);
      if (ec != std::errc{} || stop != text.data() + text.size() ||
          !(seconds > 0 && seconds <= longest_s))
        throw refusal(outcome::invalid, fmt::format("seconds: {}, expected a number above 0, at "
                                                    "most {}",
                                                    common::in_quotes(text), longest_s));
    }
    const std::unique_lock one(tracing_, std::try_to_lock); // it is large
    if (!one.owns_lock())
      return give_error(r, {.what = outcome::unavailable,
                            .line = "another trace is written, expected one at a time",
                            .retry_after = std::chrono::seconds{1}});
    const auto since = clock::now() - std::chrono::duration_cast<clock::duration>(
                                          std::chrono::duration<double>(seconds));
    std::ostringstream out;
    on_.write_trace(out, std::chrono::nanoseconds(since.time_since_epoch()).count());
    r.set_header("Content-Disposition", "attachment; filename=\"gsched-trace.json\"");
    r.set_content(std::move(out).str(), json_type);
  }

  static std::string error_text(const std::string& s) { // as JSON
    const std::string whole = error_json(s);
    return whole.substr(9, whole.size() - 10);
  }

  void infer(const httplib::Request& q, httplib::Response& r, const served_ptr& m, terms& with) {
    service_request what;
    what.model = m;
    for (const auto& [name, value] : q.headers) {
      std::string lower = name;
      for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      with.set_header(lower, value);
    }
    std::optional<std::size_t> json_bytes;
    if (constexpr const char* name = "Inference-Header-Content-Length"; q.has_header(name)) {
      const std::string text = q.get_header_value(name);
      std::size_t n = 0;
      const auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
      if (ec != std::errc{} || stop != text.data() + text.size())
        throw refusal(outcome::invalid, fmt::format("{}: {}, expected a whole number", name,
                                                    common::in_quotes(text)));
      json_bytes = n;
    }
    const rest_request request(q.body, json_bytes, m->plan, with);
    if (with.id.empty() && is_request_id(request.id)) with.id = request.id;
    what.with = with;
    what.inputs = request.inputs;
    const answer a = infer_and_wait(on_, std::move(what));
    give_facts(q, r, a);
    if (a.what != outcome::ok) return give_error(r, a);
    rest_response response = response_of(request, *m, a);
    if (response.json_bytes)
      r.set_header("Inference-Header-Content-Length", std::to_string(*response.json_bytes));
    r.set_content(std::move(response.body),
                  response.json_bytes ? "application/octet-stream" : json_type);
  }

  service& on_;
  const tls_context* tls_;
  status_board board_;
  std::mutex tracing_;
};

} // namespace rest

struct rest_front::state {
  state(service& to, const address& at, std::uint64_t request_bytes, std::uint32_t threads,
        const tls_context* tls)
      : answers(to, request_bytes, threads, at.what == address::kind::tcp ? tls : nullptr),
        listener(
            at, threads,
            [this](int socket) {
              answers.serve(socket, [this](rest::clock::duration idle) {
                return listener.stops() ||
                       (idle != rest::clock::duration::max() &&
                        (idle > rest::longest_idle || listener.is_short_of_threads()));
              });
            },
            // It would be garbage to a client of TLS.
            at.what == address::kind::tcp && tls != nullptr ? "" : rest::no_files_left) {}
  rest::router answers;
  http_listener listener;
};

rest_front::rest_front(service& to, const address& at, std::uint64_t request_bytes,
                       std::uint32_t threads, const tls_context* tls)
    : state_(std::make_unique<state>(to, at, request_bytes, threads, tls)) {}

rest_front::~rest_front() { shut_down(); }

const address& rest_front::listens_at() const noexcept { return state_->listener.listens_at(); }

void rest_front::shut_down() { state_->listener.stop(); }

} // namespace gsched_server
