/** A server with all that it works with: registries, a channel of Conda, certificates. */
import { randomBytes } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { fileURLToPath } from 'node:url';
import { type ScriptedUpstream, startScriptedUpstream } from '../faults/scripted-upstream.ts';
import { administered } from '../hosted/push-client.ts';
import { type Certificates, makeCertificates } from '../world/certificates.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { startReplicas } from '../world/replicas.ts';
import { serverCommand } from '../world/server-command.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import type { Measured } from './figures.ts';
import { probeVariable } from './probe.ts';

export interface SoakWorld extends AsyncDisposable {
  readonly servers: readonly Sluice[];
  /** What is measured of each server. */
  readonly measured: readonly Measured[];
  readonly relay: ScriptedUpstream;
  readonly cache: ScriptedUpstream;
  /** While true, the registries drop each connection. */
  outage: boolean;
  readonly channels: CondaChannels;
  /** Host of the names that the servers give. */
  readonly ownHost: string;
  /** Address of the TLS listener of the server; absent with replicas. */
  readonly secure: string | undefined;
  /** Replaces the certificate of the server. */
  renewCertificate(): Promise<void>;
  /** Accepts both certificates. */
  agent(): Agent;
}

/** Packages are as many as this; each build takes some of them. */
export const packageCount = 8;
const unlimited = { anonymous: 'off', authenticated: 'off' };
const settings = {
  ...administered,
  tokenLife: '60s',
  tokens: { maxLife: '2m' },
  rightLife: '1s',
  sweep: { interval: '1s', grace: '30s' },
  hosted: { uploadLife: '1s', contextLife: '1s' },
  builds: { conda: 'native', keep: '2s', keepFailed: '2s', keepAnonymous: '2s' },
  audit: { keep: '2s' },
  scrub: { trust: '2s', interval: '5s', bytesPerSecond: 'off' },
  // More than some rounds bring.
  cacheBytes: '4 MiB',
  limits: { pulls: unlimited, requests: unlimited, builds: unlimited, logins: '100000/hour' },
} as const;

/**
 * Starts one server with its own database, or several replicas.
 *
 * @param snapshots a folder for what is on the heap of a server, which SIGUSR2 then writes
 */
export async function startSoakWorld({
  replicas = 1,
  snapshots,
}: {
  readonly replicas?: number;
  readonly snapshots?: string | undefined;
} = {}): Promise<SoakWorld> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await makeTempDir('soak'));
  const relay = stack.use(await startScriptedUpstream());
  const cache = stack.use(await startScriptedUpstream());
  const channels = stack.use(await startCondaChannels({ soak: packages() }));
  const config = {
    ...settings,
    channels: channels.settings,
    registries: {
      [relay.host]: { plainHttp: true, blobs: 'relay' },
      [cache.host]: { plainHttp: true, blobs: 'cache' },
    },
  };
  const inspected = snapshots
    ? ['--heapsnapshot-signal=SIGUSR2', `--diagnostic-dir=${snapshots}`]
    : [];
  const server = fileURLToPath(new URL('server.ts', import.meta.url));
  const command = serverCommand(inspected).map(word => (word === 'bin/sluice.js' ? server : word));
  const socketOf = (at: number) => directory.join(`probe-${at}`);
  const site =
    replicas === 1
      ? await startOne(directory.path, socketOf(0), config, command)
      : await startSeveral(replicas, socketOf, config, command);
  stack.use(site);
  const owned = stack.move();
  const world: SoakWorld = {
    ...{ servers: site.servers, relay, cache, channels, outage: false },
    ...{ secure: site.secure, ownHost: site.ownHost },
    measured: site.servers.map((server, at) => ({
      ...{ pid: server.process.pid ?? 0, data: server.data, probe: socketOf(at) },
      ports: [server.port, ...(site.secure ? [Number(site.secure.split(':').at(-1))] : [])],
      ...(site.database === undefined ? {} : { database: site.database }),
    })),
    renewCertificate: site.renew,
    agent: () => new Agent({ rejectUnauthorized: false }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  for (const upstream of [relay, cache]) {
    upstream.on('', (request, _response, serve) =>
      world.outage ? request.socket.destroy() : serve(),
    );
  }
  return world;
}

interface Site extends AsyncDisposable {
  readonly servers: readonly Sluice[];
  readonly secure: string | undefined;
  readonly ownHost: string;
  readonly database?: string;
  renew(): Promise<void>;
}

async function startOne(
  directory: string,
  socket: string,
  config: object,
  command: readonly string[],
): Promise<Site> {
  const own = ['one', 'other'].map(name => makeCertificates(`${directory}/${name}`));
  const [one, other] = (await Promise.all(own)) as [Certificates, Certificates];
  const used = await makeCertificates(`${directory}/used`);
  const server = await startSluice({
    config: { ...config, tls: { ...used, authority: undefined, listen: '127.0.0.1:0' } },
    env: { [probeVariable]: socket },
    command,
  });
  let next = one;
  const secure = /"tls":"([^"]+)"/.exec(server.output())?.[1] ?? '';
  return {
    ...{ servers: [server], secure, ownHost: secure },
    async renew() {
      await copyFile(next.key, used.key);
      await copyFile(next.certificate, used.certificate);
      next = next === one ? other : one;
    },
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

async function startSeveral(
  count: number,
  socketOf: (at: number) => string,
  config: object,
  command: readonly string[],
): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const postgres: Postgres = stack.use(await startPostgres());
  const store: ObjectStore = stack.use(await startObjectStore());
  let started = 0;
  const replicas = stack.use(
    await startReplicas({
      ...{ postgres, store, count, config },
      startServer: options => {
        const env = { ...options?.env, [probeVariable]: socketOf(started) };
        started += 1;
        return startSluice({ ...options, env, command });
      },
    }),
  );
  const owned = stack.move();
  return {
    ...{ servers: replicas.servers, secure: undefined, ownHost: replicas.balancer.host },
    database: replicas.database,
    renew: async () => {},
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function packages() {
  return Array.from({ length: packageCount }, (_, at) => ({
    ...{ name: `package-${at}`, version: '1', noarch: 'generic' as const },
    files: Array.from({ length: 5 }, (__, file) => ({
      name: `share/package-${at}/${file}`,
      content: randomBytes(2000),
    })),
  }));
}
