import type { ByteSource, Chunk } from '../../storage/content/byte-source.ts';
import type { Slab, SlabPool } from '../../storage/content/index.ts';
import { type BodyDecoder, WireError } from './http1.ts';

/**
 * Maximum number of buffers for one body, full and being filled: four large ones (2 MiB) for a fast transfer, three
 * small ones (96 KiB) for a slow one. The connection's own 16 KiB for heads are extra.
 */
export const largeSlabsPerBody = 4;
const smallSlabsPerBody = 3;
/** A chunk of this size is delivered at once; smaller ones may grow until the end of the event loop's turn. */
const eagerBytes = 256 * 1024;
/** A small buffer that fills within this time belongs to a fast transfer, which gets large ones. */
const fastFillMs = 10;
/** A large buffer that took longer to fill is wasted on a slow transfer. */
const slowFillMs = 250;
/** A reader that keeps a chunk for this long is slow: large buffers would only wait with it. */
const slowReaderMs = 250;

/**
 * A smaller piece of a chunked body moves up to the piece before it. Otherwise an upstream that sends tiny chunks would
 * cost a chunk, a write and a hash of this server for each byte.
 */
const movedBytes = 4 * 1024;

/** A run of body bytes inside a buffer. */
interface Run {
  readonly slab: Slab;
  readonly start: number;
  end: number;
}

/** Controls the connection of a body. */
export interface BodyCarrier {
  /** Continues reading after a pause. */
  resume(): void;
  /** Ends the connection, because the body will not be read to its end. */
  drop(): void;
}

/**
 * A response body that the connection reads straight into pooled buffers. Memory: four large or three small buffers;
 * while all of them are on loan, the connection does not read.
 */
export class WireBody implements ByteSource {
  readonly #slabs: SlabPool;
  readonly #decoder: BodyDecoder;
  readonly #carrier: BodyCarrier;
  readonly #idleMs: number;
  readonly #runs: Run[] = [];
  /** The buffer being filled; null when the body has ended. */
  #slab: Slab | null;
  #filled = 0;
  #slabSince = performance.now();
  #held = 1;
  #isReaderSlow = false;
  #paused = false;
  #over = false;
  #failure: Error | null = null;
  #waiting: { resolve(chunk: Chunk | null): void; reject(reason: Error): void } | null = null;
  #turn: NodeJS.Immediate | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** When the current wait for bytes began, or the last bytes arrived. */
  #since = 0;

  constructor(slabs: SlabPool, decoder: BodyDecoder, carrier: BodyCarrier, idleMs: number) {
    this.#slabs = slabs;
    this.#decoder = decoder;
    this.#carrier = carrier;
    this.#idleMs = idleMs;
    this.#slab = slabs.take(false);
    if (decoder.done) this.#finish();
  }

  /** True when all bytes have arrived, or no more can arrive. */
  get over(): boolean {
    return this.#over;
  }

  /** Returns the memory for the next bytes; null when the body has ended. */
  target(): Uint8Array | null {
    return this.#slab === null ? null : this.#slab.bytes.subarray(this.#filled);
  }

  /** Copies body bytes that arrived in another buffer. Returns how many belong to the body. */
  copy(bytes: Uint8Array): number {
    let taken = 0;
    for (let at = 0; at < bytes.length; ) {
      const room = this.target();
      if (room === null) break;
      const part = bytes.subarray(at, at + room.length);
      room.set(part);
      taken += this.arrived(part.length).taken;
      at += part.length;
    }
    return taken;
  }

