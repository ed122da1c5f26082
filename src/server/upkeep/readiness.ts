import { randomUUID } from 'node:crypto';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import type { DiskSpace } from '../../storage/directory/disk-space.ts';
import type { Rows } from '../../storage/rows/rows.ts';

/** Proves that the server can do its work now. */
export interface Readiness {
  /** Throws a {@link Fault} (503) with the reason when the state cannot be read or written. */
  forAll(): Promise<void>;
  /** The same for reading alone: what pulls need. */
  forReading(): Promise<void>;
}

export interface ReadinessDeps {
  /** Where content is. */
  readonly directory: string;
  readonly rows: Pick<Rows, 'identity'>;
  readonly space: DiskSpace;
  /** ms that a proof is believed. */
  readonly believedMs?: number;
  /** ms that a proof may take. */
  readonly limitMs?: number;
}

const probeBytes = Buffer.alloc(4096, 'ready ');

export function createReadiness(deps: ReadinessDeps): Readiness {
  const { directory, rows, space, believedMs = 1000, limitMs = 3000 } = deps;

  const read = async (): Promise<void> => {
    await rows.identity.proveRead();
    await readdir(join(directory, 'tmp'));
  };
  const readAndWrite = async (): Promise<void> => {
    await read();
    await space.look();
    space.take(0);
    await writeAndReadBack(join(directory, 'tmp', `ready-${randomUUID()}`));
    await rows.identity.proveWrite(limitMs / 2);
  };
  return {
    forAll: bounded(readAndWrite, believedMs, limitMs),
    forReading: bounded(read, believedMs, limitMs),
  };
}

/** Shares one proof among all who ask within the time; a disk that hangs gets no second one meanwhile. */
function bounded(
  prove: () => Promise<void>,
  believedMs: number,
  limitMs: number,
): () => Promise<void> {
  let last: { readonly at: number; readonly proof: Promise<void> } | undefined;
  let isRunning = false;
  const run = async (): Promise<void> => {
    isRunning = true;
    const running = prove().finally(() => {
      isRunning = false;
    });
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(silent()), limitMs);
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

function silent(): Fault {
  return new Fault('unavailable', 'The disk of the service does not answer', { phase: 'store' });
}

function notReady(cause: unknown): Fault {
  if (cause instanceof Fault && cause.kind === 'unavailable') return cause;
  const why = isDiskFull(cause)
    ? 'is full: pulls go on, writes are refused until the operator frees disk space'
    : 'cannot be read and written: the operator finds the reason in the log';
  return new Fault('unavailable', `The disk of the service ${why}`, { phase: 'store', cause });
}
