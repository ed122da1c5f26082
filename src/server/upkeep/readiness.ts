import { randomUUID } from 'node:crypto';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import { digestOf } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { DiskSpace } from '../../storage/directory/index.ts';
import type { Rows } from '../../storage/rows/index.ts';

/** Checks that the server can do its work now. */
export interface Readiness {
  /** Throws a {@link Fault} (503) with the reason when the state cannot be read or written. */
  forAll(): Promise<void>;
  /** Does the same for reading only, which is all that pulls need. */
  forReading(): Promise<void>;
  /**
   * Throws a {@link Fault} (503) when a balancer should send requests elsewhere. The storage is not asked, because all replicas of
   * a site have the same. But while another replica may lead, this one answers requests for two minutes only, and only those
   * that the others hand on if there are others.
   *
   * @param isHandedOn true when another replica asks
   */
  forTraffic(isHandedOn: boolean): void;
}

export interface ReadinessDeps {
  /** Directory of the content, or of its copies on this machine. */
  readonly directory: string;
  /** Where content lives; asked for content that does not exist. Absent: the directory alone is asked. */
  readonly content?: Pick<ContentStore, 'size'>;
  /** Writes to a store of other machines. Absent for a directory, which is written to with the disk. */
  readonly writeContent?: (() => Promise<void>) | undefined;
  /** What the failure of a silent store names. Default: the disk. */
  readonly contentPart?: 'disk' | 'object store';
  readonly rows: Pick<Rows, 'identity' | 'isCurrent' | 'hasSuccessor'>;
  readonly space: DiskSpace;
  /** How long a proof is valid (ms). */
  readonly believedMs?: number;
  /** Time limit of a proof (ms). */
  readonly limitMs?: number;
  /** ms, never goes back */
  readonly now?: () => number;
}

const neverKept = digestOf('asked by the readiness check, and never kept');
// A managed database takes one or two minutes until another machine has its place.
const longestDoubtMs = 120_000;
// An operator pays for each write to an object store.
const writtenMs = 30_000;
const probeBytes = Buffer.alloc(4096, 'ready ');

export function createReadiness(deps: ReadinessDeps): Readiness {
  const { directory, content, rows, space, believedMs = 1000, limitMs = 3000 } = deps;
  const { contentPart = 'disk', writeContent, now = () => performance.now() } = deps;
  let currentAt = now();
  let writtenAt = Number.NEGATIVE_INFINITY;

  const read: Proof = async ask => {
    ask('database');
    await rows.identity.proveRead();
    ask('disk');
    await readdir(join(directory, 'tmp'));
    ask(contentPart);
    await content?.size(neverKept);
  };
  const readAndWrite: Proof = async ask => {
    await read(ask);
    ask('disk');
    await space.look();
    space.take(0);
    await writeAndReadBack(join(directory, 'tmp', `ready-${randomUUID()}`));
    ask('database');
    await rows.identity.proveWrite(limitMs / 2);
    if (!writeContent || now() - writtenAt < writtenMs) return;
    ask(contentPart);
    await writeContent();
    writtenAt = now();
  };
  return {
    forAll: bounded(readAndWrite, believedMs, limitMs),
    forReading: bounded(read, believedMs, limitMs),
    forTraffic(isHandedOn) {
      if (rows.isCurrent()) {
        currentAt = now();
        return;
      }
      if (!isHandedOn && rows.hasSuccessor()) throw doubted();
      if (now() - currentAt < longestDoubtMs) return;
      throw new Fault('unavailable', 'This server has not reached its database for two minutes', {
        phase: 'store',
      });
    },
  };
}

/** Another replica leads by now, or gets the requests and knows who does. */
function doubted(): Fault {
  return new Fault(
    'unavailable',
    'This server cannot reach its database, and another replica may lead: use another one',
    { phase: 'store' },
  );
}

type Part = 'database' | 'disk' | 'object store';

/** Calls `ask` with each part of the service before it asks that part. */
type Proof = (ask: (part: Part) => void) => Promise<void>;

/** Shares one proof among all callers within the time. While a disk hangs, no second proof starts. */
function bounded(prove: Proof, believedMs: number, limitMs: number): () => Promise<void> {
  let last: { readonly at: number; readonly proof: Promise<void> } | undefined;
  let isRunning = false;
  const run = async (): Promise<void> => {
    isRunning = true;
    let asked: Part = 'disk';
    const running = prove(part => {
      asked = part;
    }).finally(() => {
      isRunning = false;
    });
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(silent(asked)), limitMs);
    try {
      await Promise.race([running, promise]);
    } catch (error) {
      throw notReady(error);
    } finally {
      clearTimeout(timer);
    }
  };
  return () => {
    const now = performance.now();
    if (!last || (!isRunning && now - last.at > believedMs)) {
      last = { at: now, proof: run() };
      // The callers get the error.
      last.proof.catch(() => {});
    }
    return last.proof;
  };
}

async function writeAndReadBack(path: string): Promise<void> {
  try {
    await using file = await open(path, 'wx+');
    await file.writeFile(probeBytes);
    await file.datasync();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(probeBytes.length), 0, null, 0);
    if (bytesRead !== probeBytes.length || !buffer.equals(probeBytes))
      throw new Error('other bytes');
  } finally {
    await rm(path, { force: true });
  }
}

function silent(part: Part): Fault {
  return new Fault('unavailable', `The ${part} of the service does not answer`, { phase: 'store' });
}

function notReady(cause: unknown): Fault {
  if (cause instanceof Fault && cause.kind === 'unavailable') return cause;
  const why = isDiskFull(cause)
    ? 'is full: pulls continue, writes are refused until the operator frees disk space'
    : 'cannot be read and written: ask the operator for the reason, which is in the log';
  return new Fault('unavailable', `The disk of the service ${why}`, { phase: 'store', cause });
}
