// SPDX-License-Identifier: Apache-2.0
//
// Clients are killed and replaced, servers are killed and started again. Each side keeps a journal
// of each request in memory that no process's death takes away.
#include "commands.hpp"
#include "processes.hpp"

#include <gsched/channel.hpp>
#include <gsched/core/error.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/srpt.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/workload/random.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gsched::soak {

namespace {

constexpr std::uint32_t window = 16; ///< requests in flight of a client
constexpr std::size_t half = 64;     ///< bytes of inputs, and of outputs

enum class kind : std::uint8_t { quick, brief, cancelled, refused };

/// What its client and its server have written of one request.
struct journal_entry {
  std::atomic<std::uint32_t> life{0}; ///< of the client that took it, from 1
  std::atomic<kind> what{kind::quick};
  std::atomic<std::uint8_t> replies{0};
  std::atomic<std::uint8_t> how{0};
  std::atomic<std::uint8_t> unknown{0};   ///< its server was gone before a reply was read
  std::atomic<std::uint8_t> delivered{0}; ///< by a server
};
struct life_entry {
  std::atomic<std::uint8_t> killed{0};
  std::atomic<std::uint32_t> connects{0};
};
struct server_entry {
  std::atomic<std::uint64_t> delivered{0};
  std::atomic<std::uint32_t> ready{0};
  std::atomic<std::uint64_t> measured{0}; ///< answers `measure`
  holdings start{}, then{}, end{};
  channel::host_statistics counts{};
};
struct control {
  std::atomic<std::uint64_t> next{0};    ///< request to be taken
  std::atomic<std::uint64_t> limit{0};   ///< none is taken from here on, for now
  std::atomic<std::uint32_t> hold{0};    ///< clients end what they have, and leave
  std::atomic<std::uint64_t> measure{0}; ///< the server counts what it holds
  std::atomic<std::uint32_t> quit{0};
  std::atomic<std::uint64_t> progress{0}; ///< replies read, and reconnections
  std::atomic<std::uint64_t> strange{0};  ///< replies that do not fit, wrong outputs, odd errors
  std::atomic<std::uint32_t> outside{0};  ///< clients that hold no connection
};

struct run {
  explicit run(const deaths_options& o)
      : how(o), journal(o.requests), lives(1 << 16), servers(o.server_kills + 1), state(1) {}
  deaths_options how;
  std::string socket = socket_name();
  shared_array<journal_entry> journal;
  shared_array<life_entry> lives;
  shared_array<server_entry> servers;
  shared_array<control> state;
};

struct input {
  std::uint64_t request;
  std::uint64_t value;
};

void strange(run& r, const std::string& what) {
  if (r.state[0].strange.fetch_add(1) < 10)
    std::fprintf(stderr, "channel_soak: %s\n", what.c_str());
}

// The server ------------------------------------------------------------------------------------

void serve(run& r, std::uint32_t number) {
  server_entry& me = r.servers[number];
  control& all = r.state[0];
  const auto deliver = [&](request_record& q) {
    input in;
    std::memcpy(&in, q.payload.data(), sizeof in);
    if (in.request >= r.journal.size()) return strange(r, "a payload of no request");
    r.journal[in.request].delivered.fetch_add(1);
    me.delivered.fetch_add(1);
    in.value = ~in.value;
    std::memcpy(q.payload.data() + half, &in, sizeof in);
  };
  me.start = count_holdings();
  {
    server s([] { return sim::paced_device(sim::h200()); }, [] { return deficit_over<srpt>(); });
    const model_id quick =
        add_calling(s, kernels{"quick", 1, std::chrono::microseconds{5}, 8}, 4, deliver);
    const model_id brief =
        add_calling(s, kernels{"brief", 5, std::chrono::microseconds{20}, 8}, 4, deliver);
    const model_id slow =
        add_calling(s, kernels{"slow", 40, std::chrono::microseconds{250}, 8}, 4, deliver);
    channel::host h(s, {.socket = r.socket});
    h.offer(quick, "quick", half, half);
    h.offer(brief, "brief", half, half);
    h.offer(slow, "slow", half, half);
    me.ready.store(1);
    while (all.quit.load() == 0) {
      std::this_thread::sleep_for(2ms);
      if (const std::uint64_t asked = all.measure.load(); asked != me.measured.load()) {
        if (!wait_until([&] { return h.statistics().connected == 0; }, 10s))
          strange(r, "clients that have left are still connected");
        if (s.statistics().requests.active != 0) strange(r, "requests of no client are active");
        me.then = count_holdings();
        me.counts = h.statistics();
        me.measured.store(asked);
      }
    }
  }
  me.end = count_holdings();
}

// A client --------------------------------------------------------------------------------------

class client_life {
public:
  client_life(run& r, std::uint32_t number)
      : run_(r), number_(number), random_(r.how.seed * 1000003 + number) {
    how_.slots = window;
    how_.arena_bytes = window * 2 * half;
    const double by = draw_uniform(random_);
    how_.wait = by < 0.03  ? channel::wait_by::polling
                : by < 0.5 ? channel::wait_by::hybrid
                           : channel::wait_by::waiting;
  }

