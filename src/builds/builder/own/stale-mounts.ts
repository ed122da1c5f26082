import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

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
