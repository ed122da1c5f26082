/* What libbz2 and libzstd use of the standard library. */
#include <stddef.h>
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void free(void *memory);
