import { existsSync } from 'node:fs';
import { mkdir, readdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { sweepAtEnd } from './sweeper.ts';

const top = '/sys/fs/cgroup';
const patienceMs = 30_000;

/** A control group that programs may create: they get its name, and `remove` removes it. */
export interface ControlGroup {
  /** Such as `/sluice-forky-a1b2c3`, as `--cgroup-parent` takes it. */
  readonly name: string;
  /** Ends a process below it when all of them together have used so much. */
  limitMemory(bytes: number): Promise<void>;
  remove(): Promise<void>;
}

/** Settles where a group would lie in each hierarchy of the machine, be it version 1 or 2. */
export async function claimControlGroup(name: string): Promise<ControlGroup> {
  const entries = await readdir(top, { withFileTypes: true });
  // In version 2 the folders below the top are groups and not hierarchies; nothing lies there.
  const hierarchies = entries.filter(entry => entry.isDirectory()).map(entry => entry.name);
  const places = ['', ...hierarchies].map(hierarchy => join(top, hierarchy, name));
  for (const place of places) sweepAtEnd(place);
  return {
    name: `/${name}`,
    limitMemory: bytes => limitMemory(name, bytes),
    remove: async () => {
      for (const place of places) await removeGroup(place);
    },
  };
}

async function limitMemory(name: string, bytes: number): Promise<void> {
  const isFirstVersion = existsSync(join(top, 'memory'));
  const group = isFirstVersion ? join(top, 'memory', name) : join(top, name);
  await mkdir(group, { recursive: true });
  const limit = isFirstVersion ? 'memory.limit_in_bytes' : 'memory.max';
  await writeFile(join(group, limit), String(bytes));
}

/** Groups are removed from the leaves up; one whose last process just died may still be busy. */
async function removeGroup(place: string): Promise<void> {
  const started = Date.now();
  while (true) {
    try {
      const children = await readdir(place, { withFileTypes: true });
      for (const child of children) {
        if (child.isDirectory()) await removeGroup(join(place, child.name));
      }
      return await rmdir(place);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      if (code !== 'EBUSY' || Date.now() - started > patienceMs) throw error;
    }
    await setTimeout(20);
  }
}
