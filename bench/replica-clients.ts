import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { basic, Repository } from '../test/hosted/push-client.ts';
import { type ObjectStore, startObjectStore } from '../test/world/object-store.ts';
import { type Postgres, startPostgres } from '../test/world/postgres.ts';
import { mainThreadMs } from '../test/world/processor-time.ts';
import { startReplicas } from '../test/world/replicas.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import { replicaManifests } from './replica-manifests.ts';
import type { Part, Row } from './report.ts';
import { residentBytes, watchMemory } from './resident-memory.ts';

const run = promisify(execFile);
const clients = 10_000;
const warmClients = 100;
const atOnce = 500;
const repository = 'public/app';
// Blobs of 1 MiB and more are redirected. All bytes pass the loopback of one machine.
const layerBytes = [1024 ** 2];
const mebibyte = 1024 ** 2;

interface Crowd {
  readonly seconds: number;
  readonly failures: readonly string[];
  readonly servers: readonly { readonly requests: number; readonly bytes: number }[];
}

/**
 * (m) 10,000 clients pull one image of a bucket from 1, 2 and 4 replicas, with presigned redirects and without; and what manifests cost.
 */
export async function replicaClients(): Promise<Part[]> {
  await using postgres = await startPostgres();
  await using store = await startObjectStore();
  const rows: Row[] = [];
  for (const count of [1, 2, 4]) {
    for (const isRedirected of [false, true]) {
      const row = await measure({ postgres, store, count, isRedirected });
      console.log(`${row.what}: ${row.figure}`);
      console.log(row.medians.replaceAll('<br>', '\n'));
      rows.push(row);
    }
  }
  rows.push(...(await replicaManifests(postgres, store)));
  const size = inMebibytes(layerBytes.reduce((sum, bytes) => sum + bytes, 0));
  const title = `${clients} clients pull one image of ${size} from replicas, ${atOnce} at a time`;
  return [{ letter: 'm', title, rows }];
}

interface Site {
  readonly postgres: Postgres;
  readonly store: ObjectStore;
  readonly count: number;
  readonly isRedirected: boolean;
}

async function measure({ postgres, store, count, isRedirected }: Site): Promise<Row> {
  await using replicas = await startReplicas({
    postgres,
    store,
    count,
    startServer: startMeasuredSluice,
    config: {
      accounts: { bench: 'secret' },
      hosted: { anonymous: ['public/*'] },
      limits: { pulls: { anonymous: 'off' } },
    },
    // Clients reach the replicas directly.
    env: { SLUICE_S3_REDIRECT: String(isRedirected), SLUICE_TRUSTED_PROXIES: '0' },
  });
  const { servers } = replicas;
  const [first] = servers;
  if (!first) throw new Error('no replica');
  const image = new Repository(first, repository, basic('bench', 'secret'));
  await image.pushImage(
    '1',
    layerBytes.map(bytes => randomBytes(bytes)),
  );

  const urls = servers.map(({ url }) => url);
  const pull = async (number: number): Promise<Crowd> => {
    const script = new URL('crowd.ts', import.meta.url).pathname;
    const numbers = [number, Math.min(number, atOnce)].map(String);
    const { stdout } = await run(process.execPath, [script, ...numbers, repository, '1', ...urls]);
    return JSON.parse(stdout) as Crowd;
  };
  await pull(warmClients);

  const pids = servers.map(({ process }) => process.pid ?? 0);
  const leader = await replicas.leader();
  const [begun, sent, worked] = [residentBytes, writtenBytes, mainThreadMs].map(read =>
    pids.map(read),
  );
  const watches = pids.map(watchMemory);
  const crowd = await pull(clients);
  for (const watch of watches) watch.stop();
  if (crowd.failures.length > 0) throw new Error(crowd.failures.join('\n'));

  const { seconds } = crowd;
  const byReplica = crowd.servers.map(({ requests, bytes }, at) => {
    const pid = pids[at] ?? 0;
    const samples = watches[at]?.next() ?? [];
    const quarter = Math.ceil(samples.length / 4);
    const memory = [
      begun?.[at] ?? 0,
      Math.max(...samples.slice(0, quarter)),
      Math.max(...samples.slice(-quarter)),
      residentBytes(pid),
    ];
    const written = writtenBytes(pid) - (sent?.[at] ?? 0);
    // Of all requests: the leader answers those of the others too.
    const workMs = (mainThreadMs(pid) - (worked?.[at] ?? 0)) / clients;
    return [
      `${at === leader ? 'leader' : 'replica'}: ${Math.round(requests / seconds)} requests/s`,
      `${inMebibytes(bytes)} to its clients, ${inMebibytes(written)} in all`,
      `${workMs.toFixed(2)} ms of its main thread for each pull of the site`,
      `memory at the beginning, in the first and in the last quarter, at the end: ${memory.map(inMebibytes).join(', ')}`,
    ].join('; ');
  });
  return {
    what: `${count} ${count === 1 ? 'replica' : 'replicas'}, ${isRedirected ? 'redirected' : 'through replicas'}`,
    figure: `${Math.round(clients / seconds)} pulls/s`,
    aim: 'memory flat',
    medians: byReplica.join('<br>'),
  };
}

function inMebibytes(bytes: number): string {
  return `${Math.round(bytes / mebibyte)} MiB`;
}

/** Returns the bytes that a process has written: to clients, to other replicas, to stores. Source: proc(5), wchar. */
function writtenBytes(pid: number): number {
  return Number(/^wchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1]);
}
