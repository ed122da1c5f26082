import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import { removeControlGroup } from './control-group.ts';

/** What a killed server leaves of a builder. Its processes, mounts and networks end by themselves. */
export interface Leftovers {
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
