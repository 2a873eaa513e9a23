// What the maker of certificates and the server for tests need of OpenSSL's macros.
#pragma once
#include "shim.h"
#if !defined(__has_include) || __has_include(<openssl/evp.h>)
// The encrypted or plain PKCS#8 form of a key. Without a passphrase it is plain.
static inline int convoy_maker_write_key(BIO *bio, const EVP_PKEY *key, const char *passphrase, int count) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, passphrase ? EVP_aes_256_cbc() : NULL, passphrase, count, NULL, NULL);
}
static inline EVP_PKEY *convoy_maker_read_key(BIO *bio) { return PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL); }
#endif
