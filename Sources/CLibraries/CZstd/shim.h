#pragma once
#if defined(__has_include) && !__has_include(<zstd.h>)
#error "zstd's headers are missing. Debian/Ubuntu: sudo apt-get install libcurl4-openssl-dev libssl-dev zlib1g-dev libbrotli-dev libzstd-dev libxml2-dev libpsl-dev libsqlite3-dev libyaml-dev pkg-config   Fedora: sudo dnf install libcurl-devel openssl-devel zlib-devel brotli-devel libzstd-devel libxml2-devel libpsl-devel sqlite-devel libyaml-devel"
#else
#include <zstd.h>
#include <zstd_errors.h>
#endif
