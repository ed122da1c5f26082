import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { type BuildLogs, type LogOptions, logFilesOf } from './build-logs.ts';

/** Where logs of ended builds are kept for every server of a site. */
export interface LogArchive {
  put(name: string, bytes: Buffer): Promise<void>;
  /** Returns undefined for a name that is not there. */
  read(name: string): Promise<Buffer | undefined>;
  remove(name: string): Promise<void>;
  /** Yields all names. */
  names(): AsyncIterable<string>;
}

// A slow archive does not keep the build from ending.
const sendMs = 5_000;
// A log that another server writes now is asked for again.
const askedMs = 5_000;
const mostKnown = 10_000;

/**
 * Returns logs that are copied into the archive when their writer shares them, or as soon as the archive is there again, and
 * brought from there when this machine does not have them. The archive is right where both have a log: the build may have
 * ended on another machine. An archive that fails costs no build. While it fails, reading such a log as text fails too,
 * because an empty log would look complete.
 *
 * @param onError called with the reason when the archive failed
 * @param lateMs how long a log waits that the archive did not take, before the next attempt
 */
export function archivedLogs(
  logs: BuildLogs,
  directory: string,
  archive: LogArchive,
  onError: (error: unknown) => void,
  lateMs?: number,
): BuildLogs {
  /** Logs that this machine and the archive both have, or that this machine writes. */
  const known = new LRUCache<string, true>({ max: mostKnown });
  const absent = new LRUCache<string, true>({ max: mostKnown, ttl: askedMs });
  const bringing = new SingleFlight<void>();
  const writing = new Set<string>();
  /** Logs that this machine writes, and that have their end. */
  const shared = new Set<string>();

  const send = (id: string) => sendLog(directory, archive, id);
  const copy = async (id: string): Promise<void> => {
    await send(id);
    known.set(id, true);
    await forgetUnsent(directory, id);
  };
  const late = createLateLogs(copy, lateMs);
  const bring = (id: string): Promise<void> =>
    find(id).catch(error => {
      onError(error);
      throw error;
    });
  const find = async (id: string): Promise<void> => {
    let isThere = false;
    for (const name of logFilesOf(id)) {
      const bytes = await archive.read(name);
      // A build that starts again writes its log here.
      if (!bytes || writing.has(id)) continue;
      isThere = true;
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await writeFile(join(directory, name), bytes, { mode: 0o600 });
    }
    // A server that was killed did not archive it, or it is older than the archive.
    if (!isThere && !writing.has(id)) isThere = await send(id);
    (isThere ? known : absent).set(id, true);
  };
  const brought = async (id: string): Promise<void> => {
    if (writing.has(id) || known.has(id) || absent.has(id)) return;
    await bringing.run(() => bring(id), { key: id });
  };
  /** Throws a {@link Fault} (503) when another server has ended a build that this one believes to run. */
  const requireRight = (id: string, { isEnded = false }: LogOptions = {}): void => {
    if (isEnded && writing.has(id) && !shared.has(id)) throw ranElsewhere();
  };
  const broughtIfPossible = (id: string) => brought(id).catch(() => {});

  return {
    begin(id) {
      writing.add(id);
      const writer = logs.begin(id);
      let copied = Promise.resolve(true);
      let isSettled = false;
      return {
        ...writer,
        async share() {
          shared.add(id);
          copied = copy(id).then(
            () => true,
            error => {
              onError(error);
              return false;
            },
          );
          const isCopied = await Promise.race([copied, sleep(sendMs, false, { ref: false })]);
          if (!isCopied) await noteUnsent(directory, id).catch(onError);
        },
        settle() {
          isSettled = true;
          void copied.then(isCopied => isCopied || late.add(id));
        },
        async end() {
          await writer.end();
          writing.delete(id);
          // Another server runs this build.
          if (shared.delete(id) && !isSettled) await forgetUnsent(directory, id).catch(onError);
        },
      };
    },
    async read(id, options) {
      requireRight(id, options);
      await brought(id);
      const log = await logs.read(id, options);
      if (log === undefined && options?.isEnded) throw notHere(id);
      return log;
    },
    async *follow(id, signal, options) {
      requireRight(id, options);
      await brought(id);
      let isHere = false;
      for await (const piece of logs.follow(id, signal, options)) {
        isHere = true;
        yield piece;
      }
      if (!isHere && options?.isEnded && !signal.aborted) throw notHere(id);
    },
    async steps(id) {
      await broughtIfPossible(id);
      return logs.steps(id);
    },
    async lines(id) {
      await broughtIfPossible(id);
      return logs.lines(id);
    },
    async remove(id) {
      known.delete(id);
      late.remove(id);
      await forgetUnsent(directory, id);
      await logs.remove(id);
      for (const name of logFilesOf(id)) await archive.remove(name).catch(onError);
    },
    async retain(isKnown, signal) {
      await logs.retain(isKnown, signal);
      for await (const name of archive.names()) {
        signal?.throwIfAborted();
        if (!(await isKnown(name.replace(/\.[a-z]+$/, '')))) await archive.remove(name);
      }
    },
  };
}