  void live() {
    control& all = run_.state[0];
    while (!over_) {
      if (all.hold.load() != 0) {
        all.outside.fetch_add(1);
        while (all.hold.load() != 0) std::this_thread::sleep_for(1ms);
      }
      try {
        channel::client c(run_.socket, how_);
        const std::array<std::uint32_t, 3> models{c.model("quick").id, c.model("brief").id,
                                                  c.model("slow").id};
        run_.lives[number_].connects.fetch_add(1);
        all.progress.fetch_add(1);
        work(c, models);
      } catch (const error& e) {
        // Without a server, between two, or with one that has yet to offer its models.
        if (e.code() != errc::closed && e.code() != errc::io && e.code() != errc::timed_out &&
            e.code() != errc::unknown_name)
          strange(run_, e.what());
        for (const pending& p : in_flight_) run_.journal[p.request].unknown.fetch_add(1);
        in_flight_.clear();
        std::this_thread::sleep_for(1ms);
      }
    }
  }

private:
  struct pending {
    std::uint64_t request;
    std::uint64_t id;
    std::uint64_t value;
    std::span<std::byte> io;
  };

  void work(channel::client& c, const std::array<std::uint32_t, 3>& models) {
    control& all = run_.state[0];
    std::vector<std::span<std::byte>> free;
    for (std::uint32_t n = 0; n < window; ++n) free.push_back(c.allocate(2 * half));
    for (;;) {
      while (!free.empty() && !over_ && all.hold.load() == 0 &&
             all.next.load() < all.limit.load() && draw_uniform(random_) < 0.95) {
        const std::uint64_t g = all.next.fetch_add(1);
        if (g >= run_.journal.size()) {
          over_ = true;
          break;
        }
        submit(c, models, g, free);
      }
      if (in_flight_.empty()) {
        if (over_ || all.hold.load() != 0) return;
        if (all.next.load() >= all.limit.load()) std::this_thread::sleep_for(1ms);
        continue;
      }
      take(c.read_result(), free); // without a limit: a wake-up that is lost ends the run
    }
  }

  void submit(channel::client& c, const std::array<std::uint32_t, 3>& models, std::uint64_t g,
              std::vector<std::span<std::byte>>& free) {
    const double by = draw_uniform(random_);
    const kind what = by < 0.70    ? kind::quick
                      : by < 0.985 ? kind::brief
                      : by < 0.995 ? kind::cancelled
                                   : kind::refused;
    journal_entry& j = run_.journal[g];
    j.what.store(what);
    j.life.store(number_ + 1);
    const pending p{g, 0, random_(), free.back()};
    free.pop_back();
    const input in{g, p.value};
    std::memcpy(p.io.data(), &in, sizeof in);
    in_flight_.push_back(p);
    const std::uint32_t model = what == kind::refused     ? 4242
                                : what == kind::cancelled ? models[2]
                                                          : models[what == kind::brief ? 1 : 0];
    const auto id = c.try_predict(model, p.io);
    if (!id) return strange(run_, "no room for a request within the window");
    in_flight_.back().id = *id;
    if (what == kind::cancelled) c.cancel(*id);
  }