  /**
   * Records `count` new bytes in the target. Returns how many belong to the body, and whether the connection must
   * continue reading.
   */
  arrived(count: number): { taken: number; more: boolean } {
    const slab = this.#slab;
    if (slab === null) return { taken: 0, more: false };
    const start = this.#filled;
    this.#filled += count;
    this.#since = performance.now();
    const taken = this.#decoder.feed(slab.bytes.subarray(start, this.#filled), piece =>
      this.#queue(slab, piece.byteOffset, piece.byteOffset + piece.length),
    );
    if (this.#decoder.done) this.#finish();
    else if (slab.bytes.length - this.#filled < slab.bytes.length / 8) this.#nextSlab(slab);
    this.#wake();
    return { taken, more: !this.#paused };
  }

  /** The connection ended cleanly. */
  closed(): void {
    if (this.#over) return;
    if (this.#decoder.endsAtClose) {
      this.#finish();
      this.#wake();
    } else {
      this.fail(
        new WireError('short', 'the upstream closed the connection before the end of the body'),
      );
    }
  }

  /** The connection broke: the reader still gets the bytes that arrived, then `read` rejects. */
  fail(reason: Error): void {
    if (this.#over) return;
    this.#failure = reason;
    this.#finish();
    this.#wake();
  }

  read(): Promise<Chunk | null> {
    if (this.#waiting !== null) return Promise.reject(new Error('a read is under way'));
    const { promise, resolve, reject } = Promise.withResolvers<Chunk | null>();
    this.#waiting = { resolve, reject };
    this.#wake();
    if (this.#waiting !== null) this.#watch();
    return promise;
  }

  destroy(reason?: Error): void {
    const cause = reason ?? new WireError('aborted', 'the transfer was given up');
    // The connection ends first: it must not write into a buffer that has another owner.
    if (!this.#over) this.#carrier.drop();
    this.#failure ??= cause;
    this.#finish();
    for (const run of this.#runs.splice(0)) this.#give(run.slab);
    this.#wake();
  }

  #finish(): void {
    this.#over = true;
    this.#paused = false;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const slab = this.#slab;
    this.#slab = null;
    if (slab !== null) this.#give(slab);
  }

  #queue(slab: Slab, start: number, end: number): void {
    const last = this.#runs.at(-1);
    if (last?.slab === slab && last.end === start) {
      last.end = end;
    } else if (last?.slab === slab && end - start < movedBytes) {
      // Only framing is between them, and the decoder has read it.
      slab.bytes.copyWithin(last.end, start, end);
      last.end += end - start;
    } else {
      slab.users += 1;
      this.#runs.push({ slab, start, end });
    }
  }

  #nextSlab(full: Slab): void {
    const now = performance.now();
    const took = now - this.#slabSince;
    const isFast = !this.#isReaderSlow && took < (full.large ? slowFillMs : fastFillMs);
    const next = this.#slabs.take(isFast);
    this.#slab = next;
    this.#slabSince = now;
    this.#filled = 0;
    this.#held += 1;
    this.#give(full);
    // A buffer is always set, because the socket would fill the old one again after a pause.
    this.#paused = this.#held >= (next.large ? largeSlabsPerBody : smallSlabsPerBody);
  }

  #give(slab: Slab): void {
    if (!this.#slabs.give(slab)) return;
    this.#held -= 1;
    if (!this.#paused) return;
    this.#paused = false;
    this.#slabSince = this.#since = performance.now();
    if (this.#waiting !== null) this.#watch();
    this.#carrier.resume();
  }

  /** Resumes a waiting reader, at once or at the end of this turn of the event loop. */
  #wake(): void {
    if (this.#waiting === null) return;
    const [run] = this.#runs;
    if (run === undefined) {
      if (this.#over) this.#respond();
    } else if (
      this.#over ||
      this.#paused ||
      this.#runs.length > 1 ||
      run.end - run.start >= eagerBytes
    ) {
      this.#respond();
    } else {
      this.#turn ??= setImmediate(() => {
        this.#turn = null;
        this.#respond();
      });
    }
  }

  #respond(): void {
    const waiting = this.#waiting;
    if (waiting === null) return;
    const run = this.#runs.shift();
    if (run !== undefined) waiting.resolve(this.#lend(run));
    else if (this.#failure !== null) waiting.reject(this.#failure);
    else if (this.#over) waiting.resolve(null);
    else return;
    this.#waiting = null;
  }

  #lend({ slab, start, end }: Run): Chunk {
    const since = performance.now();
    let lent = true;
    return {
      bytes: slab.bytes.subarray(start, end),
      release: () => {
        if (!lent) return;
        lent = false;
        this.#isReaderSlow = performance.now() - since > slowReaderMs;
        this.#give(slab);
      },
    };
  }

  /** Runs the idle timer only while a reader waits and the connection reads. */
  #watch(): void {
    this.#since = performance.now();
    if (this.#timer !== null || this.#over) return;
    const check = (): void => {
      this.#timer = null;
      if (this.#waiting === null || this.#paused || this.#over) return;
      const left = this.#idleMs - (performance.now() - this.#since);
      if (left > 0) {
        this.#timer = setTimeout(check, Math.ceil(left));
        return;
      }
      const reason = new WireError(
        'timeout-idle',
        `the upstream sent nothing for ${this.#idleMs} ms`,
      );
      this.#carrier.drop();
      this.fail(reason);
    };
    this.#timer = setTimeout(check, this.#idleMs);
  }
}
