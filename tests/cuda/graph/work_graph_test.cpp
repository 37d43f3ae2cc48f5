// SPDX-License-Identifier: Apache-2.0
//
// The host part of gsched.gpu.preemption_torture and gsched.gpu.forks: graphs of work, their text
// form, the memory that they produce, and how failing graphs are shrunk.
#include "forks/shapes.hpp"
#include "preemption_torture/case.hpp"
#include "work_graph/oracle.hpp"
#include "work_graph/random.hpp"
#include "work_graph/smaller.hpp"
#include "work_graph/text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace work_graph {
namespace {

using memory = std::pair<std::vector<std::byte>, std::vector<std::byte>>;

memory snapshot(const oracle& o) {
  return {{o.device().begin(), o.device().end()}, {o.host().begin(), o.host().end()}};
}

random_shape small(std::uint32_t nodes) {
  random_shape how;
  how.most_nodes = nodes;
  how.most_bytes = 1u << 16;
  return how;
}

graph drawn(std::uint64_t seed, const random_shape& how = {}) {
  return random_graph("g", seed, how);
}

graph parsed(const std::string& text) {
  std::istringstream in(text);
  line_reader lines(in, "text");
  return read_graph(lines);
}

/// A random order that keeps the edges.
std::vector<std::uint32_t> random_order(const graph& g, std::uint64_t seed) {
  const ordering before(g);
  random_source random(seed);
  std::vector<std::uint32_t> done;
  std::vector<std::uint32_t> rest(g.nodes.size());
  for (std::uint32_t i = 0; i < rest.size(); ++i) rest[i] = i;
  while (!rest.empty()) {
    std::vector<std::size_t> ready;
    for (std::size_t k = 0; k < rest.size(); ++k)
      if (std::none_of(rest.begin(), rest.end(),
                       [&](std::uint32_t r) { return before.precedes(r, rest[k]); }))
        ready.push_back(k);
    REQUIRE(!ready.empty());
    const std::size_t k = ready[random.below(ready.size())];
    done.push_back(rest[k]);
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return done;
}

memory after_runs(const graph& g, const std::vector<std::uint32_t>& order, int runs) {
  oracle o(g);
  for (int r = 0; r < runs; ++r)
    for (const std::uint32_t i : order) o.run(i);
  return snapshot(o);
}

memory after_runs(const graph& g, int runs) {
  oracle o(g);
  for (int r = 0; r < runs; ++r) o.run();
  return snapshot(o);
}

TEST_CASE("a seed determines the graph, and another seed gives another one") {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = to_text(drawn(seed));
    CHECK(text == to_text(drawn(seed)));
    texts.insert(text);
  }
  CHECK(texts.size() == 200);
  const preemption_torture::torture_case c = preemption_torture::random_case(17, {40, 4});
  CHECK(preemption_torture::to_text(c) ==
        preemption_torture::to_text(preemption_torture::random_case(17, {40, 4})));
}

TEST_CASE("random graphs are valid, and their text describes them") {
  std::map<kind, std::size_t> kinds;
  std::map<std::string, std::size_t> seen;
  std::size_t largest = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const graph g = drawn(seed);
    const auto wrong = flaw(g);
    INFO(wrong.value_or("none"));
    REQUIRE(!wrong);
    CHECK(to_text(parsed(to_text(g))) == to_text(g));
    largest = std::max(largest, g.nodes.size());
    seen["captured"] += g.captured;
    for (const node& n : g.nodes) {
      ++kinds[n.what];
      seen["cluster"] += n.cluster > 1;
      seen["cooperative"] += n.cooperative;
      seen["full shared"] += n.shared == 100;
      seen["takes"] += n.takes != none;
      seen["nested"] += n.parent != none && g.nodes[n.parent].parent != none;
      seen["2D"] += n.what == kind::set && n.set.height > 1;
      seen["large set"] += n.what == kind::set && n.bytes > 1u << 20;
      seen["one byte"] += n.what == kind::set && n.bytes == 1;
      seen["2 ms"] += n.what == kind::kernel && n.us > 1500;
      seen["full grid"] += n.fill >= 100;
      seen["wide join"] += n.after.size() > 16;
      for (const edge& e : n.after) {
        seen["waits"] += e.how == order::waits;
        seen["overlaps"] += e.how == order::overlaps;
        seen["at start"] += e.at_start;
      }
    }
  }
  CHECK(largest > 1500);
  CHECK(kinds.size() == kind_names.size());
  for (const auto& feature : seen) {
    INFO(feature.first);
    CHECK(feature.second > 10);
  }
  CHECK(seen.size() == 15);
}

