/*
 * Zstandard decompression as WebAssembly: libzstd with one stream at a time, and one input for each instance. Memory has
 * the last 8 MiB of a window at most; the caller keeps the rest, and gives bytes of it back. README.md has the command that
 * compiles it.
 *
 * The output goes round in a ring. To libzstd, the bytes before the last turn are a segment that ends at FAR_END, an
 * address that does not exist: it copies from there by copy_bytes() only.
 */
#include "decompress/zstd_decompress_internal.h"

#define EXPORT(name) __attribute__((export_name(#name)))

enum {
	INPUT_BYTES = 128 * 1024,
	NEAR_BYTES = 8 * 1024 * 1024,
	/* What libzstd may write beyond a block. */
	SLACK_BYTES = WILDCOPY_OVERLENGTH,
	HEADER_BYTES = 1024,
};

/* Bytes that the caller keeps: the largest window, and blocks. */
#define KEPT_BYTES ((128 + 1) * 1024 * 1024)

extern unsigned char __heap_base;

/* Copies bytes that the caller keeps, from a position below KEPT_BYTES. */
__attribute__((import_module("window"), import_name("read"))) void read_window(void *to, size_t position, size_t bytes);

static size_t top;
static ZSTD_DCtx *stream;
static char input[INPUT_BYTES];
static size_t input_end, input_at;
/* What libzstd wants next, when the input has a part of it. */
static char staged[ZSTD_BLOCKSIZE_MAX + HEADER_BYTES];
/* A copy of what the caller keeps: no match is longer than a block. */
static char far[ZSTD_BLOCKSIZE_MAX + SLACK_BYTES];
static size_t staged_bytes;
static unsigned long long largest_window;

/* Of the frame. */
static size_t window, block_bytes;
static char *ring, *ring_end;
static char *next;
/* Where the turn before this one ended, and the position of this one in the frame. */
static char *turn_end;
static unsigned long long turn_position, position;
static char *output;
static size_t output_bytes;

static int grow(size_t end)
{
	size_t pages = (end + 65535) >> 16;
	size_t present = __builtin_wasm_memory_size(0);

	return pages <= present || __builtin_wasm_memory_grow(0, pages - present) != (size_t)-1;
}

/* Gives memory; all of it is returned when the next stream begins. */
static void *give(void *opaque, size_t bytes)
{
	size_t start = (top + 63) & ~(size_t)63;

	(void)opaque;
	if (!grow(start + bytes))
		return NULL;
	top = start + bytes;
	return (void *)start;
}

static void keep(void *opaque, void *memory)
{
	(void)opaque;
	(void)memory;
}

/* far_bytes() itself, which does change memory. */
const void *bring(const void *from, size_t bytes, const void *to) __asm__("far_bytes");
const void *bring(const void *from, size_t bytes, const void *to)
{
	size_t distance = FAR_END - (size_t)from;

	(void)to;
	if ((size_t)next + block_bytes + SLACK_BYTES + distance <= (size_t)turn_end)
		return turn_end - distance;
	read_window(far, (size_t)((turn_position - distance) % KEPT_BYTES), bytes);
	return far;
}

EXPORT(input) char *input_address(void) { return input; }
EXPORT(inputBytes) size_t input_size(void) { return INPUT_BYTES; }

/* Begins a stream whose frames have windows of up to 2^windowLog bytes; returns 0 without memory. */
EXPORT(open) int open_stream(int windowLog)
{
	ZSTD_customMem memory = { give, keep, NULL };

	top = (size_t)&__heap_base;
	input_at = input_end = staged_bytes = output_bytes = 0;
	largest_window = 1ULL << windowLog;
	stream = ZSTD_createDCtx_advanced(memory);
	if (!stream)
		return 0;
	stream->expected = 0;
	return 1;
}

/* Makes the ring of a frame whose header was read. Returns 0 or an error. */
static int begin_frame(void)
{
	size_t bytes;

	if (stream->fParams.windowSize > largest_window)
		return ZSTD_error_frameParameter_windowTooLarge;
	window = stream->fParams.windowSize;
	block_bytes = stream->fParams.blockSizeMax;
	bytes = (window < NEAR_BYTES ? window : NEAR_BYTES) + 2 * (block_bytes + SLACK_BYTES);
	ring = (char *)((top + 63) & ~(size_t)63);
	ring_end = ring + bytes;
	if (!grow((size_t)ring_end))
		return ZSTD_error_memory_allocation;
	next = turn_end = ring;
	position = turn_position = 0;
	stream->prefixStart = stream->previousDstEnd = ring;
	stream->dictEnd = (void *)FAR_END;
	return 0;
}

