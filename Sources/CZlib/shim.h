#pragma once
#if defined(__has_include) && !__has_include(<zlib.h>)
#error "zlib headers not found. Debian/Ubuntu: sudo apt-get install zlib1g-dev"
#else
#include <zlib.h>
#endif