TEST_CASE("features outside the mask do not occur") {
  random_shape how = small(200);
  how.features = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const graph g = drawn(seed, how);
    CHECK(!g.captured);
    for (const node& n : g.nodes) {
      CHECK(n.what == kind::kernel);
      CHECK(n.after.size() <= 1);
      CHECK((n.cluster == 1 && !n.cooperative && n.shared == 0 && n.priority == 0 && n.fill == 0 &&
             n.us <= 50));
    }
  }
  how.features = sets;
  bool any = false;
  for (const node& n : drawn(3, how).nodes) any = any || n.what == kind::set;
  CHECK(any);
}

TEST_CASE("every order that keeps the edges produces the same memory") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    const graph g = drawn(seed, small(40));
    const memory expected = after_runs(g, 3);
    for (std::uint64_t k = 0; k < 4; ++k)
      CHECK(after_runs(g, random_order(g, 100 * seed + k), 3) == expected);
  }
}

/// The same arithmetic, on one vector of bytes for each buffer.
class plain_run {
public:
  explicit plain_run(const graph& g) : graph_(g), owner_(owners(g)) {
    const oracle first(g);
    const layout at(g);
    for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
      const node& n = g.nodes[i];
      const auto side = on_host(n.what) ? first.host() : first.device();
      if (owner_[i] == i) buffers_[i] = bytes_of(side, at.own[i], (n.bytes + 3) / 4 * 4);
      if (n.what == kind::to_device && n.reads.empty())
        constants_[i] = bytes_of(first.host(), at.extra[i], n.bytes);
    }
  }
  void run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const node& n = graph_.nodes[i];
      if (!has_buffer(n.what)) continue;
      bytes& own = buffers_.at(owner_[i]);
      if (n.what == kind::kernel || n.what == kind::host) {
        compute(n, own);
      } else if (n.what == kind::set) {
        for (std::uint64_t row = 0; row < n.set.height; ++row)
          for (std::uint64_t b = 0; b < std::uint64_t{n.set.width} * n.set.element; ++b)
            own[row * (n.set.height > 1 ? n.set.pitch : 0) + b] =
                static_cast<std::byte>(n.set.value >> (8 * (b % n.set.element)));
      } else {
        const bytes& from =
            n.reads.empty() ? constants_.at(i) : buffers_.at(owner_[n.reads.front()]);
        std::copy_n(from.begin(), n.bytes, own.begin());
      }
    }
  }
  /// Whether the buffers equal the memory that the same runs produced.
  [[nodiscard]] bool same_as(const oracle& o) const {
    return std::all_of(buffers_.begin(), buffers_.end(), [&](const auto& b) {
      const auto side = on_host(graph_.nodes[b.first].what) ? o.host() : o.device();
      return std::ranges::equal(side.subspan(o.where().own[b.first], b.second.size()), b.second);
    });
  }

