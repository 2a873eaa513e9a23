// Swift imports neither function-like macros nor the typed stacks, so there is an inline function for each in use.
#pragma once
#if defined(__has_include) && !__has_include(<openssl/evp.h>)
#error "OpenSSL's headers are missing. Debian/Ubuntu: sudo apt-get install libcurl4-openssl-dev libssl-dev zlib1g-dev libbrotli-dev libzstd-dev libxml2-dev libpsl-dev libsqlite3-dev libyaml-dev pkg-config   Fedora: sudo dnf install libcurl-devel openssl-devel zlib-devel brotli-devel libzstd-devel libxml2-devel libpsl-devel sqlite-devel libyaml-devel"
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

// Stacks of revocation lists.
static inline STACK_OF(X509_CRL) *convoy_crl_stack_new(void) { return sk_X509_CRL_new_null(); }
// Frees the stack and the lists.
static inline void convoy_crl_stack_free(STACK_OF(X509_CRL) *stack) { sk_X509_CRL_pop_free(stack, X509_CRL_free); }
// Takes the list, and brings its entries into the order in which they are searched. False if there is no memory.
static inline int convoy_crl_stack_append(STACK_OF(X509_CRL) *stack, X509_CRL *list) {
    ASN1_INTEGER *none = ASN1_INTEGER_new();
    X509_REVOKED *entry = NULL;
    if (none) X509_CRL_get0_by_serial(list, &entry, none);
    ASN1_INTEGER_free(none);
    if (none && sk_X509_CRL_push(stack, list) > 0) return 1;
    X509_CRL_free(list);
    return 0;
}
// When a list has revoked a certificate, and why: a CRLReason, or -1 if it does not say.
static inline const ASN1_TIME *convoy_crl_revocation(X509_CRL *list, X509 *certificate, long *reason) {
    X509_REVOKED *entry = NULL;
    *reason = -1;
    if (X509_CRL_get0_by_cert(list, &entry, certificate) == 0 || !entry) return NULL;
    ASN1_ENUMERATED *code = (ASN1_ENUMERATED *)X509_REVOKED_get_ext_d2i(entry, NID_crl_reason, NULL, NULL);
    if (code) *reason = ASN1_ENUMERATED_get(code);
    ASN1_ENUMERATED_free(code);
    return X509_REVOKED_get0_revocationDate(entry);
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
static inline int convoy_ssl_context_maximum(SSL_CTX *context) { return (int)SSL_CTX_get_max_proto_version(context); }

// Options, which are macros with casts.
static inline void convoy_ssl_context_harden(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // A connection that is closed without TLS's own end may have been cut off by anybody.
    SSL_CTX_clear_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_LEGACY_SERVER_CONNECT);
}
// Bits of X509_NAME_print_ex: RFC 4514, with readable characters.
static inline unsigned long convoy_name_format(void) { return XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB; }
static inline int convoy_x509_store_context_ssl_index(void) { return SSL_get_ex_data_X509_STORE_CTX_idx(); }

// Stapled OCSP responses.
typedef int (*convoy_status_callback)(SSL *connection, void *context);
static inline void convoy_ssl_context_request_status(SSL_CTX *context, convoy_status_callback callback, void *argument) {
    SSL_CTX_set_tlsext_status_type(context, TLSEXT_STATUSTYPE_ocsp);
    SSL_CTX_set_tlsext_status_cb(context, callback);
    SSL_CTX_set_tlsext_status_arg(context, argument);
}
// The stapled response, which belongs to the connection; its length, or -1 if there is none.
static inline long convoy_ssl_stapled_response(SSL *connection, const unsigned char **bytes) {
    *bytes = NULL;
    return SSL_get_tlsext_status_ocsp_resp(connection, bytes);
}

// Name constraints.
static inline NAME_CONSTRAINTS *convoy_x509_name_constraints(const X509 *certificate) {
    return (NAME_CONSTRAINTS *)X509_get_ext_d2i(certificate, NID_name_constraints, NULL, NULL);
}
static inline int convoy_x509_has_name_constraints(const X509 *certificate) {
    return X509_get_ext_by_NID(certificate, NID_name_constraints, -1) >= 0;
}
static inline int convoy_name_constraints_count(const NAME_CONSTRAINTS *constraints, int excluded) {
    const STACK_OF(GENERAL_SUBTREE) *trees = excluded ? constraints->excludedSubtrees : constraints->permittedSubtrees;
    return trees ? sk_GENERAL_SUBTREE_num(trees) : 0;
}
// The bytes of a subtree of DNS names, or null if it is of another type.
static inline const unsigned char *convoy_name_constraint(
    const NAME_CONSTRAINTS *constraints, int excluded, int index, int *count) {
    const STACK_OF(GENERAL_SUBTREE) *trees = excluded ? constraints->excludedSubtrees : constraints->permittedSubtrees;
    const GENERAL_NAME *base = sk_GENERAL_SUBTREE_value(trees, index)->base;
    if (!base || base->type != GEN_DNS) return NULL;
    *count = ASN1_STRING_length(base->d.dNSName);
    return ASN1_STRING_get0_data(base->d.dNSName);
}

// Subject alternative names.
static inline GENERAL_NAMES *convoy_x509_alternative_names(const X509 *certificate) {
    return (GENERAL_NAMES *)X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
}
static inline void convoy_free(void *bytes) { OPENSSL_free(bytes); }
static inline int convoy_general_names_count(const GENERAL_NAMES *names) { return names ? sk_GENERAL_NAME_num(names) : 0; }
// The bytes of a name of this type (GEN_DNS, GEN_IPADD), or null if it is of another.
static inline const unsigned char *convoy_general_name(const GENERAL_NAMES *names, int index, int type, int *count) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
    if (name->type != type || (type != GEN_DNS && type != GEN_IPADD)) return NULL;
    const ASN1_STRING *text = type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    *count = ASN1_STRING_length(text);
    return ASN1_STRING_get0_data(text);
}
#endif
