import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';
import type { ByteSource, Chunk } from '../../storage/content/byte-source.ts';

/** A body and the position in the blob at which it begins. */
export interface PlacedSource {
  readonly source: ByteSource;
  readonly offset: number;
}

export interface ResumingOptions {
  readonly first: PlacedSource;
  /** First and last byte wanted, positions in the blob. */
  readonly start: number;
  readonly end: number;
  /** Asks for the rest from a position on; a server without ranges begins at 0 again, which is said in the offset. */
  readonly reopen: (position: number) => Promise<PlacedSource>;
  /** Longest wait for the next 64 KiB, breaks included (ms). Default: three minutes. */
  readonly stallMs?: number | undefined;
}

// A server that breaks off each time without a byte of progress is given up soon, one that makes
// progress each time later; no server is asked for ever.
const maxBreaksWithoutProgress = 3;
const maxBreaks = 20;
const firstPauseMs = 100;
// A source that drips, or sends a little after each break, would otherwise hold its reader for ever.
const progressBytes = 64 * 1024;
const usualStallMs = 180_000;

/**
 * A source of exactly the bytes from `start` to `end`: when the body breaks off or ends short it is
 * asked for again from where it stopped. Rejects with the last error when that does not help, and with a
 * {@link Fault} (504) when the body comes too slowly; throws when the first body begins too late.
 */
export function resumingSource(options: ResumingOptions): ByteSource {
  const { first, start, end, reopen, stallMs = usualStallMs } = options;
  let current = beginningBy(start, first);
  let position = start;
  let breaks = 0;
  let breaksHere = 0;
  let stopped: Error | undefined;
  let waitedMs = 0;
  let progress = 0;

  const resume = async (cause: unknown): Promise<void> => {
    let last = cause;
    for (;;) {
      if (stopped) throw stopped;
      breaks += 1;
      breaksHere += 1;
      if (breaksHere > maxBreaksWithoutProgress || breaks > maxBreaks) throw last;
      await sleep(firstPauseMs * 2 ** (breaksHere - 1));
      if (stopped) throw stopped;
      try {
        current = beginningBy(position, await reopen(position));
      } catch (error) {
        last = error;
        continue;
      }
      // It may have been destroyed while the new body was on its way.
      if (stopped) current.source.destroy(stopped);
      return;
    }
  };

  /** Counts the time that a step takes. */
  const timed = async <T>(step: () => Promise<T>): Promise<T> => {
    const began = performance.now();
    const result = await step();
    waitedMs += performance.now() - began;
    return result;
  };

  /** Notes bytes that have come, also those that the reader has already. */
  const arrived = (bytes: number): void => {
    progress += bytes;
    if (progress < progressBytes) return;
    progress = 0;
    waitedMs = 0;
  };

  /** The part of a chunk that is wanted; undefined when there is none. */
  const wanted = (chunk: Chunk): Chunk | undefined => {
    const from = position - current.offset;
    const to = Math.min(chunk.bytes.length, end + 1 - current.offset);
    current = { source: current.source, offset: current.offset + chunk.bytes.length };
    if (from >= to) {
      chunk.release();
      return undefined;
    }
    position += to - from;
    if (from === 0 && to === chunk.bytes.length) return chunk;
    return { bytes: chunk.bytes.subarray(from, to), release: chunk.release };
  };

  const next = async (): Promise<Chunk | Error> => {
    try {
      return (await current.source.read()) ?? new Error('the body ended before its time');
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  };

  return {
    async read() {
      while (position <= end) {
        const chunk = await timed(next);
        if (chunk instanceof Error) {
          current.source.destroy();
          if (waitedMs > stallMs) throw tooSlow(stallMs);
          await timed(() => resume(chunk));
          continue;
        }
        arrived(chunk.bytes.length);
        if (waitedMs > stallMs) {
          chunk.release();
          throw tooSlow(stallMs);
        }
        const part = wanted(chunk);
        if (!part) continue;
        breaksHere = 0;
        return part;
      }
      // A server that ignored the range has more to send, which nobody wants.
      if (start <= end) current.source.destroy();
      return null;
    },

    destroy(reason) {
      stopped ??= reason ?? new Error('the reader left');
      current.source.destroy(reason);
    },
  };
}

function tooSlow(stallMs: number): Fault {
  return new Fault(
    'upstream-timeout',
    `The registry sent less than ${progressBytes / 1024} KiB of a blob in ${stallMs / 1000} s: try again later`,
    { phase: 'upstream' },
  );
}

/** A body that begins behind what is asked for has a gap, which no later check of a part would find. */
function beginningBy(position: number, placed: PlacedSource): PlacedSource {
  if (placed.offset <= position) return placed;
  placed.source.destroy();
  throw new Error(`the body begins at ${placed.offset}, asked for was ${position}`);
}
