import { readFile } from 'node:fs/promises';

/** Returns true for a process that has ended. A killed one may wait for its parent, or the first process of the machine, to notice. */
export async function hasEnded(pid: string): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => 'State:\tX');
  return /^State:\t[ZX]/m.test(status);
}
