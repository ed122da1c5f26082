/*
 * Zstandard decompression as WebAssembly: libzstd with one stream at a time, one input and one output for each instance.
 * README.md has the command that compiles it.
 */
#include <stddef.h>
#define ZSTD_STATIC_LINKING_ONLY
#include "zstd.h"

#define EXPORT(name) __attribute__((export_name(#name)))

enum { INPUT_BYTES = 128 * 1024, OUTPUT_BYTES = 256 * 1024 };

extern unsigned char __heap_base;

static size_t top;
static size_t last;
static ZSTD_DCtx *stream;
static char input[INPUT_BYTES];
static char output[OUTPUT_BYTES];
static ZSTD_inBuffer in;
static ZSTD_outBuffer out;

/* Gives memory; all of it is returned when the next stream begins. */
static void *give(void *opaque, size_t bytes)
{
	size_t start = (top + 63) & ~(size_t)63;
	size_t pages = (start + bytes + 65535) >> 16;
	size_t present = __builtin_wasm_memory_size(0);

	(void)opaque;
	if (pages > present && __builtin_wasm_memory_grow(0, pages - present) == (size_t)-1)
		return NULL;
	last = start;
	top = start + bytes;
	return (void *)start;
}

/* Takes back what was given last: the window of a frame, when the next frame has a larger one. */
static void keep(void *opaque, void *memory)
{
	(void)opaque;
	if (memory && (size_t)memory == last)
		top = last;
}

EXPORT(input) char *input_address(void) { return input; }
EXPORT(inputBytes) size_t input_bytes(void) { return INPUT_BYTES; }
EXPORT(output) char *output_address(void) { return output; }

/* Begins a stream whose frames have windows of up to 2^windowLog bytes; returns 0 without memory. */
EXPORT(open) int open_stream(int windowLog)
{
	ZSTD_customMem memory = { give, keep, NULL };

	top = (size_t)&__heap_base;
	last = 0;
	in = (ZSTD_inBuffer){ input, 0, 0 };
	stream = ZSTD_createDCtx_advanced(memory);
	return stream && !ZSTD_isError(ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, windowLog));
}

/* Sets the bytes of the input. */
EXPORT(fill) void fill(size_t bytes) { in = (ZSTD_inBuffer){ input, bytes, 0 }; }

/*
 * Decompresses until the input is used up or the output is full. Returns 0 at the end of a frame, a positive number in a
 * frame, and a negative one for an error.
 */
EXPORT(decompress) int decompress(void)
{
	size_t result;

	out = (ZSTD_outBuffer){ output, OUTPUT_BYTES, 0 };
	result = ZSTD_decompressStream(stream, &out, &in);
	return ZSTD_isError(result) ? -(int)ZSTD_getErrorCode(result) : result > 0;
}

EXPORT(left) size_t left_input(void) { return in.size - in.pos; }
EXPORT(written) size_t written(void) { return out.pos; }

void *malloc(size_t bytes) { (void)bytes; return NULL; }
void *calloc(size_t count, size_t bytes) { (void)count; (void)bytes; return NULL; }
void free(void *memory) { (void)memory; }
void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }
void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
