// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/server.hpp>

#include <nlohmann/json.hpp>

#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::soak {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// An array in memory that forked processes share, and that survives each of them. T's destructor
/// is never called.
template <class T>
class shared_array {
public:
  explicit shared_array(std::size_t n) : size_(n) {
    void* const m = ::mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) throw std::runtime_error("mmap: no shared memory");
    at_ = static_cast<T*>(m);
    for (std::size_t i = 0; i < n; ++i) ::new (at_ + i) T();
  }
  shared_array(const shared_array&) = delete;
  shared_array& operator=(const shared_array&) = delete;
  ~shared_array() { ::munmap(at_, size_ * sizeof(T)); }

  [[nodiscard]] T& operator[](std::size_t i) const noexcept { return at_[i]; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T* begin() const noexcept { return at_; }
  [[nodiscard]] T* end() const noexcept { return at_ + size_; }

private:
  std::size_t size_;
  T* at_;
};

/// Forks a child that calls f() and ends, with 0, or with 3 and a line on stderr if f throws. It is
/// killed should its parent die.
template <class F>
[[nodiscard]] pid_t spawn(F f) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork: no more processes");
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(3);
  int rc = 0;
  try {
    f();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "process %d: %s\n", static_cast<int>(::getpid()), e.what());
    rc = 3;
  }
  ::_exit(rc);
}

/// What it ended with: its exit status, or minus the signal.
inline int join(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
inline void kill_and_join(pid_t child) {
  ::kill(child, SIGKILL);
  static_cast<void>(join(child));
}
[[nodiscard]] inline bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

template <class F>
bool wait_until(F holds, std::chrono::milliseconds most) {
  const auto until = clock::now() + most;
  while (!holds()) {
    if (clock::now() >= until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// What a process holds of the system.
struct holdings {
  std::int64_t files = 0;
  std::int64_t mappings = 0;
  std::int64_t regions = 0; ///< mappings of clients' memory
  std::int64_t heap = 0;    ///< bytes in use
};

[[nodiscard]] inline holdings count_holdings() {
  holdings out;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    ++out.files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line); ++out.mappings)
    if (line.find("memfd:gsched-channel") != std::string::npos) ++out.regions;
#if !defined(__SANITIZE_ADDRESS__)
  const struct mallinfo2 m = ::mallinfo2();
  out.heap = static_cast<std::int64_t>(m.uordblks + m.hblkhd);
#endif
  return out;
}
inline void to_json(nlohmann::json& j, const holdings& h) {
  j = {{"files", h.files}, {"mappings", h.mappings}, {"regions", h.regions}, {"heap", h.heap}};
}

/// A program of equal kernels.
struct kernels {
  const char* name;
  std::size_t count;
  duration each;
  std::uint32_t blocks; ///< of each kernel

  [[nodiscard]] program make() const {
    operation k;
    k.launch = {.grid = {blocks}, .block = {256}, .registers_per_thread = 32};
    k.expected = each;
    k.kernel = kernel_id{0};
    return program(name, std::vector<operation>(count, k));
  }
};

/// A model of so many instances that calls f(request) once for each request that has finished.
template <class F>
class calling_model final : public served_model {
public:
  calling_model(const kernels& all, std::size_t at_once, F f)
      : served_model(all.name, {}), f_(std::move(f)) {
    for (std::size_t i = 0; i < at_once; ++i) {
      const auto one = std::make_shared<program>(all.make());
      instances.push_back({one.get(), one});
    }
  }
  void deliver(request_record& r) noexcept override { f_(r); }

private:
  F f_;
};

template <class F>
model_id add_calling(server& s, const kernels& all, std::size_t at_once, F f) {
  return s.add_model({}, [&] { return std::make_unique<calling_model<F>>(all, at_once, f); });
}

/// A name in the abstract namespace, of this process and its children alone.
[[nodiscard]] inline std::string socket_name() {
  static int n = 0;
  return "@gsched-soak-" + std::to_string(::getpid()) + "-" + std::to_string(n++);
}

inline void save(const std::string& path, const nlohmann::json& what) {
  if (path.empty()) return;
  std::ofstream out(path);
  out << what.dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error(path + ": cannot be written");
}

} // namespace gsched::soak