  void take(const channel::reply& r, std::vector<std::span<std::byte>>& free) {
    const auto at = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const pending& p) { return p.id == r.id; });
    if (at == in_flight_.end())
      return strange(run_, "a reply to no request: " + std::to_string(r.id));
    journal_entry& j = run_.journal[at->request];
    j.how.store(static_cast<std::uint8_t>(r.how));
    j.replies.fetch_add(1);
    run_.state[0].progress.fetch_add(1);
    const kind what = j.what.load();
    if (r.how == channel::outcome::finished) {
      input out;
      std::memcpy(&out, at->io.data() + half, sizeof out);
      if (out.request != at->request || out.value != ~at->value)
        strange(run_, "outputs of another request");
    }
    const bool fits = r.how == channel::outcome::finished
                          ? what == kind::quick || what == kind::brief
                      : r.how == channel::outcome::cancelled ? what == kind::cancelled
                      : r.how == channel::outcome::refused   ? what == kind::refused
                                                             : false;
    // A cancellation may come too late, but never for a request of 10 ms.
    if (!fits)
      strange(run_, "outcome " + std::to_string(j.how.load()) + " of a request of kind " +
                        std::to_string(static_cast<int>(what)));
    free.push_back(at->io);
    in_flight_.erase(at);
  }

  run& run_;
  std::uint32_t number_;
  random_engine random_;
  channel::client_options how_;
  std::vector<pending> in_flight_;
  bool over_ = false;
};

// The parent ------------------------------------------------------------------------------------

struct outcomes {
  std::uint64_t finished = 0, cancelled = 0, refused = 0, other = 0;
  std::uint64_t unknown = 0; ///< at clients whose server died
  std::uint64_t killed = 0;  ///< of killed clients, without a reply that was read
  std::uint64_t taken = 0;   ///< by a client killed before it could write so
  std::uint64_t lost = 0, twice = 0, mismatched = 0;
  std::uint64_t delivered = 0;
};

outcomes judge(const run& r) {
  outcomes n;
  for (const journal_entry& j : r.journal) {
    const std::uint32_t life = j.life.load();
    const auto how = static_cast<channel::outcome>(j.how.load());
    const unsigned replies = j.replies.load(), delivered = j.delivered.load();
    const bool killed = life != 0 && r.lives[life - 1].killed.load() != 0;
    n.delivered += delivered;
    if (replies > 1 || delivered > 1 || (replies == 1 && j.unknown.load() != 0)) ++n.twice;
    if (life == 0) {
      ++n.taken;
      n.mismatched += delivered != 0;
    } else if (replies > 0) {
      switch (how) {
      case channel::outcome::finished: ++n.finished; break;
      case channel::outcome::cancelled: ++n.cancelled; break;
      case channel::outcome::refused: ++n.refused; break;
      default: ++n.other; break;
      }
      n.mismatched += (how == channel::outcome::finished) != (delivered == 1);
    } else if (j.unknown.load() != 0) {
      ++n.unknown;
    } else if (killed) {
      ++n.killed;
    } else {
      ++n.lost;
    }
  }
  return n;
}

/// Keeps the processes, kills them at random, and replaces them.
class parent {
public:
  explicit parent(const deaths_options& how)
      : run_(how), random_(how.seed), clients_(how.clients) {}

