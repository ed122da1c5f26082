/*
 * Included before libzstd: what it copies from the part of the window that is elsewhere, it copies from far_bytes(). To the
 * compiler, far_bytes() changes no memory: otherwise libzstd would keep its state there, and take 60 % longer.
 */
#define ZSTD_DEPS_COMMON
#include <limits.h>
#include <stddef.h>
#include <string.h>

/* An address that does not exist, where the part of the window that is elsewhere ends, and one before its beginning. */
#define FAR_END 0xe0000000u
#define FAR_START 0xc0000000u

/* Returns an address with the bytes. Each `to` is another call. */
const void *far_bytes(const void *from, size_t bytes, const void *to) __attribute__((pure));

static inline __attribute__((always_inline)) void copy_bytes(void *to, const void *from, size_t bytes)
{
	if (__builtin_expect((size_t)from >= FAR_START, 0))
		from = far_bytes(from, bytes, to);
	__builtin_memmove(to, from, bytes);
}

#define ZSTD_memcpy(d, s, l) __builtin_memcpy((d), (s), (l))
#define ZSTD_memmove(d, s, l) copy_bytes((d), (s), (l))
#define ZSTD_memset(p, v, l) __builtin_memset((p), (v), (l))
