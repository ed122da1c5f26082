import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Daemon, waitUntil, watch } from './daemon.ts';
import { responseCheckVariable, watchMisfits } from './misfits.ts';
import { serverCommand } from './server-command.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

export interface SluiceOptions {
  /** What the configuration file holds, such as `{ registries: { '127.0.0.1:5000': { plainHttp: true } } }`. */
  readonly config?: object;
  readonly env?: Readonly<Record<string, string>>;
  /** Directory of the state. Default: a temporary one. */
  readonly data?: string;
  /** Port to listen on. Default: chosen by the system. */
  readonly port?: number;
  /** Puts the state on a disk of this size, which only the server sees, and which is removed with the server. */
  readonly diskBytes?: number;
  /** Files that it may have open. */
  readonly descriptors?: number;
  /** Starts the server. Default: what `npm start` runs, with a check of its responses. */
  readonly command?: readonly string[];
}

export interface ContainerResponse {
  readonly requestId: string;
  readonly containerToken: string;
  readonly targetImage: string;
  readonly digest: string;
  readonly sourceDigest?: string;
  /** Only where a build began. */
  readonly buildId?: string;
  readonly expiration: string;
  readonly warnings?: readonly string[];
}

/** A request as the server wrote it into its log when its response was over. */
export interface ServedRequest {
  readonly method: string;
  /** The container token is cut out of it: `/v2/ct/<token>/corpus/cfg/manifests/full`. */
  readonly path: string;
  readonly status: number;
  /** Tells container tokens apart, see `labelOf`. */
  readonly tokenLabel?: string;
  /** The response did not arrive completely. */
  readonly aborted?: boolean;
}

/** A Sluice server in its own process, as `npm start` runs it. */
export interface Sluice extends AsyncDisposable {
  readonly url: string;
  /** `127.0.0.1:<port>` */
  readonly host: string;
  readonly port: number;
  readonly data: string;
  readonly process: ChildProcess;
  /** Its log so far, the last 256 KiB. */
  output(): string;
  /** Every request that was over until now, oldest first. */
  requests(): Promise<readonly ServedRequest[]>;
  /** `POST /v1alpha2/container`; throws with the response's text when it is not 200. */
  request(body: object): Promise<ContainerResponse>;
  /** Any request, as `fetch` makes it; `path` begins with `/`. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** URL of a served name's route: `at('127.0.0.1:1/ct/token/image:tag', 'blobs/sha256:...')`. */
  at(targetImage: string, route: string): string;
  /** Kills it at once, like a power failure. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

const compiled = fileURLToPath(new URL('../../node_modules/.cache/sluice', import.meta.url));
const responseCheck =
  process.env[responseCheckVariable] ?? new URL('response-check.ts', import.meta.url).href;

let markers = 0;

/** Starts the server without the check of its responses, which takes time and memory: for measurements. */
export function startMeasuredSluice(options: SluiceOptions = {}): Promise<Sluice> {
  return startSluice({ command: serverCommand(), ...options });
}

/** Starts the server and waits until it is ready. Checks its responses, unless a command is given. */
export async function startSluice(options: SluiceOptions = {}): Promise<Sluice> {
  const directory = await makeTempDir('server');
  const data = options.data ?? directory.join('data');
  await writeFile(directory.join('config.yaml'), JSON.stringify(options.config ?? {}));
  const disk = options.diskBytes === undefined ? [] : ownDisk(data, options.diskBytes);
  const { descriptors } = options;
  const open =
    descriptors === undefined
      ? []
      : [requireCommand('prlimit'), `--nofile=${descriptors}:${descriptors}`];
  const checked = serverCommand(['--import', responseCheck]);
  const command = ['--pdeathsig', 'KILL', ...open, ...disk, ...(options.command ?? checked)];
  const child = spawn(requireCommand('setpriv'), command, {
    cwd: new URL('../..', import.meta.url),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      // The server's own, for what is loaded before it starts.
      NODE_COMPILE_CACHE: compiled,
      SLUICE_CONFIG: directory.join('config.yaml'),
      SLUICE_DATA: data,
      SLUICE_LISTEN: `127.0.0.1:${options.port ?? 0}`,
      // No load balancer needs to notice the stop.
      SLUICE_STOP_DELAY: '0s',
      // Independent of the machine: a test names its builder.
      ...(options.config && 'buildkit' in options.config ? {} : { SLUICE_BUILDKIT: 'off' }),
      ...(namesUv(options.config) ? {} : { SLUICE_BUILDS_UV: 'off' }),
      ...(namesRates(options.config) ? {} : { SLUICE_LIMITS_REQUESTS_ANONYMOUS: 'off' }),
      // The builders of tests use the network of the machine.
      SLUICE_BUILDS_OPEN_BUILDERS: '*',
      ...options.env,
    },
  });
  const daemon = watch(child);
  const requests = readLog(daemon);
  const requireFits = watchMisfits(daemon);
  const stop = async () => {
    await daemon.stop();
    await directory.remove();
    requireFits();
  };
  const ready = /"url":"(https?:\/\/[^"]+)","listen":"([^"]+)"/;
  try {
    await waitUntil(daemon, async () => {
      if (child.signalCode !== null) throw new Error(`The server got ${child.signalCode}`);
      return ready.test(daemon.output());
    });
  } catch (error) {
    await stop();
    throw error;
  }
  const host = ready.exec(daemon.output())?.[2] ?? '';
  const url = `http://${host}`;
  const call = (path: string, init?: RequestInit) => fetch(url + path, init);
  return {
    url,
    host,
    port: Number(host.split(':').at(-1)),
    data,
    process: child,
    output: daemon.output,
    async requests() {
      // The log is written in chunks: a line of its own length has it written at once.
      const marker = `/${++markers}-${'MARK'.repeat(1200)}`;
      await (await call(marker)).arrayBuffer();
      await waitUntil(daemon, async () => requests.some(({ path }) => path === marker));
      return requests.filter(({ path }) => !path.endsWith('MARK'));
    },
    fetch: call,
    async request(body) {
      const response = await call('/v1alpha2/container', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const text = await response.text();
      if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
      return JSON.parse(text);
    },
    at(targetImage, route) {
      const path = targetImage.slice(targetImage.indexOf('/'));
      return `${url}/v2${path.replace(/(?:@[^/]*|:[^/]*)$/, '')}/${route}`;
    },
    async kill() {
      child.kill('SIGKILL');
      await daemon.ended;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function namesUv(config: object | undefined): boolean {
  const { builds } = (config ?? {}) as { builds?: object };
  return builds !== undefined && 'uv' in builds;
}

// A test sends more in a minute than a caller without a login may in an hour.
function namesRates(config: { readonly limits?: { readonly requests?: unknown } } = {}): boolean {
  return config.limits?.requests !== undefined;
}

/** The beginning of a command that runs the rest with a small file system in place of the directory. */
function ownDisk(directory: string, bytes: number): string[] {
  const script = `mkdir -p "$0" && mount -t tmpfs -o size=${bytes} tmpfs "$0" && exec "$@"`;
  return [requireCommand('unshare'), '--mount', 'sh', '-c', script, directory];
}

/** What stands for a container token in the log. */
export function labelOf({ containerToken }: ContainerResponse): string {
  return createHash('sha256').update(containerToken).digest('hex').slice(0, 12);
}

function readLog(daemon: Daemon): ServedRequest[] {
  const requests: ServedRequest[] = [];
  daemon.onLine(line => {
    if (line.includes('"msg":"request"')) requests.push(JSON.parse(line));
  });
  return requests;
}
