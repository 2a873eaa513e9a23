#pragma once
#if defined(__has_include) && !__has_include(<libxml/parser.h>)
#error "libxml2's headers are missing. Debian/Ubuntu: sudo apt-get install libcurl4-openssl-dev libssl-dev zlib1g-dev libbrotli-dev libzstd-dev libxml2-dev pkg-config   Fedora: sudo dnf install libcurl-devel openssl-devel zlib-devel brotli-devel libzstd-devel libxml2-devel"
#else
#include <libxml/xmlversion.h>
// Its headers would bring those of ICU, which clash with the ICU of Foundation. Only a type that is not used here has it.
#undef LIBXML_ICU_ENABLED
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#endif
