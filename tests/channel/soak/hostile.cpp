// SPDX-License-Identifier: Apache-2.0
//
// A client that writes mutated messages wherever it can, as fast as it can, beside two that are
// served. Turns of three kinds take each other's place: the two alone, the two beside a process
// that only uses a core, and the two beside the hostile client.
#include "commands.hpp"
#include "processes.hpp"

#include <gsched/channel.hpp>
#include <gsched/core/error.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/srpt.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/workload/random.hpp>

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
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
#include <utility>
#include <vector>

namespace gsched::soak {

namespace {

enum turn : std::uint32_t { alone, busy, attacked, turns };
constexpr std::array<const char*, turns> turn_names{"alone", "busy", "hostile"};
constexpr std::size_t good_clients = 2;
constexpr std::size_t most_samples = 1 << 18; ///< of each client and turn
constexpr std::size_t served_bytes = 256;

struct stage {
  std::atomic<std::uint32_t> now{turns}; ///< none yet
  std::atomic<std::uint32_t> ready{0};
  std::atomic<std::uint32_t> quit{0};
  std::atomic<int> attacker{0};
  std::atomic<std::uint64_t> mutated{0}, packets{0}, connections{0};
  std::atomic<std::uint64_t> wrong{0};
  channel::host_statistics counts{};
  holdings before{}, after{};
  std::atomic<std::uint32_t> measured{0};
};
struct samples {
  std::array<std::array<std::atomic<std::uint32_t>, turns>, good_clients> count{};
  std::array<std::array<std::array<float, most_samples>, turns>, good_clients> us;
};

void serve_stage(const std::string& socket, stage& all, double connect_rate) {
  server s([] { return sim::paced_device(sim::h200()); },
           [] { return deficit_over<srpt>(std::chrono::milliseconds{1}); });
  const auto fill = [](request_record& r) {
    std::fill(r.payload.begin(), r.payload.end(), r.payload.empty() ? std::byte{0} : r.payload[0]);
  };
  const model_id served =
      add_calling(s, kernels{"served", 5, std::chrono::microseconds{20}, 8}, 4, fill);
  channel::host_options how;
  how.socket = socket;
  how.connect_rate = connect_rate;
  how.limits = [&](const channel::peer& of) {
    channel::client_limits l;
    if (of.pid != all.attacker.load()) return l;
    l.weight = 0.1;
    l.in_flight = 8;
    l.rate = 500; // what is right by accident is served
    l.region_bytes = 1 << 20;
    return l;
  };
  std::optional<channel::host> h(std::in_place, s, how);
  h->offer(served, "served", served_bytes, served_bytes);
  all.before = count_holdings();
  all.ready.store(1);
  while (all.quit.load() == 0) std::this_thread::sleep_for(5ms);
  static_cast<void>(wait_until([&] { return h->statistics().connected == 0; }, 20s));
  all.counts = h->statistics();
  all.after = count_holdings();
  all.measured.store(1);
}

void be_served(const std::string& socket, stage& all, samples& out, std::size_t me) {
  channel::client_options how;
  how.slots = 4;
  how.arena_bytes = 4096;
  channel::client c(socket, how);
  const channel::model_entry m = c.model("served");
  const std::span<std::byte> io = c.allocate(m.payload_bytes());
  random_engine random(me + 1);
  all.ready.fetch_add(1);
  while (all.quit.load() == 0) {
    const auto value = static_cast<std::byte>(random());
    std::fill(io.begin(), io.end(), std::byte(~std::to_integer<unsigned>(value)));
    io[0] = value;
    const std::uint32_t at = all.now.load();
    const auto begin = clock::now();
    c.predict(m, io);
    const channel::reply r = c.read_result();
    const auto took = clock::now() - begin;
    if (r.how != channel::outcome::finished ||
        std::any_of(io.begin(), io.end(), [&](std::byte b) { return b != value; }))
      all.wrong.fetch_add(1);
    if (at < turns && all.now.load() == at)
      if (const std::uint32_t n = out.count[me][at].load(); n < most_samples) {
        out.us[me][at][n] = std::chrono::duration<float, std::micro>(took).count();
        out.count[me][at].store(n + 1);
      }
    std::this_thread::sleep_for(std::chrono::microseconds(200 + random() % 400));
  }
}

class attacker {
public:
  attacker(std::string socket, stage& all, const hostile_options& how)
      : socket_(std::move(socket)), all_(all), how_(how), random_(how.seed) {}

