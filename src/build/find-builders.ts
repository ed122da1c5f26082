import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../telemetry.ts';
import type { FindBuilders } from './builders.ts';

export interface FindBuildersOptions {
  /** As configured; `off` among them means that there are to be none. */
  readonly configured: readonly string[];
  /** Where the state of a builder of our own goes. */
  readonly directory: string;
  /** Folders to look for buildkitd in besides those of the PATH. */
  readonly folders: readonly string[];
  /** Registries that are spoken to without TLS. */
  readonly plainHttp: readonly string[];
  /** Installs buildkitd into one of the folders; absent where nothing may be installed. */
  readonly bring?: (() => Promise<void>) | undefined;
  readonly log: Logger;
}

export interface FoundBuilders {
  readonly find: FindBuilders;
  /** True while a builder is being installed: {@link find} waits for it. */
  isComing(): boolean;
  /** Stops a builder of our own. */
  close(): Promise<void>;
}

// Where builders listen that somebody else has started.
const usualSockets = [
  ['unix', '/run/buildkit/buildkitd.sock'],
  ['unix', join(process.env.XDG_RUNTIME_DIR ?? '/nonexistent', 'buildkit/buildkitd.sock')],
  ['docker+unix', '/var/run/docker.sock'],
] as const;

/** The configured builders; else one that runs already; else a buildkitd of our own. */
export function findBuilders(options: FindBuildersOptions): FoundBuilders {
  const { configured, log } = options;
  let own: Promise<OwnBuilder | undefined> | undefined;
  let isComing = false;

  const startOrBring = async (): Promise<OwnBuilder | undefined> => {
    const started = await startOwn(options);
    if (started || !options.bring) return started;
    isComing = true;
    log.info('there is no builder: BuildKit is being installed, builds wait for it');
    try {
      await options.bring();
      log.info('BuildKit is installed');
    } finally {
      isComing = false;
    }
    return startOwn(options);
  };

  const find: FindBuilders = async () => {
    if (configured.includes('off')) return [];
    if (configured.length > 0) return configured;
    const running = usualSockets.find(([, path]) => existsSync(path));
    if (running) return [`${running[0]}://${running[1]}`];
    own ??= startOrBring().catch(err => {
      log.error({ err }, 'buildkitd cannot be started');
      own = undefined;
      return undefined;
    });
    const started = await own;
    if (started?.child.exitCode !== null || started.child.signalCode !== null) own = undefined;
    return started ? [started.address] : [];
  };

  // What takes minutes begins now, so that it is there when the first build comes.
  if (options.bring) find().catch(() => {});

  return {
    find,
    isComing: () => isComing,
    async close() {
      // One that is still being installed is not waited for.
      const started = isComing ? undefined : await own;
      if (started) await stop(started);
    },
  };
}

interface OwnBuilder {
  readonly address: string;
  readonly child: ChildProcess;
  readonly socketFolder: string;
}

const readyMs = 20_000;
const pollMs = 50;
const stopMs = 10_000;

async function startOwn({
  directory,
  folders,
  plainHttp,
  log,
}: FindBuildersOptions): Promise<OwnBuilder | undefined> {
  const path = [...folders, process.env.PATH ?? '', '/usr/sbin', '/sbin'].join(delimiter);
  const program = path
    .split(delimiter)
    .map(folder => join(folder, 'buildkitd'))
    .find(isExecutable);
  if (program === undefined) return undefined;
  await mkdir(directory, { recursive: true });
  // The path of a socket may have some hundred bytes only, that of the data directory may have more.
  const socketFolder = await mkdtemp(join(tmpdir(), 'sluice-buildkit-'));
  const socket = join(socketFolder, 'buildkitd.sock');
  const config = join(directory, 'buildkitd.toml');
  await writeFile(config, plainHttp.map(host => `[registry."${host}"]\n  http = true\n`).join(''));
  const child = spawn(
    program,
    [
      ...['--root', join(directory, 'state'), '--addr', `unix://${socket}`, '--config', config],
      ...['--oci-worker-net=host', '--containerd-worker=false'],
      ...['--otel-socket-path', join(socketFolder, 'otel.sock')],
    ],
    { env: { ...process.env, PATH: path }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let output = '';
  child.stderr?.on('data', data => {
    output = (output + data).slice(-4000);
  });
  child.once('exit', code => log.warn({ code, output }, 'buildkitd ended'));
  const deadline = Date.now() + readyMs;
  while (!existsSync(socket)) {
    if (child.exitCode !== null || Date.now() > deadline) {
      child.kill('SIGKILL');
      throw new Error(`buildkitd does not start: ${output}`);
    }
    await sleep(pollMs);
  }
  log.info({ program, socket }, 'buildkitd started');
  return { address: `unix://${socket}`, child, socketFolder };
}

async function stop({ child, socketFolder }: OwnBuilder): Promise<void> {
  child.removeAllListeners('exit');
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await Promise.race([ended, sleep(stopMs, undefined, { ref: false })]);
    child.kill('SIGKILL');
  }
  await rm(socketFolder, { recursive: true, force: true });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
