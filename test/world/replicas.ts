import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { freePort } from './free-port.ts';
import { type Nginx, startNginx } from './nginx.ts';
import type { ObjectStore } from './object-store.ts';
import type { Postgres } from './postgres.ts';
import type { Standby } from './postgres-standby.ts';
import { type SilentProxy, startSilentProxy } from './silent-proxy.ts';
import { type Sluice, startSluice } from './sluice.ts';
import { makeTempDir } from './temp-dir.ts';

/** Several servers of one site, behind a balancer. */
export interface Replicas extends AsyncDisposable {
  /** Asks any of them. */
  readonly balancer: Nginx;
  readonly servers: readonly Sluice[];
  /** What each of them is reached through by the others. Empty without `hasLinks`. */
  readonly links: readonly SilentProxy[];
  /** Address of their database. */
  readonly database: string;
  /** Bucket of their content, which is below `site/`. */
  readonly bucket: string;
  /** The directory of the keys that they share. */
  readonly keys: string;
  /** Returns the keys of the objects in the site's bucket that begin with these characters. */
  objects(prefix: string): Promise<string[]>;
  /** Returns the variables of the one at the position, for commands beside it. */
  environment(position: number): Readonly<Record<string, string>>;
  /** Returns the position of the one that leads. */
  leader(): Promise<number>;
  /** Starts the one at the position again, after `kill` or `stop`. */
  start(
    position: number,
    env?: Readonly<Record<string, string>>,
    /** Starts another program, without a check of its responses. */
    command?: readonly string[],
  ): Promise<Sluice>;
}

export interface ReplicasOptions {
  readonly postgres: Postgres;
  readonly store: ObjectStore;
  readonly count: number;
  readonly config: object;
  /** Answers lists. */
  readonly standby?: Standby;
  /** The servers reach each other through `links`. */
  readonly hasLinks?: boolean;
  /** Further variables of all servers. */
  readonly env?: Readonly<Record<string, string>>;
  /** Starts a server. Default: with a check of its responses. */
  readonly startServer?: typeof startSluice;
}

const askedMs = 2000;

/** Starts servers with a new database and a new bucket, one after the other: the first one leads. */
export async function startReplicas(options: ReplicasOptions): Promise<Replicas> {
  const { postgres, store, count, config, startServer = startSluice } = options;
  const directory = await makeTempDir('replicas');
  const keys = directory.join('keys');
  await mkdir(keys);
  for (const name of ['secrets.key', 'registry-token.key']) {
    await writeFile(directory.join(`keys/${name}`), randomBytes(32), { mode: 0o600 });
  }
  const [database, bucket] = await Promise.all([postgres.createDatabase(), store.createBucket()]);
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  const balancer = await startNginx(() => ({
    http: `
      upstream replicas {
        ${ports.map(port => `server 127.0.0.1:${port} max_fails=1 fail_timeout=1s;`).join('\n')}
        keepalive 16;
      }`,
    server: `
      location / {
        proxy_pass http://replicas;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        # Which replicas had the request, one after the other.
        add_header X-Replicas $upstream_addr always;
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_max_temp_file_size 0;
        client_max_body_size 0;
        proxy_read_timeout 300s;
      }`,
  }));
  const links = await Promise.all(
    options.hasLinks ? ports.map(port => startSilentProxy(`http://127.0.0.1:${port}`)) : [],
  );
  const servers: Sluice[] = [];
  const dataOf = (position: number) => directory.join(`data-${position}`);
  const environment = (position: number) => ({
    ...store.env,
    SLUICE_DATA: dataOf(position),
    SLUICE_DATABASE: database,
    ...(options.standby
      ? { SLUICE_READ_REPLICA_DATABASE: options.standby.addressOf(database) }
      : {}),
    SLUICE_CONTENT: `s3://${bucket}/site`,
    SLUICE_S3_ENDPOINT: store.url,
    SLUICE_S3_REGION: 'us-east-1',
    SLUICE_S3_PATH_STYLE: 'true',
    SLUICE_URL: balancer.url,
    SLUICE_REPLICA_ADDRESS: links[position]?.url ?? `http://127.0.0.1:${ports[position]}`,
    SLUICE_REPLICA_KEYS: keys,
    SLUICE_TRUSTED_PROXIES: '1',
    // nginx leaves connections that it uses before they end.
    SLUICE_STOP_DELAY: '1s',
    ...options.env,
  });
  const start: Replicas['start'] = async (position, env = {}, command = undefined) => {
    const server = await startServer({
      data: dataOf(position),
      port: ports[position] ?? 0,
      config,
      env: { ...environment(position), ...env },
      ...(command ? { command } : {}),
    });
    servers[position] = server;
    return server;
  };
  const end = async () => {
    await Promise.allSettled(servers.map(server => server.stop()));
    for (const link of links) await link[Symbol.asyncDispose]();
    await balancer.stop();
    await directory.remove();
  };
  try {
    for (const position of ports.keys()) await start(position);
  } catch (error) {
    await end();
    throw error;
  }
  const leads = async (server: Sluice): Promise<boolean> => {
    // One that was stopped by a signal does not answer.
    const metrics = await server.fetch('/metrics', { signal: AbortSignal.timeout(askedMs) }).then(
      response => response.text(),
      () => '',
    );
    return /^sluice_replica_leads 1$/m.test(metrics);
  };
  return {
    ...{ balancer, servers, links, database, bucket, keys, environment, start },
    async objects(prefix) {
      const keys: string[] = [];
      let ContinuationToken: string | undefined;
      do {
        const place = { Bucket: bucket, Prefix: `site/${prefix}`, ContinuationToken };
        const page = await store.client.send(new ListObjectsV2Command(place));
        keys.push(...(page.Contents ?? []).map(({ Key = '' }) => Key));
        ContinuationToken = page.NextContinuationToken;
      } while (ContinuationToken !== undefined);
      return keys;
    },
    async leader() {
      // A machine that stood still has let the time of a request pass. One that leads answers when it is asked again.
      for (let left = 2; ; left -= 1) {
        const found = (await Promise.all(servers.map(leads))).indexOf(true);
        if (found >= 0 || left === 0) return found;
      }
    },
    [Symbol.asyncDispose]: end,
  };
}
