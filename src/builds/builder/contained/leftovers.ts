import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import { removeControlGroup } from './control-group.ts';

/** What a killed server leaves of a builder. Its processes, mounts and networks end by themselves. */
interface Leftovers {
  readonly group: string;
  /** The short-lived folder of the builder. */
  readonly folder?: string;
}

const noteIn = (directory: string) => join(directory, 'running.json');

/** Notes in the directory of a builder what the next start removes if this server is killed. */
export async function noteLeftovers(directory: string, left: Leftovers): Promise<void> {
  await writeFile(noteIn(directory), JSON.stringify(left));
}

/** Removes the control group, and then its note. Logs what it cannot remove; never rejects. */
export async function removeNoted(directory: string, group: string, log: Logger): Promise<void> {
  try {
    await removeControlGroup(group);
    await rm(noteIn(directory), { force: true });
  } catch (err) {
    // The note stays: the next start tries again.
    log.warn({ group, err }, 'the control group of the builder cannot be removed');
  }
}

/** Removes what the last server noted in the directory. */
export async function clearLeftovers(
  directory: string,
  log: Logger,
  folder?: string,
): Promise<void> {
  let left: Leftovers;
  try {
    left = JSON.parse(await readFile(noteIn(directory), 'utf8')) as Leftovers;
  } catch {
    return;
  }
  // A failure leaves only an unused group. Without this builder, anonymous callers could not build.
  await removeControlGroup(left.group).catch(err =>
    log.warn({ group: left.group, err }, 'cannot remove the control group of the last builder'),
  );
  if (left.folder !== undefined && left.folder !== folder) {
    await rm(left.folder, { recursive: true, force: true });
  }
}

/**
 * Unmounts the mounts that a killed builder left below its directory; returns their number. Does nothing without root:
 * only root can have mounted something there.
 */
export async function releaseMounts(directory: string): Promise<number> {
  if (process.getuid?.() !== 0) return 0;
  const table = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
  const places = mountsBelow(directory, table);
  // The deepest mount first, one at a time: a mount that disappeared with another one is not a failure.
  for (const place of places.reverse()) {
    await promisify(execFile)('umount', ['--lazy', place]).catch(() => {});
  }
  return places.length;
}

/**
 * Returns the mount points of BuildKit's worker, in the order of the table. Omits disks that an operator has mounted
 * there. Source: proc_pid_mountinfo(5).
 */
function mountsBelow(directory: string, table: string): string[] {
  return table
    .split('\n')
    .map(line => unescaped(line.split(' ')[4] ?? ''))
    .filter(place => place.startsWith(`${directory}/state/runc-`));
}

/** The table writes spaces and similar characters as octal numbers. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}
