#pragma once
#if defined(__has_include) && !__has_include(<openssl/evp.h>)
#error "OpenSSL's headers are missing. Debian/Ubuntu: sudo apt-get install libcurl4-openssl-dev libssl-dev pkg-config   Fedora: sudo dnf install libcurl-devel openssl-devel"
#else
#include <openssl/evp.h>
#endif
