import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { readAll } from '../../upstream/index.ts';
import type { ChannelAccess } from '../channels/channel-access.ts';
import { plainBase } from '../channels/channel-address.ts';
import { ChannelFault } from '../channels/channel-fault.ts';
import { maxShardBytes } from './shards/read-index.ts';

export interface ShardStoreDeps {
  readonly channels: ChannelAccess;
  /** Its own directory. */
  readonly directory: string;
  readonly maxBytes: number;
}

/** Shards of channels by their digest, which says all about them: what is kept never changes. */
export interface ShardStore {
  /**
   * Returns a compressed shard, from the disk or from the channel. Throws a `Fault` when the channel does not have it, or
   * sends something else.
   *
   * @param base upstream URL of the shards, with a slash at the end
   * @param onFetched receives the bytes that came from the channel
   */
  read(
    base: string,
    hex: string,
    signal: AbortSignal,
    onFetched?: (bytes: number) => void,
  ): Promise<Buffer>;
}

const fetchesAtOnce = 32;

/**
 * Keeps shards in two generations: when the newer one has half of the bytes, the older one is removed. A shard that is
 * read moves into the newer one. Each start begins a generation, so that nothing needs to be counted.
 */
export function createShardStore({ channels, directory, maxBytes }: ShardStoreDeps): ShardStore {
  const reads = new SingleFlight<Buffer>();
  const turns = new SingleFlight<void>();
  const queue = new Semaphore({ limit: fetchesAtOnce });
  let current = 0;
  let written = 0;

  const turn = async (): Promise<void> => {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const generations = (await readdir(directory))
      .map(Number)
      .filter(Number.isSafeInteger)
      .sort((a, b) => b - a);
    const [newest = 0, ...older] = generations;
    for (const old of older) {
      await rm(join(directory, String(old)), { recursive: true, force: true });
    }
    current = newest + 1;
    written = 0;
    await mkdir(join(directory, String(current)), { recursive: true, mode: 0o700 });
  };
  const ready = turn();
  ready.catch(() => {});

  const pathOf = (generation: number, hex: string) =>
    join(directory, String(generation), hex.slice(0, 2), hex);

  const keep = async (hex: string, bytes: Buffer): Promise<void> => {
    if (written > maxBytes / 2) await turns.run(turn);
    written += bytes.length;
    const path = pathOf(current, hex);
    const draft = `${path}.${randomUUID()}`;
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    try {
      // Not brought to the disk: a shard is checked each time it is read.
      await writeFile(draft, bytes, { mode: 0o600 });
      await rename(draft, path);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  };

  const kept = async (hex: string): Promise<Buffer | undefined> => {
    const isRight = (bytes: Buffer | undefined) => bytes && digestOf(bytes) === hex;
    const found = await readFile(pathOf(current, hex)).catch(() => undefined);
    if (isRight(found)) return found;
    const older = await readFile(pathOf(current - 1, hex)).catch(() => undefined);
    if (older === undefined || !isRight(older)) return undefined;
    // A full disk costs speed only.
    await keep(hex, older).catch(() => {});
    return older;
  };

  const fetch = async (
    base: string,
    hex: string,
    signal: AbortSignal,
    onFetched: (bytes: number) => void,
  ): Promise<Buffer> => {
    const url = `${base}${hex}.msgpack.zst`;
    const shown = `${plainBase(base)}/${hex}.msgpack.zst`;
    const { body } = await channels.open(url, { signal });
    const bytes = await readAll(body, maxShardBytes, `The repository data ${shown}`);
    if (digestOf(bytes) !== hex) {
      throw new ChannelFault(
        `The repository data ${shown} has the wrong digest: the channel is being changed, or a proxy answers in its place. Try later`,
        undefined,
      );
    }
    onFetched(bytes.length);
    await keep(hex, bytes).catch(() => {});
    return bytes;
  };

  return {
    async read(base, hex, signal, onFetched = () => {}) {
      await ready.catch(() => {});
      const read = async (stop: AbortSignal) =>
        (await kept(hex)) ?? (await fetch(base, hex, stop, onFetched));
      return reads.run(stop => queue.run(() => read(stop), { signal: stop }), {
        key: `${base} ${hex}`,
        signal,
      });
    },
  };
}

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