function notHere(id: string): Fault {
  return new Fault(
    'not-found',
    `The log of build ${id} is not here: the server that ran it has not sent it to the others yet, or its disk is lost`,
    { phase: 'store' },
  );
}

function ranElsewhere(): Fault {
  return new Fault(
    'unavailable',
    'Another server of this site has ended this build: try again in a moment',
    { phase: 'store', retryAfterSeconds: 1 },
  );
}

const unsentSuffix = '.unsent';

/** Sends the files of a log to the archive; false when this machine has none. */
async function sendLog(directory: string, archive: LogArchive, id: string): Promise<boolean> {
  let isSent = false;
  for (const name of logFilesOf(id)) {
    const bytes = await unlessAbsent(readFile(join(directory, name)));
    if (bytes) await archive.put(name, bytes);
    isSent ||= bytes !== undefined;
  }
  return isSent;
}

/** Notes on the disk that the archive lacks the log of a build that ends now: this process may be killed. */
async function noteUnsent(directory: string, id: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await writeFile(join(directory, `${id}${unsentSuffix}`), '', { mode: 0o600 });
}

async function forgetUnsent(directory: string, id: string): Promise<void> {
  await rm(join(directory, `${id}${unsentSuffix}`), { force: true });
}

/** Returns the ids of the builds whose logs were noted. */
export async function unsentIn(directory: string): Promise<string[]> {
  const names = (await unlessAbsent(readdir(directory))) ?? [];
  return names
    .filter(name => name.endsWith(unsentSuffix))
    .map(name => name.slice(0, -unsentSuffix.length));
}

/**
 * Sends the logs that earlier processes of this machine noted, until the archive has taken all of them or the signal
 * ends. A log that the archive has by now stays there: another server has run that build again.
 *
 * @param onError called with the reason when the archive failed
 * @param pauseMs before the next attempt; later pauses grow up to a minute. Default: a second
 */
export async function sendUnsent(
  directory: string,
  archive: LogArchive,
  onError: (error: unknown) => void,
  signal: AbortSignal,
  pauseMs = firstPauseMs,
): Promise<void> {
  for (let nextMs = pauseMs; !signal.aborted; nextMs = Math.min(2 * nextMs, longestPauseMs)) {
    try {
      for (const id of await unsentIn(directory)) {
        if (signal.aborted) return;
        const [log = ''] = logFilesOf(id);
        if (!(await archive.read(log))) await sendLog(directory, archive, id);
        await forgetUnsent(directory, id);
      }
      return;
    } catch (error) {
      onError(error);
      await sleep(nextMs, undefined, { ref: false, signal }).catch(() => {});
    }
  }
}

async function unlessAbsent<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return undefined;
  }
}

/** Copies logs that could not be copied in time. */
interface LateLogs {
  /** Copies the log of an ended build as soon as the archive takes it. Forgets the oldest one when too many wait. */
  add(id: string): void;
  /** The log is not wanted any more. */
  remove(id: string): void;
}

const mostWaiting = 10_000;
/** Pauses between attempts to reach the archive. */
const [firstPauseMs, longestPauseMs] = [1000, 60_000];

/**
 * @param copy rejects when the archive does not take the log now
 * @param firstMs the pause before the first attempt; later ones grow up to a minute. Default: a second
 */
function createLateLogs(copy: (id: string) => Promise<unknown>, firstMs = firstPauseMs): LateLogs {
  const waiting = new Set<string>();
  let isWorking = false;

  /** Copies one after the other. A failure says that the archive is still away. */
  const work = async (): Promise<void> => {
    for (let pauseMs = firstMs; waiting.size > 0; ) {
      await sleep(pauseMs, undefined, { ref: false });
      try {
        for (const id of waiting) {
          await copy(id);
          waiting.delete(id);
        }
        pauseMs = firstMs;
      } catch {
        pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      }
    }
    isWorking = false;
  };

  return {
    add(id) {
      const [oldest] = waiting;
      if (waiting.size >= mostWaiting && oldest !== undefined) waiting.delete(oldest);
      waiting.add(id);
      if (isWorking) return;
      isWorking = true;
      void work();
    },
    remove: id => void waiting.delete(id),
  };
}
