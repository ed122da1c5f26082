/*
 * Bzip2 decompression as WebAssembly: libbz2 with one stream at a time, one input and one output for each instance.
 * README.md has the command that compiles it.
 */
#include <stddef.h>
#include "bzlib.h"

#define EXPORT(name) __attribute__((export_name(#name)))

enum { BUFFER_BYTES = 256 * 1024 };

extern unsigned char __heap_base;

static size_t top;
static bz_stream stream;
static char input[BUFFER_BYTES];
static char output[BUFFER_BYTES];

/* Gives memory that is returned all together, when the next stream begins. */
static void *give(void *opaque, int items, int size)
{
	size_t start = (top + 15) & ~(size_t)15;
	size_t bytes = (size_t)items * (size_t)size;
	size_t pages = (start + bytes + 65535) >> 16;
	size_t present = __builtin_wasm_memory_size(0);

	(void)opaque;
	if (pages > present && __builtin_wasm_memory_grow(0, pages - present) == (size_t)-1)
		return NULL;
	top = start + bytes;
	return (void *)start;
}

static void keep(void *opaque, void *memory) { (void)opaque; (void)memory; }

EXPORT(input) char *input_address(void) { return input; }
EXPORT(output) char *output_address(void) { return output; }
EXPORT(bufferBytes) int buffer_bytes(void) { return BUFFER_BYTES; }

/* Begins a stream; input that is left stays. */
EXPORT(open) int open_stream(void)
{
	char *next = stream.next_in;
	unsigned int left = stream.avail_in;

	top = (size_t)&__heap_base;
	stream = (bz_stream){ .bzalloc = give, .bzfree = keep };
	int code = BZ2_bzDecompressInit(&stream, 0, 0);
	stream.next_in = next;
	stream.avail_in = left;
	return code;
}

/* Sets the bytes of the input. */
EXPORT(fill) void fill(unsigned int bytes)
{
	stream.next_in = input;
	stream.avail_in = bytes;
}

/* Decompresses until the input is used up, the output is full or the stream ends; returns the code of libbz2. */
EXPORT(decompress) int decompress(void)
{
	stream.next_out = output;
	stream.avail_out = BUFFER_BYTES;
	return BZ2_bzDecompress(&stream);
}

EXPORT(left) unsigned int left_input(void) { return stream.avail_in; }
EXPORT(written) unsigned int written(void) { return BUFFER_BYTES - stream.avail_out; }

void bz_internal_error(int code) { (void)code; __builtin_trap(); }
void *malloc(size_t bytes) { (void)bytes; return NULL; }
void free(void *memory) { (void)memory; }
void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
