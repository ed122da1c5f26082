import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../foundation/fault.ts';
import type { Descriptor } from '../oci/index.ts';
import type { ByteSource, Chunk } from '../storage/content/byte-source.ts';
import type { Access } from './access.ts';
import type { RegistryClient } from './registry-client.ts';

/** A body and the position in the blob at which it begins. */
export interface PlacedSource {
  readonly source: ByteSource;
  readonly offset: number;
}

interface ResumingOptions {
  readonly first: PlacedSource;
  /** First and last byte wanted, as positions in the blob. */
  readonly start: number;
  readonly end: number;
  /** Requests the rest from a position on. A server without ranges begins at 0 again, which the offset reports. */
  readonly reopen: (position: number) => Promise<PlacedSource>;
  /** Longest wait for the next 64 KiB, breaks included (ms). Default: three minutes. */
  readonly stallMs?: number | undefined;
}

// A server that breaks off without progress is given up after a few tries, one that makes progress after more. No
// server gets endless tries.
const maxBreaksWithoutProgress = 3;
const maxBreaks = 20;
const firstPauseMs = 100;
// Without a minimum, a source that drips, or sends a little after each break, would hold its reader forever.
const progressBytes = 64 * 1024;
const usualStallMs = 180_000;

/**
 * Returns a source of exactly the bytes from `start` to `end`. When the body breaks off or ends early, the source
 * requests the rest. Rejects with the last error when that does not help, and with a {@link Fault} (504) when the body
 * is too slow. Throws when the first body begins too late.
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
      // The reader may have destroyed the source while the new body was on its way.
      if (stopped) current.source.destroy(stopped);
      return;
    }
  };

  /** Adds the time that a step takes. */
  const timed = async <T>(step: () => Promise<T>): Promise<T> => {
    const began = performance.now();
    const result = await step();
    waitedMs += performance.now() - began;
    return result;
  };

  /** Counts received bytes, including those that the reader already has. */
  const arrived = (bytes: number): void => {
    progress += bytes;
    if (progress < progressBytes) return;
    progress = 0;
    waitedMs = 0;
  };

  /** Returns the wanted part of a chunk; undefined when there is none. */
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
      return (await current.source.read()) ?? new Error('the body ended early');
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
      // A server that ignored the range would send more than wanted.
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

/** Rejects a body that begins after the requested position: no later check of a part would detect the gap. */
function beginningBy(position: number, placed: PlacedSource): PlacedSource {
  if (placed.offset <= position) return placed;
  placed.source.destroy();
  throw new Error(`the body begins at ${placed.offset} instead of ${position}`);
}

/** Opens a blob from its first to its last byte, and resumes when the registry breaks off. Throws a `Fault`. */
export async function openWhole(
  registry: RegistryClient,
  access: Access,
  { digest, size }: Pick<Descriptor, 'digest' | 'size'>,
  signal?: AbortSignal,
): Promise<ByteSource> {
  const openAt = async (offset: number) => {
    const opened = await registry.openBlob(access, digest, {
      offset,
      size,
      signal,
      redirects: 'follow',
    });
    if (opened.kind === 'redirect') throw new Error('a redirect was not followed');
    return { source: opened.response.body, offset: opened.offset };
  };
  return resumingSource({ first: await openAt(0), start: 0, end: size - 1, reopen: openAt });
}