private:
  using bytes = std::vector<std::byte>;
  static bytes bytes_of(std::span<const std::byte> side, std::size_t at, std::size_t count) {
    return {side.begin() + static_cast<std::ptrdiff_t>(at),
            side.begin() + static_cast<std::ptrdiff_t>(at + count)};
  }
  static std::uint32_t word(const bytes& b, std::size_t k) {
    std::uint32_t x = 0;
    for (int i = 3; i >= 0; --i)
      x = x << 8 | std::to_integer<std::uint32_t>(b[4 * k + static_cast<std::size_t>(i)]);
    return x;
  }
  /// The words to compare: all, or the first and the last 512.
  static std::vector<std::size_t> places(std::size_t words) {
    std::vector<std::size_t> all;
    for (std::size_t k = 0; k < words; ++k)
      if (words <= 1024 || k < 512 || k >= words - 512) all.push_back(k);
    return all;
  }
  void compute(const node& n, bytes& own) {
    const std::vector<std::size_t> mine = places((n.bytes + 3) / 4);
    std::vector<std::uint32_t> x;
    for (std::size_t j = 0; j < mine.size(); ++j) {
      x.push_back(word(own, mine[j]));
      std::uint32_t salt = 0;
      for (const std::uint32_t r : n.reads) {
        const std::vector<std::size_t> theirs = places((graph_.nodes[r].bytes + 3) / 4);
        x.back() = mixed(x.back(),
                         word(buffers_.at(owner_[r]), theirs[(7 * j + 3) % theirs.size()]), ++salt);
      }
    }
    for (std::size_t j = 0; j < mine.size(); ++j) {
      const std::uint32_t with =
          n.cooperative ? x[(7 * j + 3) % x.size()] : static_cast<std::uint32_t>(j);
      const std::uint32_t y = mixed(x[j], with, n.salt + 1000 * n.cluster);
      for (std::size_t b = 0; b < 4; ++b)
        own[4 * mine[j] + b] = static_cast<std::byte>(y >> (8 * b));
    }
  }

  const graph& graph_;
  std::vector<std::uint32_t> owner_;
  std::map<std::uint32_t, bytes> buffers_;
  std::map<std::uint32_t, bytes> constants_;
};

TEST_CASE("the expected memory is that of a plain evaluation, buffer by buffer") {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    CAPTURE(seed);
    random_shape how;
    how.most_nodes = 60;
    const graph g = drawn(seed, how);
    oracle o(g);
    plain_run plain(g);
    CHECK(plain.same_as(o));
    for (int run = 0; run < 3; ++run) {
      o.run();
      plain.run();
    }
    CHECK(plain.same_as(o));
  }
}

TEST_CASE("a node that is skipped, run twice or run too early changes the memory") {
  std::size_t violations = 0;
  std::size_t copies_seen = 0;
  std::size_t copies_left_out = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const graph g = drawn(seed, small(24));
    const memory expected = after_runs(g, 3);
    std::vector<std::uint32_t> in_order(g.nodes.size());
    for (std::uint32_t i = 0; i < in_order.size(); ++i) in_order[i] = i;
    for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
      CAPTURE(i);
      const node& n = g.nodes[i];
      if (!has_buffer(n.what)) continue;
      std::vector<std::uint32_t> less = in_order;
      less.erase(less.begin() + i);
      const bool seen = after_runs(g, less, 3) != expected;
      if (n.what == kind::kernel || n.what == kind::host) {
        CHECK(seen);
        std::vector<std::uint32_t> twice = in_order;
        twice.insert(twice.begin() + i, i);
        CHECK(after_runs(g, twice, 3) != expected);
      } else {
        ++copies_left_out;
        copies_seen += seen;
      }
      if (n.what != kind::kernel && n.what != kind::host) continue;
      for (const std::uint32_t r : n.reads) { // before its inputs
        // Its input may be equal in each run: a set, or a copy of constant memory.
        if (g.nodes[r].what != kind::kernel && g.nodes[r].what != kind::host) continue;
        std::vector<std::uint32_t> early = less;
        early.insert(std::find(early.begin(), early.end(), r), i);
        CHECK(after_runs(g, early, 3) != expected);
        ++violations;
      }
    }
  }
  CHECK(violations > 100);
  CHECK(copies_seen * 10 > copies_left_out * 9);
}

