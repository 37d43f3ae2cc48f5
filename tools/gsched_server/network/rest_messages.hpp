// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/requests/answer.hpp"
#include "gsched_server/requests/service.hpp"
#include "gsched_server/requests/terms.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gsched_server {

/// The body of an inference over REST: JSON, and after it the bytes of tensors that are not in the
/// JSON ("binary_data_size"). It refers to the body where it can.
class rest_request {
public:
  /// `json_bytes`: of the body, as the header Inference-Header-Content-Length says; unset: all.
  /// Errors   refusal (invalid), one line.
  rest_request(std::string_view body, std::optional<std::size_t> json_bytes,
               const model_plan& model, terms& with);
  rest_request(const rest_request&) = delete;
  rest_request& operator=(const rest_request&) = delete;

  std::vector<std::span<const std::byte>> inputs;
  std::string id;
  struct asked_output {
    std::size_t of = 0; ///< the model's
    bool binary = false;
  };
  std::vector<asked_output> outputs;

private:
  std::deque<std::vector<std::int64_t>> shapes_;
  std::deque<std::vector<std::byte>> converted_;
};

/// The response: JSON, and the bytes after it.
struct rest_response {
  std::string body;
  std::optional<std::size_t> json_bytes; ///< set where bytes follow
};
[[nodiscard]] rest_response response_of(const rest_request& request, const served& m,
                                        const answer& a);

[[nodiscard]] std::string error_json(std::string_view line);
[[nodiscard]] std::string server_json();
[[nodiscard]] std::string model_json(const served& m);
/// `body` is empty or the request of a repository's index.
/// Errors   refusal (invalid)
[[nodiscard]] std::string index_json(const service& of, std::string_view body);

} // namespace gsched_server
