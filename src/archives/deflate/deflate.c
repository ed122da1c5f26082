/*
 * Deflate as WebAssembly: libdeflate with one compressor, one decompressor, one input and one output for each instance.
 * README.md has the command that compiles it.
 */
#include <stddef.h>
#include "libdeflate.h"

#define EXPORT(name) __attribute__((export_name(#name)))

extern unsigned char __heap_base;

static size_t top;
static struct libdeflate_compressor *compressor;
static struct libdeflate_decompressor *decompressor;
static size_t memberBytes;
static size_t inflatedBytes;
static void *input;
static void *output;
static size_t outputBytes;

/* Gives memory that is never returned: an instance allocates when it is opened, and never again. */
static void *give(size_t bytes)
{
	size_t start = (top ? top : (size_t)&__heap_base) + 63 & ~(size_t)63;
	size_t pages = (start + bytes + 65535) >> 16;
	size_t present = __builtin_wasm_memory_size(0);

	if (pages > present && __builtin_wasm_memory_grow(0, pages - present) == (size_t)-1)
		return NULL;
	top = start + bytes;
	return (void *)start;
}

static void keep(void *memory) { (void)memory; }

/* Returns the address of the input; 0 without memory. */
EXPORT(open) void *open_compressor(int level, size_t inputBytes)
{
	libdeflate_set_memory_allocator(give, keep);
	compressor = libdeflate_alloc_compressor(level);
	if (!compressor)
		return NULL;
	outputBytes = libdeflate_deflate_compress_bound(compressor, inputBytes);
	output = give(outputBytes);
	input = give(inputBytes);
	memberBytes = inputBytes;
	decompressor = libdeflate_alloc_decompressor();
	return output && decompressor ? input : NULL;
}

EXPORT(output) void *output_address(void) { return output; }

/* Compresses the first bytes of the input; returns the bytes of the output. */
EXPORT(compress) size_t compress(size_t bytes)
{
	return libdeflate_deflate_compress(compressor, input, bytes, output, outputBytes);
}

/*
 * Decompresses the stream at the beginning of the output into the input. Returns the bytes of the stream, which may be
 * followed by others; 0 if it is damaged.
 */
EXPORT(inflate) size_t inflate(size_t bytes)
{
	size_t used;

	if (libdeflate_deflate_decompress_ex(decompressor, output, bytes, input, memberBytes, &used, &inflatedBytes))
		return 0;
	return used;
}

EXPORT(inflated) size_t inflated(void) { return inflatedBytes; }

void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }
void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