TEST_CASE("violations of the rules of graphs are detected") {
  const graph good = parsed("graph g seed=1 nodes=8\n"
                            "0 kernel bytes=64 us=5\n"
                            "1 set bytes=64 width=64\n"
                            "2 kernel bytes=64 us=5 after=0,1 reads=0 takes=1\n"
                            "3 to_host bytes=64 after=2 reads=2\n"
                            "4 child after=3\n"
                            "5 host bytes=64 in=4 reads=3\n"
                            "6 to_device bytes=64 in=4 after=5 reads=5\n"
                            "7 kernel bytes=64 us=5 after=4 reads=0,6\n");
  CHECK(!flaw(good));
  const auto breaks = [&](const std::string& text, const auto& change) {
    graph g = good;
    change(g.nodes);
    const auto wrong = flaw(g);
    INFO(text);
    REQUIRE(wrong);
    INFO(*wrong);
    CHECK(wrong->find(text) != std::string::npos);
  };
  using nodes = std::vector<node>;
  breaks("no operations", [](nodes& n) { n.clear(); });
  breaks("no operations", [](nodes& n) {
    n.resize(1);
    n[0].what = kind::empty;
  });
  breaks("node 6: in=1", [](nodes& n) { n[6].parent = 1; });
  breaks("without members", [](nodes& n) { n.resize(5); });
  breaks("node 2: after=7", [](nodes& n) { n[2].after[0].from = 7; });
  breaks("node 7: after=5", [](nodes& n) { n[7].after[0].from = 5; }); // another level
  breaks("two edges", [](nodes& n) { n[2].after[1].from = 0; });
  breaks("node 2: reads=0", [](nodes& n) { n[2].after.erase(n[2].after.begin()); });
  breaks("node 2: takes=1", [](nodes& n) { n[2].after.pop_back(); });
  breaks("node 3: 0 reads", [](nodes& n) { n[3].reads.clear(); });
  breaks("node 5: reads=0, expected one on the host", [](nodes& n) { n[5].reads = {0}; });
  breaks("expected a buffer of 65 bytes", [](nodes& n) { n[3].bytes = 65; });
  breaks("node 7: takes=1, expected one that is taken once", [](nodes& n) { n[7].takes = 1; });
  breaks("node 7: takes=0, expected one that it does not read", [](nodes& n) { n[7].takes = 0; });
  breaks("before node 2 takes it", [](nodes& n) { n[7].reads = {1}; });
  breaks("programmatic", [](nodes& n) { n[3].after[0].how = order::waits; });
  breaks("whole words", [](nodes& n) { n[0].bytes = 63; });
  breaks("does not lie within", [](nodes& n) { n[1].set.width = 65; });
  breaks("does not lie within", [](nodes& n) { n[1].set = {4, 1, 2, 3, 6}; });
  breaks("shared", [](nodes& n) { n[0].shared = 101; });
  breaks("cluster", [](nodes& n) { n[0].cluster = 3; });
  breaks("multiple of the cluster", [](nodes& n) { n[0].cluster = 2; });
  breaks("cooperative", [](nodes& n) { n[0].cooperative = true, n[0].fill = 200; });
  graph captured = good;
  captured.captured = true;
  CHECK(flaw(captured)->find("stream capture") != std::string::npos);
  graph overlapping = parsed("graph g seed=1 nodes=2\n0 kernel bytes=64 us=5\n"
                             "1 kernel bytes=64 us=5 after=0o\n");
  overlapping.nodes[1].reads = {0};
  CHECK(flaw(overlapping)); // it is not ordered after the node that it overlaps
  overlapping.nodes[1].after[0].how = order::waits;
  CHECK(!flaw(overlapping));
}

TEST_CASE("each field of a node has its place in the text") {
  const std::string text =
      "graph g seed=9 nodes=4\n"
      "0 kernel bytes=64 salt=7 us=2.5 blocks=8 fill=50 threads=64 cluster=4 shared=30 priority=2 "
      "triggers\n"
      "1 kernel bytes=64 us=5 fill=75 cooperative\n"
      "2 set bytes=64 element=2 value=300 width=4 height=3 pitch=16 after=0,1 takes=1\n"
      "3 kernel bytes=64 us=5 after=0ws,2 reads=0,2\n";
  const graph g = parsed(text);
  CHECK(to_text(g) == text);
  CHECK((g.seed == 9 && g.nodes[0].us == 2.5 && g.nodes[0].blocks == 8 && g.nodes[0].fill == 50));
  CHECK((g.nodes[0].threads == 64 && g.nodes[0].cluster == 4 && g.nodes[0].shared == 30));
  CHECK((g.nodes[0].priority == 2 && g.nodes[0].triggers && g.nodes[1].cooperative));
  CHECK((g.nodes[2].set.element == 2 && g.nodes[2].set.value == 300 && g.nodes[2].set.width == 4));
  CHECK((g.nodes[2].set.height == 3 && g.nodes[2].set.pitch == 16 && g.nodes[2].takes == 1));
  CHECK((g.nodes[3].after[0].how == order::waits && g.nodes[3].after[0].at_start));
  CHECK((g.nodes[3].after[1].how == order::full && !g.nodes[3].after[1].at_start));
  CHECK(g.nodes[3].reads == std::vector<std::uint32_t>{0, 2});
  CHECK(parsed("graph g captured nodes=2\n0 kernel\n1 kernel after=0o\n").nodes[1].after[0].how ==
        order::overlaps);
}

