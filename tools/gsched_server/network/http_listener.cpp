// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/http_listener.hpp"

#include <unistd.h>

#include <string>
#include <utility>

namespace gsched_server {

http_listener::http_listener(const address& at, std::uint32_t threads, serve_connection serve,
                             std::string no_files_left)
    : serve_(std::move(serve)), listener_(at) {
  for (std::uint32_t i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  listener_.start(
      0, [this](int socket) { take(socket); }, std::move(no_files_left));
}

http_listener::~http_listener() { stop(); }

void http_listener::stop() {
  listener_.stop();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  has_come_.notify_all();
  for (std::thread& each : workers_) each.join();
  workers_.clear();
}

void http_listener::take(int socket) {
  {
    const std::lock_guard lock(mutex_);
    accepted_.push_back(socket);
    waiting_.store(accepted_.size(), std::memory_order_relaxed);
  }
  has_come_.notify_one();
}

void http_listener::work() {
  for (;;) {
    int s = -1;
    {
      std::unique_lock lock(mutex_);
      free_.fetch_add(1, std::memory_order_relaxed);
      has_come_.wait(lock, [&] { return ends_ || !accepted_.empty(); });
      free_.fetch_sub(1, std::memory_order_relaxed);
      if (accepted_.empty()) return;
      s = accepted_.front();
      accepted_.pop_front();
      waiting_.store(accepted_.size(), std::memory_order_relaxed);
    }
    serve_(s);
    ::close(s);
  }
}

} // namespace gsched_server
