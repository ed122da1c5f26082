import { readdir, realpath, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../../foundation/telemetry.ts';
import { clearLeftovers } from '../contained/leftovers.ts';
import type { OwnBuilder } from './builder-process.ts';
import { releaseMounts } from './stale-mounts.ts';

/** First part of the names of directories with the state of one build. */
export const alonePrefix = 'alone-';
/** First part of the names of the other directories: each has the state of one trust domain. */
export const domainPrefix = 'domain-';

interface StateRoom {
  /** Directory of the states of all domains. */
  readonly directory: string;
  /** Directories of states in use, each with its builder once that runs. */
  readonly live: ReadonlyMap<string, OwnBuilder | undefined>;
  /** Maximum disk space of all states together. */
  readonly stateBytes: number;
  readonly log: Logger;
}

interface State {
  readonly path: string;
  readonly bytes: number;
  /** When its builder last started or ended, ms since the epoch. */
  readonly usedMs: number;
}

// Shares of the space that the states may have: the rest is for the builds that run.
const keptShare = 0.5;
const diskShare = 0.5;
// A site may have any number of users.
const mostStates = 300;

/**
 * Removes what the last server left: the states of single builds, and the state that all builds shared in earlier
 * versions.
 */
export async function clearStates(directory: string, log: Logger): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  await clearLeftovers(directory, log);
  await releaseMounts(await realpath(directory).catch(() => directory));
  for (const name of names) {
    if (name.startsWith(domainPrefix)) continue;
    const path = join(directory, name);
    if (name.startsWith(alonePrefix)) {
      await clearLeftovers(path, log);
      await releaseMounts(await realpath(path).catch(() => path));
    }
    await rm(path, { recursive: true, force: true });
  }
}

/**
 * Frees disk space before a build: removes the states of domains without a builder, the longest unused first, and then
 * prunes the running builders.
 */
export async function makeStateRoom({
  directory,
  live,
  stateBytes,
  log,
}: StateRoom): Promise<void> {
  const states = await statesIn(directory);
  let bytes = states.reduce((sum, state) => sum + state.bytes, 0);
  let count = states.length;
  const { bsize, bavail } = await statfs(directory);
  const mostBytes = Math.min(stateBytes, (bavail * bsize + bytes) * diskShare) * keptShare;
  const dormant = states.filter(({ path }) => !live.has(path));
  for (const { path, bytes: freed } of dormant.sort((one, other) => one.usedMs - other.usedMs)) {
    if (bytes <= mostBytes && count <= mostStates) return;
    await rm(path, { recursive: true, force: true });
    bytes -= freed;
    count -= 1;
    log.info({ bytes: freed }, 'the state of a builder was removed, to free disk space');
  }
  if (bytes <= mostBytes) return;
  const fair = mostBytes / Math.max(1, live.size);
  for (const [path, builder] of live) {
    const state = states.find(one => one.path === path);
    if (state && state.bytes > fair) await builder?.shrink?.(Math.floor(fair));
  }
}

async function statesIn(directory: string): Promise<State[]> {
  const names = await readdir(directory).catch(() => []);
  const found = names.filter(name => name.startsWith(domainPrefix) || name.startsWith(alonePrefix));
  return Promise.all(
    found.map(async name => {
      const path = join(directory, name);
      const [usedMs, bytes] = await Promise.all([
        stat(path).then(
          ({ mtimeMs }) => mtimeMs,
          () => 0,
        ),
        imageBytes(path),
      ]);
      return { path, bytes, usedMs };
    }),
  );
}

/** Returns the disk space that the file systems in a directory take. They are sparse files. */
async function imageBytes(directory: string): Promise<number> {
  const names = await readdir(directory).catch(() => []);
  const images = names.filter(name => /^state-\d+\.img$/.test(name));
  const sizes = await Promise.all(
    images.map(name =>
      stat(join(directory, name)).then(
        ({ blocks }) => blocks * 512,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
