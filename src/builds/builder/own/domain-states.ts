import { readdir, realpath, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import { clearLeftovers, releaseMounts } from '../contained/leftovers.ts';
import type { OwnBuilder } from './builder-process.ts';

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
 * Frees disk space before a build. The largest states give way first, so that a domain that fills the disk does not end
 * the caches of others: those of running builders are pruned, the others are removed. Where that is not enough, the
 * longest unused states of domains without a builder are removed.
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
  const allBytes = Math.min(stateBytes, (bavail * bsize + bytes) * diskShare);
  const mostBytes = allBytes * keptShare;
  if (bytes <= mostBytes && count <= mostStates) return;
  const level = shareOf(states, mostBytes);
  // What is in use stays, and a file system gives its space back later: only a full disk ends the caches of others.
  const isFull = bytes > allBytes;
  for (const state of states) {
    if (state.bytes <= level || !live.has(state.path)) continue;
    await live.get(state.path)?.shrink?.(Math.floor(level));
    if (!isFull) bytes -= state.bytes - level;
  }
  const isLarge = (state: State) => Number(state.bytes > level);
  const dormant = states
    .filter(({ path }) => !live.has(path))
    .sort((one, other) => isLarge(other) - isLarge(one) || one.usedMs - other.usedMs);
  for (const { path, bytes: freed } of dormant) {
    if (bytes <= mostBytes && count <= mostStates) return;
    await rm(path, { recursive: true, force: true });
    bytes -= freed;
    count -= 1;
    log.info({ bytes: freed }, 'the state of a builder was removed, to free disk space');
  }
}

/** Returns the size that no state may exceed, so that all together have at most so many bytes. */
function shareOf(states: readonly State[], mostBytes: number): number {
  let left = mostBytes;
  const sizes = states.map(({ bytes }) => bytes).sort((one, other) => one - other);
  for (const [position, size] of sizes.entries()) {
    const share = left / (sizes.length - position);
    if (size > share) return share;
    left -= size;
  }
  return Number.POSITIVE_INFINITY;
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
