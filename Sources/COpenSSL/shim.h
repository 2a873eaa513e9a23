// Swift imports neither function-like macros nor the typed stacks, so there is an inline function for each in use.
#pragma once
#if defined(__has_include) && !__has_include(<openssl/evp.h>)
#error "OpenSSL's headers are missing. Debian/Ubuntu: sudo apt-get install libcurl4-openssl-dev libssl-dev zlib1g-dev libbrotli-dev libzstd-dev libxml2-dev pkg-config   Fedora: sudo dnf install libcurl-devel openssl-devel zlib-devel brotli-devel libzstd-devel libxml2-devel"
#else
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

// Stacks of certificates.
static inline STACK_OF(X509) *convoy_x509_stack_new(void) { return sk_X509_new_null(); }
// Frees the stack and its references.
static inline void convoy_x509_stack_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }
static inline int convoy_x509_stack_count(const STACK_OF(X509) *stack) { return stack ? sk_X509_num(stack) : 0; }
static inline X509 *convoy_x509_stack_at(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }
// Adds a reference to the certificate. False if there is no memory.
static inline int convoy_x509_stack_append(STACK_OF(X509) *stack, X509 *certificate) {
    if (!X509_up_ref(certificate)) return 0;
    if (sk_X509_push(stack, certificate) > 0) return 1;
    X509_free(certificate);
    return 0;
}

// Blocks of memory that can be read or written as files.
static inline BIO *convoy_bio_reading(const void *bytes, int count) { return BIO_new_mem_buf(bytes, count); }
static inline BIO *convoy_bio_writing(void) { return BIO_new(BIO_s_mem()); }
static inline long convoy_bio_bytes(BIO *bio, const unsigned char **bytes) { return BIO_get_mem_data(bio, (char **)bytes); }

// Settings of TLS that are macros.
static inline int convoy_ssl_context_set_minimum(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_min_proto_version(context, version);
}
static inline int convoy_ssl_context_set_maximum(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_max_proto_version(context, version);
}
static inline int convoy_ssl_context_minimum(SSL_CTX *context) { return (int)SSL_CTX_get_min_proto_version(context); }
static inline int convoy_ssl_context_maximum(SSL_CTX *context) { return (int)SSL_CTX_get_max_proto_version(context); }
#endif
