import { pushCorpus } from '../test/corpus/corpus.ts';
import { relaySite, startNginx } from '../test/world/nginx.ts';
import { startRegistry } from '../test/world/registry.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import { bytesPerSecond, secureBytesPerSecond } from './load.ts';
import { type Origin, startOrigin } from './peers/origin.ts';
import type { Part, Row } from './report.ts';
import { type MemoryWatch, watchMemory } from './resident-memory.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 5;
const image = 'corpus/big:1g';

/** (b) Relays a blob of 1 GiB, compared with nginx and with a direct download; (d) the memory that it uses. */
export async function blobs(): Promise<Part[]> {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['big:1g']);
  const contents = pushed.get('big:1g')?.image.blobs ?? [];
  const { digest = '' } = contents.toSorted((one, other) => other.size - one.size)[0] ?? {};
  await using origin = await startOrigin(registry);
  await using nginx = await startNginx(() => relaySite(origin));
  await using secureNginx = await startNginx(() => secureRelaySite(origin));
  const registries = {
    [origin.host]: { plainHttp: true, blobs: 'relay' },
    [origin.secureHost]: { ca: origin.authority, blobs: 'relay' },
  };
  await using sluice = await startMeasuredSluice({ config: { registries } });
  await using trusting = await startMeasuredSluice({
    config: { registries, upstream: { trust: '1h' } },
  });
  const path = `/v2/corpus/big/blobs/${digest}`;
  const plain = {
    sluice: await servedBlob(sluice, origin.host, digest),
    trusting: await servedBlob(trusting, origin.host, digest),
    nginx: `${nginx.url}${path}`,
    direct: (clients: number) => bytesPerSecond(`http://${origin.host}${path}`, clients),
  };
  const secure = {
    sluice: await servedBlob(sluice, origin.secureHost, digest),
    trusting: await servedBlob(trusting, origin.secureHost, digest),
    nginx: `${secureNginx.url}${path}`,
    direct: (clients: number) =>
      secureBytesPerSecond(`https://${origin.secureHost}${path}`, clients),
  };
  const memory = watchMemory(sluice.process.pid ?? 0);
  const rows: Row[] = [];
  const memoryRows: Row[] = [];
  try {
    for (const clients of [1, 8]) {
      rows.push(...(await compare('http', plain, clients)));
      rows.push(...(await compare('https', secure, clients)));
      memoryRows.push(memoryRow(memory, clients));
    }
  } finally {
    memory.stop();
  }
  return [
    { letter: 'b', title: 'A 1 GiB blob relayed', rows },
    { letter: 'd', title: 'Resident memory meanwhile', rows: memoryRows },
  ];
}

interface Ways {
  readonly sluice: string;
  /** Through a server that has verified the blob before. */
  readonly trusting: string;
  readonly nginx: string;
  readonly direct: (clients: number) => Promise<number>;
}

async function compare(scheme: string, ways: Ways, clients: number): Promise<Row[]> {
  const { ours, trusting, nginx, direct } = await interleave(
    {
      ours: () => bytesPerSecond(ways.sluice, clients),
      trusting: () => bytesPerSecond(ways.trusting, clients),
      nginx: () => bytesPerSecond(ways.nginx, clients),
      direct: () => ways.direct(clients),
    },
    rounds,
  );
  const from = `${scheme} upstream, ${clients} ${clients === 1 ? 'client' : 'clients'}`;
  const speed = (figures: readonly number[]) => `${Math.round(median(figures) / 1e6)} MB/s`;
  const isPlain = scheme === 'http';
  return [
    {
      what: `${from}: Sluice, verifying : tuned nginx`,
      figure: ratio(ours, nginx).toFixed(2),
      aim: isPlain ? '1.0' : 'the best there is',
      medians: `${speed(ours)} : ${speed(nginx)}`,
    },
    {
      what: `${from}: Sluice, verified before : tuned nginx`,
      figure: ratio(trusting, nginx).toFixed(2),
      aim: isPlain ? '0.9' : '0.95',
      medians: `${speed(trusting)} : ${speed(nginx)}`,
    },
    {
      what: `${from}: Sluice, verifying : the file fetched directly`,
      figure: ratio(ours, direct).toFixed(2),
      aim: isPlain ? '0.9' : 'the best there is',
      medians: `${speed(ours)} : ${speed(direct)}`,
    },
  ];
}

function memoryRow(memory: MemoryWatch, clients: number): Row {
  const samples = memory.next();
  const mebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;
  const quarter = Math.ceil(samples.length / 4);
  const early = median(samples.slice(0, quarter));
  const late = median(samples.slice(-quarter));
  return {
    what: `${clients} ${clients === 1 ? 'client' : 'clients'}: largest`,
    figure: mebibytes(Math.max(...samples)),
    aim: '150 MiB, flat',
    medians: `first quarter ${mebibytes(early)}, last quarter ${mebibytes(late)}`,
  };
}

async function servedBlob(sluice: Sluice, host: string, digest: string): Promise<string> {
  const { targetImage } = await sluice.request({
    containerImage: `${host}/${image}`,
    containerConfig: { env: ['A=1'] },
  });
  return sluice.at(targetImage, `blobs/${digest}`);
}

function secureRelaySite(origin: Origin) {
  const site = relaySite({ host: origin.secureHost });
  return { ...site, server: site.server.replace('http://origin', 'https://origin') };
}
