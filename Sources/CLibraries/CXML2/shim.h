#pragma once
#if defined(__has_include) && !__has_include(<libxml/parser.h>)
#error "libxml2's headers are missing. Debian/Ubuntu: sudo apt-get install libcurl4-openssl-dev libssl-dev zlib1g-dev libbrotli-dev libzstd-dev libxml2-dev libpsl-dev libsqlite3-dev libyaml-dev pkg-config   Fedora: sudo dnf install libcurl-devel openssl-devel zlib-devel brotli-devel libzstd-devel libxml2-devel libpsl-devel sqlite-devel libyaml-devel"
#else
#include <libxml/xmlversion.h>
// libxml2's headers would include ICU's, which clash with Foundation's ICU. Only an unused type needs them.
#undef LIBXML_ICU_ENABLED
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/HTMLparser.h>
#include <libxml/xpath.h>
#include <libxml/xpathInternals.h>
#endif
