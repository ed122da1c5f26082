/**
 * Makes the layers of an environment as a server does, alone in a process. Takes a JSON object on its standard input, and
 * prints the time (ms), the bytes of the layers, and the largest resident memory (bytes).
 */
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { createChannelAccess } from '../../src/conda/channels/channel-access.ts';
import { hostsOfChannels } from '../../src/conda/channels/channel-settings.ts';
import type { CondaPackage } from '../../src/conda/conda-package.ts';
import { createArchiveFetch } from '../../src/conda/layers/archive-fetch.ts';
import { createPackageLayers } from '../../src/conda/layers/create-package-layers.ts';
import { createKeptLayers } from '../../src/conda/layers/kept-layers.ts';
import { createLayerThreads } from '../../src/conda/layers/making/layer-threads.ts';
import { noTally } from '../../src/foundation/telemetry/tally.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { openRows } from '../../src/storage/rows/rows.ts';
import { createTransport } from '../../src/upstream/transport/transport.ts';

/** The input of the program. */
export interface MakerOrder {
  /** Base URL of the channel. */
  readonly channel: string;
  readonly data: string;
  /** Environments that are made at once. */
  readonly environments: readonly (readonly CondaPackage[])[];
}

/** What the program prints. */
export interface MakerReport {
  readonly ms: number;
  readonly layerBytes: number;
  readonly residentBytes: number;
  /** The layers of each environment, the lowest first. */
  readonly environments: readonly (readonly MadeLayer[])[];
}

export interface MadeLayer {
  readonly digest: string;
  readonly size: number;
}

const order = JSON.parse(await text(process.stdin)) as MakerOrder;
const settings = [{ keys: [], url: order.channel, mirrors: [], allowPrivateAddress: true }];
const timeouts = { connectMs: 30_000, headersMs: 30_000, idleMs: 30_000 };
const transport = createTransport(hostsOfChannels(settings), timeouts);
const channels = createChannelAccess({
  channels: settings,
  transport,
  guarded: transport,
  retry: { attempts: 3, firstDelayMs: 100, longestDelayMs: 1000 },
});
const rows = openRows(`${order.data}/sluice.db`, {});
const content = await openContentDirectory(`${order.data}/content`, {
  uses: rows.contentRows,
  isOwner: true,
});
const threads = createLayerThreads();
const { cachedBlobs, packageLayers } = rows;
const limits = {
  maxCount: 1000,
  maxArchiveBytes: 2 ** 32,
  maxUnpackedBytes: 2 ** 34,
  maxFiles: 1_000_000,
  fetchTimeout: 600_000,
};
const layers = createPackageLayers({
  content,
  limits,
  tally: noTally,
  kept: createKeptLayers({ content, cachedBlobs, rows: packageLayers, threads }),
  fetchArchive: createArchiveFetch({ channels, content, limits }),
});

let residentBytes = 0;
const watch = setInterval(() => {
  residentBytes = Math.max(residentBytes, process.memoryUsage.rss());
}, 20);
const began = performance.now();
const signal = new AbortController().signal;
const made = await Promise.all(
  order.environments.map(packages => layers.make({ packages }, { signal, log: () => {} })),
);
const ms = performance.now() - began;
clearInterval(watch);
const environments = made.map(one =>
  one.layers.map(({ gzipDigest, gzipSize }) => ({ digest: gzipDigest, size: gzipSize })),
);
const sizes = new Map(environments.flat().map(({ digest, size }) => [digest, size]));
const layerBytes = [...sizes.values()].reduce((total, bytes) => total + bytes, 0);
const report: MakerReport = { ms, layerBytes, residentBytes, environments };
process.stdout.write(JSON.stringify(report));
await threads.close();
await content.close();
await rows.end();
await transport.close();
if (process.stdout.writableLength > 0) await once(process.stdout, 'drain');