TEST_CASE("text that is no graph is refused in one line with its position") {
  const auto refused = [](const std::string& text, const std::string& expected) {
    try {
      static_cast<void>(parsed(text));
    } catch (const gsched::error& e) {
      const std::string line = e.what();
      INFO(line);
      CHECK(line.find(expected) != std::string::npos);
      CHECK(line.find('\n') == std::string::npos);
      return;
    }
    FAIL_CHECK("taken: " << text);
  };
  refused("", "expected \"graph NAME\"");
  refused("graph g nodes=1\n", "text:1: expected 1 nodes");
  refused("graph g nodes=1\n1 kernel\n", "text:2: expected the line of node 0");
  refused("graph g nodes=1\n0 square\n", "\"square\", expected a kind of node");
  refused("graph g nodes=1\n0 kernel us=fast\n", "us=fast, expected a number");
  refused("graph g nodes=1\n0 kernel speed=1\n", "\"speed\", expected a known key");
  refused("graph g nodes=1\n0 kernel after=0x\n", "after=0x");
  refused("graph g nodes=1\n0 copy\n", "0 reads, expected 1 to 1");
}

TEST_CASE("shrunk graphs are valid") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_shape how;
    how.most_nodes = seed % 10 == 0 ? 400 : 60;
    const graph g = drawn(seed, how);
    std::vector<graph> all = parts_of(g, 60);
    for (const graph& a : all) CHECK(a.nodes.size() < g.nodes.size());
    CHECK((all.size() > 1 || g.nodes.size() < 2));
    CHECK(all.size() <= 60);
    for (graph& a : without_features(g)) {
      CHECK(a.nodes.size() == g.nodes.size());
      all.push_back(std::move(a));
    }
    random_source random(seed);
    for (int k = 0; k < 10; ++k) {
      std::vector<bool> keeps(g.nodes.size());
      for (std::size_t i = 0; i < keeps.size(); ++i) keeps[i] = !random.one_in(3);
      keeps[0] = true;
      all.push_back(kept(g, keeps));
    }
    std::erase_if(all, [](const graph& a) { // a subgraph may have no operations
      return std::none_of(a.nodes.begin(), a.nodes.end(),
                          [](const node& n) { return is_operation(n.what); });
    });
    for (const graph& a : all) {
      const auto wrong = flaw(a);
      if (wrong) INFO(to_text(g), "became\n", to_text(a), *wrong);
      REQUIRE(!wrong);
      CHECK(to_text(parsed(to_text(a))) == to_text(a));
    }
  }
}

TEST_CASE("shrinking keeps the order of nodes") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const graph g = drawn(seed, small(40));
    random_source random(seed);
    std::vector<bool> keeps(g.nodes.size());
    for (std::size_t i = 0; i < keeps.size(); ++i) keeps[i] = !random.one_in(3);
    const graph less = kept(g, keeps);
    std::vector<std::uint32_t> old; // by number in `less`
    std::vector<bool> stays(g.nodes.size());
    for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
      stays[i] = keeps[i] && (g.nodes[i].parent == none || stays[g.nodes[i].parent]);
      if (stays[i]) old.push_back(i);
    }
    REQUIRE(old.size() == less.nodes.size());
    const ordering before(g);
    const ordering now(less);
    const graph flat = without_children(g);
    const ordering flat_now(flat);
    for (std::uint32_t a = 0; a < old.size(); ++a)
      for (std::uint32_t b = 0; b < old.size(); ++b)
        CHECK(before.precedes(old[a], old[b]) == now.precedes(a, b));
    for (std::uint32_t a = 0; a < g.nodes.size(); ++a)
      for (std::uint32_t b = 0; b < g.nodes.size(); ++b)
        if (before.precedes(a, b)) CHECK(flat_now.precedes(a, b));
  }
}

} // namespace
} // namespace work_graph

