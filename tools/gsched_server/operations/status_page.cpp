// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/status_page.hpp"

#include "gsched_server/operations/request_id.hpp"

#include <status_page_html.hpp> // made from operations/status_page.html

namespace gsched_server {

namespace {

void replace_all(std::string& in, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = in.find(what, at)) != in.npos; at += by.size())
    in.replace(at, what.size(), by);
}

} // namespace

status_page make_status_page(std::string_view snapshot_json) {
  // No text of the snapshot can end the element that it is in.
  std::string first(snapshot_json);
  replace_all(first, "<", "\\u003c");
  const std::string nonce = make_request_id();
  status_page p;
  p.html = status_page_html;
  replace_all(p.html, "@NONCE@", nonce);
  replace_all(p.html, "@FIRST@", first);
  p.content_security_policy =
      "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
      "'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  return p;
}

} // namespace gsched_server
