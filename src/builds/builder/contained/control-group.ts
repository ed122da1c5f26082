import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Limits of the running processes: for one build, or for all builds together. */
export interface Limits {
  readonly memoryBytes: number;
  readonly processes: number;
  /** Number of processors, may be fractional; undefined for all. */
  readonly processors: number | undefined;
}

const top = '/sys/fs/cgroup';
const controllers = ['memory', 'pids', 'cpu'] as const;
const periodUs = 100_000;
// Steps yield to the server: the defaults are 100 (version 2) and 1024 (version 1).
const weight = { unified: '25', separate: '256' };
const busyMs = 2000;
const busyPauseMs = 20;

/** Returns whether the control groups have version 2: one hierarchy for all controllers. */
function isUnified(): boolean {
  return existsSync(join(top, 'cgroup.controllers'));
}

/** Returns a new name for a control group, in another one or at the top. */
export function nameControlGroup(parent?: string): string {
  const name = `sluice-builder-${randomBytes(6).toString('hex')}`;
  return parent === undefined ? name : `${parent}/${name}`;
}

/**
 * Makes a control group for the builds of one builder or of several. Throws if the machine's control groups do not
 * support that.
 *
 * @param limits undefined for those of the group around it
 */
export async function makeControlGroup(name: string, limits: Limits | undefined): Promise<void> {
  if (isUnified()) {
    const enable = controllers.map(controller => `+${controller}`).join(' ');
    await writeFile(join(top, 'cgroup.subtree_control'), enable);
    const group = join(top, name);
    await mkdir(group, { recursive: true });
    await writeFile(join(group, 'cgroup.subtree_control'), enable);
    if (limits === undefined) return;
    const { memoryBytes, processes, processors } = limits;
    await writeFile(join(group, 'memory.max'), String(memoryBytes));
    await writeFile(join(group, 'pids.max'), String(processes));
    await writeFile(join(group, 'cpu.weight'), weight.unified);
    if (processors !== undefined) {
      await writeFile(join(group, 'cpu.max'), `${quotaOf(processors)} ${periodUs}`);
    }
    return;
  }
  const settings = limits && separateSettings(limits);
  for (const controller of controllers) {
    const group = join(top, controller, name);
    await mkdir(group).catch(ignoreExisting);
    for (const [file, value] of Object.entries(settings?.[controller] ?? {})) {
      await writeFile(join(group, file), String(value));
    }
  }
}

/**
 * Makes a control group for the builder itself, in that of its builds: its memory counts with theirs, because builds decide
 * what it keeps there. Returns the directory whose `cgroup.procs` the builder joins.
 */
export async function makeDaemonGroup(name: string, memoryBytes: number): Promise<string> {
  const [place, limit] = isUnified()
    ? [join(top, name), 'memory.max']
    : [join(top, 'memory', name), 'memory.limit_in_bytes'];
  const group = join(place, 'daemon');
  await mkdir(group, { recursive: true });
  await writeFile(join(group, limit), String(memoryBytes));
  return group;
}

/** Returns the files of control groups of version 1, by controller. */
function separateSettings({ memoryBytes, processes, processors }: Limits) {
  return {
    memory: { 'memory.limit_in_bytes': memoryBytes },
    pids: { 'pids.max': processes },
    cpu: {
      'cpu.shares': weight.separate,
      ...(processors === undefined ? {} : { 'cpu.cfs_quota_us': quotaOf(processors) }),
    },
  };
}

/**
 * Returns the limits of one build as lines for the wrapper of runc: the hierarchy of the controller (`.` for the only
 * one), a file of the control group, and its value.
 */
export function buildLimitLines({ memoryBytes, processes, processors }: Limits): string {
  if (isUnified()) {
    return [
      `. cgroup.subtree_control ${controllers.map(controller => `+${controller}`).join(' ')}`,
      `. memory.max ${memoryBytes}`,
      `. memory.swap.max 0`,
      `. pids.max ${processes}`,
      ...(processors === undefined ? [] : [`. cpu.max ${quotaOf(processors)} ${periodUs}`]),
    ].join('\n');
  }
  const canLimitSwap = existsSync(join(top, 'memory/memory.memsw.limit_in_bytes'));
  return [
    `memory memory.limit_in_bytes ${memoryBytes}`,
    ...(canLimitSwap ? [`memory memory.memsw.limit_in_bytes ${memoryBytes}`] : []),
    `pids pids.max ${processes}`,
    ...(processors === undefined ? [] : [`cpu cpu.cfs_quota_us ${quotaOf(processors)}`]),
  ].join('\n');
}

/**
 * Removes the control group of a builder that has ended, with the groups of its steps. Throws if it stays busy for 2 s.
 */
export async function removeControlGroup(name: string): Promise<void> {
  const places = isUnified() ? [''] : await readdir(top).catch(() => []);
  const deadline = performance.now() + busyMs;
  for (const place of places) await removeTree(join(top, place, name), deadline);
}

/**
 * Groups are removed from the leaves up. A group whose last process has just ended may still be busy. The whole tree
 * has one deadline: if each level waited again, a busy leaf would delay a stop for minutes.
 */
async function removeTree(group: string, deadline: number): Promise<void> {
  for (;;) {
    try {
      const children = await readdir(group, { withFileTypes: true });
      for (const child of children) {
        if (child.isDirectory()) await removeTree(join(group, child.name), deadline);
      }
      return await rmdir(group);
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' || code === 'ENOTDIR') return;
      if (code !== 'EBUSY' || performance.now() > deadline) throw error;
    }
    await sleep(busyPauseMs);
  }
}

function quotaOf(processors: number): number {
  return Math.max(1000, Math.round(processors * periodUs));
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