  int supervise() {
    const auto begin = clock::now();
    move_limit();
    start_server();
    for (pid_t& c : clients_) c = start_client();
    control& all = run_.state[0];
    const std::uint64_t requests = run_.how.requests;
    const std::uint64_t part = requests / (run_.how.server_kills + 1);
    bool stuck = false;
    std::uint64_t progress = 0;
    auto moved = clock::now();
    auto next_kill = clock::now();
    while (all.next.load() < requests && !stuck) {
      std::this_thread::sleep_until(next_kill += std::chrono::milliseconds(run_.how.kill_every_ms));
      next_kill = std::max(next_kill, clock::now() - 1s);
      kill_one_client();
      if (server_number_ < run_.how.server_kills &&
          all.next.load() >= part * (server_number_ + 1)) {
        kill_and_join(server_);
        ++server_number_;
        move_limit();
        start_server();
      } else if (server_number_ == run_.how.server_kills && !measured_ &&
                 all.next.load() >= requests - part / 2) {
        stuck = !measure_midway();
        measured_ = true;
        move_limit();
      }
      if (const std::uint64_t now = all.progress.load(); now != progress) {
        progress = now;
        moved = clock::now();
      }
      stuck = stuck || clock::now() - moved > 30s;
    }
    int bad = 0;
    if (stuck) bad += report("no progress: a reply or a wake-up was lost");
    for (const pid_t c : clients_) {
      int status = 0;
      if (!wait_until([&] { return ::waitpid(c, &status, WNOHANG) == c; }, stuck ? 1ms : 30s)) {
        bad += report("a client does not end: a reply or a wake-up was lost");
        kill_and_join(c);
      } else if (status != 0) {
        bad += report("a client ended with status " + std::to_string(status));
      }
    }
    const holdings before = run_.servers[server_number_].then;
    bad += !measure();
    all.quit.store(1);
    if (const int rc = join(server_); rc != 0)
      bad += report("the server ended with " + std::to_string(rc));
    if (has_children()) bad += report("a process is left over");
    const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
    return conclude(before, seconds, bad);
  }

private:
  static int report(const std::string& what) {
    std::fprintf(stderr, "channel_soak: %s\n", what.c_str());
    return 1;
  }

  /// So that a kill of the server, or the count midway, comes where it is meant to, and still finds
  /// requests in flight.
  void move_limit() {
    const std::uint64_t requests = run_.how.requests;
    const std::uint64_t part = requests / (run_.how.server_kills + 1);
    run_.state[0].limit.store(measured_ ? requests + (1 << 20)
                              : server_number_ < run_.how.server_kills
                                  ? part * (server_number_ + 1) + part / 4
                                  : requests - part / 4);
  }
  void start_server() {
    server_ = spawn([&, n = server_number_] { serve(run_, n); });
    if (!wait_until([&] { return run_.servers[server_number_].ready.load() != 0; }, 20s))
      throw std::runtime_error("a server does not start");
  }
  pid_t start_client() {
    const std::uint32_t life = lives_++;
    if (life >= run_.lives.size()) throw std::runtime_error("too many clients were killed");
    return spawn([&, life] { client_life(run_, life).live(); });
  }
  void kill_one_client() {
    const auto at = static_cast<std::size_t>(draw_uniform(random_) * double(clients_.size()));
    kill_and_join(clients_[at]);
    run_.lives[lives_of_[at]].killed.store(1);
    ++killed_;
    clients_[at] = start_client();
    lives_of_[at] = lives_ - 1;
  }
  bool measure() {
    control& all = run_.state[0];
    const std::uint64_t asked = all.measure.fetch_add(1) + 1;
    if (wait_until([&] { return run_.servers[server_number_].measured.load() == asked; }, 20s))
      return true;
    report("the server does not answer");
    return false;
  }
  /// All clients leave the last server, are counted, and come again.
  bool measure_midway() {
    control& all = run_.state[0];
    all.outside.store(0);
    all.hold.store(1);
    const bool left = wait_until([&] { return all.outside.load() >= clients_.size(); }, 30s);
    const bool counted = left && measure();
    all.hold.store(0);
    return counted;
  }

