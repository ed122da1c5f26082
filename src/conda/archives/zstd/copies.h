/* Included before libzstd: a copy from the part of the window that is elsewhere goes through copy_bytes(). */
#define ZSTD_DEPS_COMMON
#include <limits.h>
#include <stddef.h>
#include <string.h>
void copy_bytes(void *to, const void *from, size_t bytes);
#define ZSTD_memcpy(d, s, l) __builtin_memcpy((d), (s), (l))
#define ZSTD_memmove(d, s, l) copy_bytes((d), (s), (l))
#define ZSTD_memset(p, v, l) __builtin_memset((p), (v), (l))
