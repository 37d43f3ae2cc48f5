// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/tls.hpp"

#include <gsched/core/error.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <fcntl.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>

namespace gsched_server {

namespace {

[[noreturn]] void refuse_file(const std::string& file, const char* expected) {
  const char* const why = ERR_reason_error_string(ERR_peek_last_error());
  std::string line = file + ": " + (why != nullptr ? why : "cannot be read");
  ERR_clear_error();
  throw gsched::error(gsched::errc::io, line + ", expected " + expected);
}

/// Instead of a question at the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

} // namespace

void tls_context::freed::operator()(ssl_ctx_st* c) const noexcept { SSL_CTX_free(c); }
void tls_session::freed::operator()(ssl_st* s) const noexcept { SSL_free(s); }

tls_context::tls_context(const tls_files& files) : context_(SSL_CTX_new(TLS_server_method())) {
  ssl_ctx_st* const c = context_.get();
  if (c == nullptr) throw std::bad_alloc();
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_default_passwd_cb(c, no_passphrase);
  constexpr unsigned char id[] = "gsched_server";
  SSL_CTX_set_session_id_context(c, id, sizeof id - 1);
  if (SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) != 1)
    refuse_file(files.certificate, "a certificate in PEM");
  if (SSL_CTX_use_PrivateKey_file(c, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    refuse_file(files.key, "the certificate's private key in PEM, without a passphrase");
  if (SSL_CTX_check_private_key(c) != 1)
    refuse_file(files.key, "the private key of the certificate");
  if (files.authority.empty()) return;
  if (SSL_CTX_load_verify_locations(c, files.authority.c_str(), nullptr) != 1)
    refuse_file(files.authority, "certificates in PEM, which clients' are signed with");
  SSL_CTX_set_client_CA_list(c, SSL_load_client_CA_file(files.authority.c_str()));
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

tls_session::tls_session(const tls_context& of, int socket) : session_(SSL_new(of.context_.get())) {
  if (session_ == nullptr || SSL_set_fd(session_.get(), socket) != 1) throw std::bad_alloc();
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
  SSL_set_accept_state(session_.get());
}

tls_session::~tls_session() {
  if (!failed_ && SSL_is_init_finished(session_.get()) == 1) SSL_shutdown(session_.get());
  ERR_clear_error();
}

tls_session::step tls_session::step_of(int result) noexcept {
  if (result > 0) return step::done;
  const int why = SSL_get_error(session_.get(), result);
  ERR_clear_error();
  if (why == SSL_ERROR_WANT_READ) return step::wait_read;
  if (why == SSL_ERROR_WANT_WRITE) return step::wait_write;
  failed_ |= why != SSL_ERROR_ZERO_RETURN; // after such an error it must not be shut down
  return step::over;
}

tls_session::step tls_session::handshake() noexcept {
  ERR_clear_error();
  return step_of(SSL_do_handshake(session_.get()));
}

tls_session::step tls_session::read(char* to, std::size_t size, std::size_t& n) noexcept {
  ERR_clear_error();
  return step_of(SSL_read_ex(session_.get(), to, size, &n));
}

tls_session::step tls_session::write(const char* from, std::size_t size, std::size_t& n) noexcept {
  ERR_clear_error();
  return step_of(SSL_write_ex(session_.get(), from, size, &n));
}

bool tls_session::was_ended() noexcept {
  char c;
  std::size_t n = 0;
  ERR_clear_error();
  return step_of(SSL_peek_ex(session_.get(), &c, 1, &n)) == step::over;
}

bool tls_session::has_bytes() const noexcept { return SSL_has_pending(session_.get()) == 1; }

} // namespace gsched_server
