/* What libbz2 uses of the standard library. */
#include <stddef.h>
void *malloc(size_t bytes);
void free(void *memory);