  void attack() {
    all_.attacker.store(::getpid());
    all_.ready.fetch_add(1);
    while (all_.quit.load() == 0) {
      if (all_.now.load() == busy) {
        for (int n = 0; n < 1000; ++n) random_();
      } else if (all_.now.load() != attacked) {
        std::this_thread::sleep_for(1ms);
      } else {
        try {
          how_.reconnects ? come_and_go() : connect();
        } catch (const error&) { // refused, as it asked for
        }
      }
    }
  }

private:
  using message = channel::detail::message;

  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }
  void mutate(void* at, std::size_t bytes) {
    static constexpr std::array<std::uint64_t, 8> odd{
        0, 1, 63, 64, ~std::uint64_t{0}, std::uint64_t{1} << 63, 0xffffffff, 0x80000000};
    auto* const to = static_cast<unsigned char*>(at);
    for (std::uint64_t n = 1 + below(4); n > 0; --n) {
      const std::uint64_t value = below(2) == 0 ? odd[below(odd.size())] : random_();
      const std::size_t width = std::size_t{1} << below(4);
      if (width <= bytes) std::memcpy(to + below(bytes - width + 1), &value, width);
    }
  }

  void come_and_go() {
    all_.connections.fetch_add(1);
    all_.mutated.fetch_add(1);
    channel::client_options few;
    few.slots = 2;
    few.arena_bytes = 64;
    const channel::client c(socket_, few);
  }
  /// One connection, until the server ends it or the attacker gives it up.
  void connect() {
    all_.connections.fetch_add(1);
    const std::uint32_t slots = 2u << below(6);
    const std::uint64_t arena = 64 * (1 + below(200));
    channel::region memory = channel::region::make(slots, arena);
    const channel::detail::file_descriptor socket = channel::detail::connect_to(socket_);
    std::array<std::byte, 64> header;
    auto* const start = memory.arena().data() - memory.shape().arena_at();
    std::memcpy(header.data(), start, header.size());
    if (below(4) == 0) mutate(start, header.size());
    message hello;
    hello.kind = channel::detail::message_kind::hello;
    if (below(8) == 0) mutate(&hello, sizeof hello);
    if (!channel::detail::try_send(socket.get(), hello,
                                   below(16) == 0 ? socket.get() : memory.file()))
      return;
    channel::slot_writer<channel::request_slot> ring(memory.requests(), slots);
    channel::slot_reader<channel::reply_slot> replies(memory.replies(), slots);
    std::uint64_t quiet = 0; ///< since the last reply
    message answer;
    const std::uint64_t most = 1 + below(2 * how_.per_connection);
    for (std::uint64_t n = 0; n < most && all_.now.load() == attacked; ++n) {
      all_.mutated.fetch_add(1);
      if (channel::reply_slot got; replies.try_read(got)) quiet = 0;
      if (++quiet > how_.per_connection / 2 + 1)
        return; // it has broken a ring, and the server waits for a turn that never comes
      switch (below(1000) < 995 ? below(4) : 3 + below(7)) {
      case 0:
      case 1:
      case 2: { // a request that is nearly right
        if (ring.written() - replies.read() >= slots && below(4096) != 0) break;
        channel::request_slot r;
        r.payload = {64 * below(arena / 64), 2 * served_bytes};
        r.id = n;
        mutate(&r, sizeof r);
        ring.write(r);
        break;
      }
      case 3: // what the server reads at any time
        if (below(2) == 0)
          mutate(&memory.words(), sizeof(channel::client_words));
        else
          mutate(memory.cancels(), slots * sizeof(std::uint32_t));
        break;
      case 4: mutate(&memory.requests()[below(slots)], sizeof(channel::request_slot)); break;
      case 5: mutate(memory.replies(), slots * sizeof(channel::reply_slot)); break;
      case 6:
      case 7:
      case 8: mutate(memory.arena().data(), memory.arena().size()); break;
      case 9:
        if (below(4) == 0)
          mutate(start, header.size());
        else
          mutate(memory.text(0).data(), slots * channel::layout::text_bytes);
        break;
      }
      if (how_.packet_every == 0 || below(how_.packet_every) != 0) continue;
      // A packet: most are mere wake-ups, since others end the connection.
      all_.packets.fetch_add(1);
      std::array<char, 600> bytes{};
      message m;
      if (below(32) == 0) mutate(&m, sizeof m);
      if (below(16) == 0) m.kind = channel::detail::message_kind::list;
      std::memcpy(bytes.data(), &m, sizeof m);
      const std::size_t size = below(64) == 0 ? below(bytes.size()) : sizeof m;
      if (::send(socket.get(), bytes.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
          errno != EAGAIN)
        return;
      // Sometimes it does not read what it is sent.
      while (below(8) != 0)
        if (const auto got = channel::detail::try_receive(socket.get(), answer);
            got == channel::detail::received::gone)
          return;
        else if (got == channel::detail::received::nothing)
          break;
    }
  }

  std::string socket_;
  stage& all_;
  hostile_options how_;
  random_engine random_;
};

struct summary {
  std::size_t n = 0;
  double mean = 0, p50 = 0, p99 = 0;
};
summary summarise(const samples& from, turn of) {
  std::vector<float> us;
  for (std::size_t c = 0; c < good_clients; ++c)
    us.insert(us.end(), from.us[c][of].begin(), from.us[c][of].begin() + from.count[c][of].load());
  summary out{us.size()};
  if (us.empty()) return out;
  std::sort(us.begin(), us.end());
  for (const float x : us) out.mean += double(x) / double(us.size());
  out.p50 = us[us.size() / 2];
  out.p99 = us[us.size() * 99 / 100];
  return out;
}

} // namespace

int hostile(const hostile_options& how) {
  shared_array<stage> state(1);
  shared_array<samples> measured(1);
  stage& all = state[0];
  const std::string socket = socket_name();
  const pid_t server = spawn([&] { serve_stage(socket, all, how.connect_rate); });
  bool right = wait_until([&] { return all.ready.load() != 0; }, 20s);
  std::vector<pid_t> others;
  for (std::size_t c = 0; c < good_clients; ++c)
    others.push_back(spawn([&, c] { be_served(socket, all, measured[0], c); }));
  others.push_back(spawn([&] {
    const sched_param least{};
    if (how.idle && ::sched_setscheduler(0, SCHED_IDLE, &least) != 0)
      throw std::runtime_error("SCHED_IDLE is not permitted");
    attacker(socket, all, how).attack();
  }));
  right = right && wait_until([&] { return all.ready.load() == 2 + good_clients; }, 20s);
  const auto begin = clock::now();
  for (std::uint64_t before = 1; right && all.mutated.load() < how.messages;) {
    right = before != all.mutated.load() && ::waitpid(server, nullptr, WNOHANG) == 0;
    before = all.mutated.load();
    for (const turn t : {alone, busy, attacked}) {
      all.now.store(t);
      std::this_thread::sleep_for(std::chrono::duration<double>(how.seconds));
    }
  }
  all.now.store(turns);
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  all.quit.store(1);
  for (const pid_t p : others) right = join(p) == 0 && right;
  const int rc = join(server);
  right = right && rc == 0 && all.measured.load() != 0 && all.wrong.load() == 0 && !has_children();
  const channel::detail::connection_counts& q = all.counts.requests;
  right = right && all.counts.connected == 0 &&
          q.read == q.finished + q.failed + q.rejected + q.cancelled + q.refused &&
          all.after.files == all.before.files && all.after.regions == 0;
  std::array<summary, turns> of;
  std::printf("%8s %9s %9s %9s %9s\n", "turn", "requests", "mean_us", "p50_us", "p99_us");
  nlohmann::json rows = nlohmann::json::array();
  for (const turn t : {alone, busy, attacked}) {
    of[t] = summarise(measured[0], t);
    std::printf("%8s %9zu %9.1f %9.1f %9.1f\n", turn_names[t], of[t].n, of[t].mean, of[t].p50,
                of[t].p99);
    rows.push_back({{"turn", turn_names[t]},
                    {"requests", of[t].n},
                    {"mean_us", of[t].mean},
                    {"p50_us", of[t].p50},
                    {"p99_us", of[t].p99}});
  }
  const double ratio = of[attacked].p99 / of[busy].p99;
  if (how.most_ratio > 0) right = right && ratio <= how.most_ratio;
  std::printf("%llu mutated messages, %llu packets, %llu connections; %llu requests read, %llu "
              "refused; p99 ratio %.2f to busy, %.2f to alone: %s\n",
              static_cast<unsigned long long>(all.mutated.load()),
              static_cast<unsigned long long>(all.packets.load()),
              static_cast<unsigned long long>(all.connections.load()),
              static_cast<unsigned long long>(q.read), static_cast<unsigned long long>(q.refused),
              ratio, of[attacked].p99 / of[alone].p99, right ? "ok" : "FAILED");
  save(how.json, {{"command", "hostile"},
                  {"seed", how.seed},
                  {"seconds", seconds},
                  {"turn_seconds", how.seconds},
                  {"per_connection", how.per_connection},
                  {"packet_every", how.packet_every},
                  {"idle", how.idle},
                  {"reconnects", how.reconnects},
                  {"connect_rate", how.connect_rate},
                  {"mutated_messages", all.mutated.load()},
                  {"packets", all.packets.load()},
                  {"connections", all.connections.load()},
                  {"accepted", all.counts.accepted},
                  {"turned_away", all.counts.turned_away},
                  {"read", q.read},
                  {"finished", q.finished},
                  {"cancelled", q.cancelled},
                  {"refused", q.refused},
                  {"wrong", all.wrong.load()},
                  {"turns", rows},
                  {"server_before", all.before},
                  {"server_after", all.after},
                  {"server_status", rc},
                  {"ok", right}});
  return right ? 0 : 1;
}

} // namespace gsched::soak