/* Finds room for a block, and says what may be copied into it. */
static void make_room(void)
{
	size_t before = position < window ? (size_t)position : window;

	if ((size_t)(ring_end - next) < block_bytes + SLACK_BYTES) {
		turn_end = next;
		turn_position = position;
		next = ring;
		stream->prefixStart = stream->previousDstEnd = ring;
	}
	stream->virtualStart = (void *)((uintptr_t)next - before);
}

/* Returns the next bytes that libzstd wants as soon as all of them are there, else NULL. */
static const char *wanted(size_t bytes)
{
	size_t there = input_end - input_at;
	const char *start = input + input_at;
	size_t more;

	if (staged_bytes == 0 && there >= bytes) {
		input_at += bytes;
		return start;
	}
	more = bytes - staged_bytes < there ? bytes - staged_bytes : there;
	__builtin_memcpy(staged + staged_bytes, start, more);
	input_at += more;
	staged_bytes += more;
	if (staged_bytes < bytes)
		return NULL;
	staged_bytes = 0;
	return staged;
}

/* As wanted() for a skippable frame, whose bytes are not kept. */
static const char *skipped(size_t bytes)
{
	size_t there = input_end - input_at;
	size_t more = bytes - staged_bytes < there ? bytes - staged_bytes : there;

	input_at += more;
	staged_bytes += more;
	if (staged_bytes < bytes)
		return NULL;
	staged_bytes = 0;
	return staged;
}

/* Sets the bytes of the input. */
EXPORT(fill) void fill(size_t bytes)
{
	input_at = 0;
	input_end = bytes;
}

/*
 * Decompresses one block, or until the input is used up. Returns 0 at the end of a frame, a positive number in a frame, and
 * a negative one for an error.
 */
EXPORT(decompress) int decompress(void)
{
	output_bytes = 0;
	while (output_bytes == 0) {
		ZSTD_nextInputType_e type;
		size_t bytes, result;
		const char *from;
		char *to = NULL;
		int error;

		if (stream->expected == 0 && input_at < input_end)
			ZSTD_decompressBegin(stream);
		bytes = stream->expected;
		type = ZSTD_nextInputType(stream);
		if (bytes == 0 && input_at == input_end)
			return 0;
		if (type == ZSTDnit_skippableFrame && stream->stage == ZSTDds_skipFrame)
			from = skipped(bytes);
		else if (bytes > sizeof staged)
			return -(int)ZSTD_error_corruption_detected;
		else
			from = wanted(bytes);
		if (!from)
			return 1;
		if (type == ZSTDnit_block || type == ZSTDnit_lastBlock) {
			make_room();
			to = next;
		}
		result = ZSTD_decompressContinue(stream, to, to ? block_bytes + SLACK_BYTES : 0, from, bytes);
		if (ZSTD_isError(result))
			return -(int)ZSTD_getErrorCode(result);
		if (type == ZSTDnit_frameHeader && ZSTD_nextInputType(stream) == ZSTDnit_blockHeader) {
			error = begin_frame();
			if (error)
				return -error;
		}
		output = to;
		output_bytes = result;
		next += result;
		position += result;
	}
	return stream->expected > 0;
}

EXPORT(left) size_t left_input(void) { return input_end - input_at; }
EXPORT(output) char *output_address(void) { return output; }
EXPORT(written) size_t written(void) { return output_bytes; }

/* Returns where the caller must keep the last output, below KEPT_BYTES; -1 when memory has the whole window. */
EXPORT(keptAt) int kept_at(void)
{
	return window <= NEAR_BYTES ? -1 : (int)((position - output_bytes) % KEPT_BYTES);
}

EXPORT(keptBytes) int kept_bytes(void) { return KEPT_BYTES; }

void *malloc(size_t bytes) { (void)bytes; return NULL; }
void *calloc(size_t count, size_t bytes) { (void)count; (void)bytes; return NULL; }
void free(void *memory) { (void)memory; }
void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }
void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }
