import { PassThrough, Transform, type TransformCallback } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { isTarStart, tarBlockSize } from '../../archives/index.ts';
import { isTooDense, maxRatio } from '../../archives/tar-limits.ts';
import { ZstdFrames } from '../../archives/zstd-frames.ts';
import { Fault } from '../../foundation/fault.ts';
import { type Permit, Semaphore } from '../../foundation/semaphore.ts';
import type { Digest } from '../../oci/digest.ts';
import { createFlowHash, type FlowHash } from '../../storage/hashing/index.ts';
import type { Caller } from '../container-request.ts';

const lateBytes = 512 * 1024;

/**
 * Computes the digest of the tar file inside a gzip file. Throws a {@link Fault} for a file that is not a gzip file,
 * does not contain a tar file, or unpacks to more than the limits allow.
 */
interface TarDigester {
  /** Takes the next bytes of the gzip file; resolves when they are unpacked. */
  write(bytes: Uint8Array): Promise<void>;
  end(): Promise<Digest>;
  abort(): void;
}

/** How a layer is compressed. */
export type Packing = 'gzip' | 'zstd' | 'none';

/** Returns the streams that unpack a layer: the first takes its bytes, the last has those of the tar file. */
export function unpackers(
  packing: Packing,
  chunkSize: number,
): readonly [Transform, ...Transform[]] {
  if (packing === 'gzip') return [createGunzip({ chunkSize })];
  return packing === 'zstd'
    ? [new ZstdFrames(), createZstdDecompress({ chunkSize })]
    : [new PassThrough()];
}

export interface UnpackLimits {
  /** Bytes that may still be unpacked for this request: all its layers share them. */
  readonly room: { left: number; readonly limit: number };
  /** Waits for a turn to unpack a piece. */
  readonly takeTurn: () => Promise<Permit>;
  /** Receives the bytes of the tar file. What it throws ends the work. */
  readonly inspect?: ((bytes: Buffer) => void) | undefined;
  /** Default: gzip. */
  readonly packing?: Packing | undefined;
}

// Another thread hashes the output, and each transfer to it has a cost.
const pieceBytes = 128 * 1024;

/** @param name name of the layer in messages */
export function digestTar(
  name: string,
  { room, takeTurn, inspect, packing = 'gzip' }: UnpackLimits,
): TarDigester {
  const hash = createLateHash();
  const streams = unpackers(packing, pieceBytes);
  const [gunzip] = streams;
  let given = 0;
  let size = 0;
  let head = Buffer.alloc(0);
  const sink = new Transform({
    transform(chunk: Buffer, _encoding, done: TransformCallback) {
      size += chunk.length;
      room.left -= chunk.length;
      if (room.left < 0) return done(tooLarge(name, room.limit));
      if (isTooDense(given, size)) return done(tooDense(name));
      if (head.length < tarBlockSize) {
        head = Buffer.concat([head, chunk.subarray(0, tarBlockSize - head.length)]);
        if (head.length === tarBlockSize && !isTarStart(head)) return done(notTar(name));
      }
      try {
        inspect?.(chunk);
      } catch (error) {
        return done(error as Error);
      }
      hash.update(chunk).then(() => done(), done);
    },
  });
  sink.resume();
  const finished = pipeline([...streams, sink]);
  // Calls that write or end report the failure; until then it must not count as unhandled.
  finished.catch(() => {});
  const failure = (error: unknown): Fault =>
    error instanceof Fault
      ? error
      : packing === 'gzip'
        ? notGzip(name, error)
        : damaged(name, packing, error);
  const unlessFailed = (work: Promise<void>) =>
    Promise.race([work, finished]).catch(error => Promise.reject(failure(error)));

  return {
    async write(bytes) {
      given += bytes.length;
      // The caller reuses its buffer, and zlib reads on another thread, so zlib gets its own copy.
      const own = Buffer.from(bytes);
      using _turn = await takeTurn();
      if (gunzip.destroyed) return await unlessFailed(finished);
      await unlessFailed(new Promise(resolve => gunzip.write(own, () => resolve())));
      // The callback of a failed write comes before the pipeline has ended.
      if (gunzip.destroyed) await unlessFailed(finished);
    },

    async end() {
      gunzip.end();
      await finished.catch(error => Promise.reject(failure(error)));
      // zlib ignores bytes after the end of the last member; Go's reader, in docker, does not.
      if ('bytesWritten' in gunzip && (gunzip.bytesWritten as number) < given)
        throw notGzip(name, undefined, ' only: it has bytes after its end');
      if (size < tarBlockSize) throw notTar(name);
      return `sha256:${await hash.digest()}` as Digest;
    },

    abort() {
      for (const stream of streams) stream.destroy();
      hash.abort();
    },
  };
}

/** Creates a hash that moves to another thread once there is enough to hash: small layers are faster without. */
function createLateHash(): FlowHash {
  let small: Buffer[] | undefined = [];
  let bytes = 0;
  let hash: FlowHash | undefined;
  let before: Promise<void> = Promise.resolve();
  const open = (expected?: number) => {
    hash = createFlowHash('sha256', expected);
    const kept = small ?? [];
    small = undefined;
    return kept.length === 0 ? Promise.resolve() : hash.update(Buffer.concat(kept));
  };
  return {
    async update(chunk) {
      bytes += chunk.length;
      if (small && bytes <= lateBytes) {
        small.push(chunk as Buffer);
        return;
      }
      // While one piece is being hashed, the next is unpacked.
      await before;
      before = hash ? hash.update(chunk) : open().then(() => hash?.update(chunk));
      before.catch(() => {});
    },
    async digest() {
      if (!hash) await open(bytes);
      await before;
      return (hash as unknown as FlowHash).digest();
    },
    abort: () => hash?.abort(),
  };
}

function tooLarge(name: string, limit: number): Fault {
  return new Fault(
    'too-large',
    `${name} unpacks to more than the ${limit} bytes allowed for all layers of a request: add fewer files, or ask the operator to raise layers.maxTarBytes`,
    { phase: 'layer' },
  );
}

function tooDense(name: string): Fault {
  return new Fault(
    'too-large',
    `${name} unpacks to more than ${maxRatio} times its size, as a file does that is made to fill disks: check its content`,
    { phase: 'layer' },
  );
}

function notTar(name: string): Fault {
  return new Fault(
    'bad-request',
    `${name} is not a tar archive in a gzip file: pack it with 'tar -czf'`,
    { phase: 'layer' },
  );
}

function damaged(name: string, packing: Packing, cause: unknown): Fault {
  return new Fault(
    'bad-request',
    `${name} is not a ${packing} file as its type says: push it again`,
    {
      phase: 'layer',
      cause,
    },
  );
}

function notGzip(name: string, cause: unknown, detail = ''): Fault {
  return new Fault(
    'bad-request',
    `${name} is not a gzip file${detail}: pack it with 'tar -czf', and check that its address leads to the file itself`,
    { phase: 'layer', cause },
  );
}

/** Waits for a turn to unpack a piece. Throws a {@link Fault} (503) when none came in time. */
type TakeUnpackTurn = (
  caller: Pick<Caller, 'network' | 'user'>,
  signal?: AbortSignal,
) => Promise<Permit>;

const waitMs = 60_000;

/**
 * Limits how many layers are unpacked at the same moment. Default: two, one per caller, and one of all anonymous
 * callers, so that they do not delay users. Unpacking occupies a thread of the pool that also reads and writes files.
 */
export function createUnpackTurns(atOnce = 2, ofCaller = 1): TakeUnpackTurn {
  const low = { limit: 1, passedBy: 1 };
  const turns = new Semaphore({ limit: atOnce, perKey: ofCaller, low, refusal: tooBusy });
  return ({ network, user }, signal) =>
    turns.take({ key: user ?? network ?? '', isLow: user === undefined, waitMs, signal });
}

function tooBusy(): Fault {
  return new Fault('unavailable', 'Too many layers are being unpacked: try again later', {
    phase: 'limit',
    limit: 'layers unpacked at once',
    retryAfterSeconds: 30,
  });
}
