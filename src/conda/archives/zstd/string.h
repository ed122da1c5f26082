/* What libzstd uses of the standard library; stdlib.h beside libbz2 has the rest. */
#include <stddef.h>
void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
