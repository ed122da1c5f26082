import { existsSync, globSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { TempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

/** A wall clock that a test sets, for the processes that have its environment. */
export interface ShiftedClock {
  readonly env: Readonly<Record<string, string>>;
  /** Shows the real time plus so many hours from now on. */
  shift(hours: number): void;
}

/** Only the wall clock is shifted, as by who sets the time of a machine: time goes on as it does. */
export function shiftedClock(directory: TempDir): ShiftedClock {
  requireCommand('faketime');
  const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');
  if (library === undefined) throw new Error('libfaketime is not where Debian has it');
  const file = directory.join('clock');
  const shift = (hours: number) => {
    // The other process reads it at any moment: it is there as a whole.
    writeFileSync(`${file}.new`, `${hours < 0 ? '-' : '+'}${Math.abs(hours)}h`);
    renameSync(`${file}.new`, file);
  };
  shift(0);
  process.once('exit', removeShared);
  return {
    shift,
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  };
}

/** Removes what the library has shared for processes that have ended: it stays of those that were killed. */
function removeShared(): void {
  for (const path of globSync('/dev/shm/{faketime_shm,sem.faketime_sem}_*')) {
    const pid = path.slice(path.lastIndexOf('_') + 1);
    if (!existsSync(`/proc/${pid}`)) rmSync(path, { force: true });
  }
}