namespace forks {
namespace {

TEST_CASE("the graphs that fork are valid, and their results show the order of kernels") {
  for (const work_graph::graph& g : all_shapes()) {
    INFO(g.name);
    const auto wrong = work_graph::flaw(g);
    INFO(wrong.value_or("none"));
    REQUIRE(!wrong);
    CHECK(std::any_of(g.nodes.begin(), g.nodes.end(), [](const work_graph::node& n) {
            return n.after.size() > 1;
          }) == (g.name != "chain"));
    work_graph::oracle right(g);
    right.run();
    // The last node reads, directly or not, the output of each kernel.
    for (std::uint32_t i = 0; i + 1 < g.nodes.size(); ++i) {
      work_graph::oracle without(g);
      for (std::uint32_t k = 0; k < g.nodes.size(); ++k)
        if (k != i) without.run(k);
      const std::size_t last = right.where().own[g.nodes.size() - 1];
      CHECK(!std::equal(right.device().begin() + static_cast<std::ptrdiff_t>(last),
                        right.device().end(),
                        without.device().begin() + static_cast<std::ptrdiff_t>(last)));
    }
  }
}

} // namespace
} // namespace forks

namespace preemption_torture {
namespace {

TEST_CASE("a failing case shrinks to the cause of its failure") {
  // As if the device failed on a small set followed by a kernel, on two or more lanes.
  const auto fails = [](const torture_case& c) {
    if (c.lanes < 2) return false;
    for (const work_graph::node& n : c.best_effort.nodes)
      for (const work_graph::edge& e : n.after) {
        const work_graph::node& from = c.best_effort.nodes[e.from];
        if (from.what == work_graph::kind::set && from.bytes < 1000 &&
            n.what == work_graph::kind::kernel)
          return true;
      }
    return false;
  };
  std::size_t tried = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    torture_case c = random_case(seed, {300, 8, work_graph::all_features});
    if (!fails(c)) continue;
    ++tried;
    CAPTURE(seed);
    std::size_t steps = 0;
    for (bool found = true; found; ++steps) {
      REQUIRE(steps < 200);
      found = false;
      for (torture_case& m : smaller(c)) {
        const auto wrong = work_graph::flaw(m.best_effort);
        REQUIRE(!wrong);
        REQUIRE(!work_graph::flaw(m.urgent));
        if (!fails(m)) continue;
        c = std::move(m);
        found = true;
        break;
      }
    }
    CHECK(c.best_effort.nodes.size() == 2);
    CHECK(c.urgent.nodes.size() == 1);
    CHECK(c.lanes == 2);
    CHECK(c.levels == 1);
    CHECK(c.quantum_us == 0);
    CHECK(!c.best_effort.captured);
  }
  CHECK(tried > 10);
}

TEST_CASE("a case that is written can be read again") {
  std::string text;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    text += "# a comment\n\n" + to_text(random_case(seed, {50, 8, work_graph::all_features}));
  std::istringstream in(text);
  work_graph::line_reader lines(in, "cases");
  std::uint64_t count = 0;
  while (const auto c = read_case(lines)) {
    CHECK(to_text(*c) == to_text(random_case(count, {50, 8, work_graph::all_features})));
    ++count;
  }
  CHECK(count == 20);
  std::istringstream wrong("case seed=1 lanes=0\n");
  work_graph::line_reader line(wrong, "cases");
  CHECK_THROWS_WITH_AS(static_cast<void>(read_case(line)), "cases:1: lanes, expected 1 to 32",
                       gsched::error);
}

} // namespace
} // namespace preemption_torture
