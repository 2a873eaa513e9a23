// What the maker of certificates and the server for tests need of OpenSSL's macros.
#pragma once
#include "shim.h"
#if !defined(__has_include) || __has_include(<openssl/evp.h>)
// The encrypted or plain PKCS#8 form of a key. Without a passphrase it is plain.
static inline int convoy_maker_write_key(BIO *bio, const EVP_PKEY *key, const char *passphrase, int count) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, passphrase ? EVP_aes_256_cbc() : NULL, passphrase, count, NULL, NULL);
}
static inline EVP_PKEY *convoy_maker_read_key(BIO *bio) { return PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL); }

// A context of a server that serves whatever it is given: no weak key or signature is refused, and nothing is added to
// the chain that is to be sent.
static inline void convoy_maker_prepare_context(SSL_CTX *context, int resumes) {
    SSL_CTX_set_security_level(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | (resumes ? 0 : SSL_OP_NO_TICKET));
    SSL_CTX_set_session_cache_mode(context, resumes ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF);
    if (!resumes) SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_dh_auto(context, 1);
}
// Called with the name that a client asks for.
static inline void convoy_maker_set_name_callback(
    SSL_CTX *context, int (*callback)(SSL *, int *, void *), void *argument) {
    SSL_CTX_set_tlsext_servername_callback(context, callback);
    SSL_CTX_set_tlsext_servername_arg(context, argument);
}
// Called when a client asks for an OCSP response.
static inline void convoy_maker_set_status_callback(SSL_CTX *context, int (*callback)(SSL *, void *), void *argument) {
    SSL_CTX_set_tlsext_status_cb(context, callback);
    SSL_CTX_set_tlsext_status_arg(context, argument);
}
// Staples a copy of the bytes.
static inline int convoy_maker_staple(SSL *ssl, const unsigned char *bytes, long count) {
    unsigned char *copy = OPENSSL_memdup(bytes, (size_t)count);
    if (!copy) return 0;
    if (SSL_set_tlsext_status_ocsp_resp(ssl, copy, count) == 1) return 1;
    OPENSSL_free(copy);
    return 0;
}
// A verification that accepts every certificate.
static inline int convoy_maker_accept(int isValid, X509_STORE_CTX *context) {
    (void)isValid;
    (void)context;
    return 1;
}
// Asks clients for a certificate, and verifies it unless it accepts every one.
static inline void convoy_maker_ask_client(SSL_CTX *context, int isRequired, int acceptsEveryOne) {
    SSL_CTX_set_verify(
        context, SSL_VERIFY_PEER | (isRequired ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
        acceptsEveryOne ? convoy_maker_accept : NULL);
}
// The subject in the form of RFC 2253, in UTF-8.
static inline int convoy_maker_write_subject(BIO *bio, const X509 *certificate) {
    return X509_NAME_print_ex(
        bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0;
}
#endif