  int conclude(const holdings& before, double seconds, int bad) {
    const outcomes n = judge(run_);
    const server_entry& last = run_.servers[server_number_];
    const control& all = run_.state[0];
    const channel::detail::connection_counts& q = last.counts.requests;
    if (n.lost > 0) bad += report(std::to_string(n.lost) + " requests were lost");
    if (n.twice > 0) bad += report(std::to_string(n.twice) + " requests ended twice");
    if (n.mismatched > 0)
      bad += report(std::to_string(n.mismatched) + " requests ended differently on the two sides");
    if (n.other > 0) bad += report(std::to_string(n.other) + " requests failed");
    if (all.strange.load() > 0) bad += report(std::to_string(all.strange.load()) + " oddities");
    if (n.taken > killed_) bad += report("requests were taken by nobody");
    if (q.read != q.finished + q.failed + q.rejected + q.cancelled + q.refused)
      bad += report("the server's counts do not add up");
    if (q.finished != last.delivered.load())
      bad += report("the server counts other ends than its models");
    if (last.then.files != before.files) bad += report("the server has leaked file descriptors");
    if (last.then.regions != 0) bad += report("the server has leaked mappings of clients");
    if (last.then.mappings > before.mappings + 2) bad += report("the server has leaked mappings");
    if (last.then.heap > before.heap + 256 * 1024) bad += report("the server has leaked memory");
    if (last.end.files != last.start.files) bad += report("files are left at a server's end");
    std::uint64_t connects = 0;
    for (std::uint32_t i = 0; i < lives_; ++i) connects += run_.lives[i].connects.load();
    std::printf("%10s %10s %9s %8s %8s %8s %6s %6s %8s %8s %8s %8s %6s\n", "requests", "finished",
                "cancelled", "refused", "unknown", "killed", "lost", "twice", "clients", "kills",
                "restarts", "seconds", "result");
    std::printf("%10llu %10llu %9llu %8llu %8llu %8llu %6llu %6llu %8u %8llu %8u %8.1f %6s\n",
                u(run_.how.requests), u(n.finished), u(n.cancelled), u(n.refused), u(n.unknown),
                u(n.killed + n.taken), u(n.lost), u(n.twice), run_.how.clients, u(killed_),
                server_number_, seconds, bad == 0 ? "ok" : "FAILED");
    save(run_.how.json, {{"command", "deaths"},
                         {"requests", run_.how.requests},
                         {"clients", run_.how.clients},
                         {"server_kills", server_number_},
                         {"client_kills", killed_},
                         {"kill_every_ms", run_.how.kill_every_ms},
                         {"seed", run_.how.seed},
                         {"seconds", seconds},
                         {"finished", n.finished},
                         {"cancelled", n.cancelled},
                         {"refused", n.refused},
                         {"unknown_outcome", n.unknown},
                         {"of_killed_clients", n.killed},
                         {"taken_by_killed_clients", n.taken},
                         {"lost", n.lost},
                         {"ended_twice", n.twice},
                         {"different_on_the_two_sides", n.mismatched},
                         {"delivered_by_servers", n.delivered},
                         {"connections", connects},
                         {"last_server",
                          {{"accepted", last.counts.accepted},
                           {"turned_away", last.counts.turned_away},
                           {"read", q.read},
                           {"finished", q.finished},
                           {"cancelled", q.cancelled},
                           {"refused", q.refused},
                           {"wakes", q.wakes},
                           {"at_start", last.start},
                           {"without_clients_midway", before},
                           {"without_clients_after", last.then},
                           {"at_end", last.end}}},
                         {"ok", bad == 0}});
    return bad == 0 ? 0 : 1;
  }
  static unsigned long long u(std::uint64_t n) { return n; }

  run run_;
  random_engine random_;
  std::vector<pid_t> clients_;
  std::vector<std::uint32_t> lives_of_ = [this] {
    std::vector<std::uint32_t> all(clients_.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }();
  pid_t server_ = -1;
  std::uint32_t server_number_ = 0;
  std::uint32_t lives_ = 0;
  std::uint64_t killed_ = 0;
  bool measured_ = false;
};

} // namespace

int deaths(const deaths_options& how) { return parent(how).supervise(); }

} // namespace gsched::soak
