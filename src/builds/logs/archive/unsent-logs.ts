import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { logFilesOf } from '../build-logs.ts';
import { firstPauseMs, longestPauseMs } from './late-logs.ts';
import type { LogArchive } from './log-archive.ts';

const suffix = '.unsent';

/** Sends the files of a log to the archive; false when this machine has none. */
export async function sendLog(
  directory: string,
  archive: LogArchive,
  id: string,
): Promise<boolean> {
  let isSent = false;
  for (const name of logFilesOf(id)) {
    const bytes = await unlessAbsent(readFile(join(directory, name)));
    if (bytes) await archive.put(name, bytes);
    isSent ||= bytes !== undefined;
  }
  return isSent;
}

/** Notes on the disk that the archive lacks the log of a build that ends now: this process may be killed. */
export async function noteUnsent(directory: string, id: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await writeFile(join(directory, `${id}${suffix}`), '', { mode: 0o600 });
}

export async function forgetUnsent(directory: string, id: string): Promise<void> {
  await rm(join(directory, `${id}${suffix}`), { force: true });
}

/** Returns the ids of the builds whose logs were noted. */
export async function unsentIn(directory: string): Promise<string[]> {
  const names = (await unlessAbsent(readdir(directory))) ?? [];
  return names.filter(name => name.endsWith(suffix)).map(name => name.slice(0, -suffix.length));
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
