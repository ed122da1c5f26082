import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../telemetry.ts';

export interface OwnBuilderOptions {
  /** Where its state goes. */
  readonly directory: string;
  /** Folders to look for buildkitd in besides those of the PATH. */
  readonly folders: readonly string[];
  /** The PATH, that of this process unless told. */
  readonly path?: string | undefined;
  /** Registries that are spoken to without TLS. */
  readonly plainHttp: readonly string[];
  readonly log: Logger;
}

/** A buildkitd that this process has started. */
export interface OwnBuilder {
  readonly address: string;
  hasEnded(): boolean;
  stop(): Promise<void>;
}

const readyMs = 60_000;
const pollMs = 50;
const stopMs = 10_000;
// That of a server which was killed ends its builds first.
const lockTries = 10;
const lockPauseMs = 1000;

/**
 * Starts buildkitd and waits until it listens; undefined where it is not installed. Who is not root
 * has it run in a user namespace, for which RootlessKit must be installed.
 */
export async function startOwnBuilder(options: OwnBuilderOptions): Promise<OwnBuilder | undefined> {
  const inherited = [process.env.PATH ?? '', '/usr/sbin', '/sbin'].join(delimiter);
  const path = [...options.folders, options.path ?? inherited].join(delimiter);
  const program = findProgram('buildkitd', path);
  if (program === undefined) return undefined;
  for (let tried = 1; ; tried += 1) {
    try {
      return await start(program, path, options);
    } catch (error) {
      const isLocked = /could not lock/.test((error as Error).message);
      if (!isLocked || tried === lockTries) throw error;
      await sleep(lockPauseMs);
    }
  }
}

async function start(
  program: string,
  path: string,
  { directory, plainHttp, log }: OwnBuilderOptions,
): Promise<OwnBuilder> {
  await mkdir(directory, { recursive: true });
  // The path of a socket may have some hundred bytes only, that of the data directory may have more.
  const socketFolder = await mkdtemp(join(tmpdir(), 'sluice-buildkit-'));
  const socket = join(socketFolder, 'buildkitd.sock');
  const config = join(directory, 'buildkitd.toml');
  await writeFile(config, configuration(directory, socketFolder, socket, plainHttp));
  // It must not outlive this process, however that ends: the next one needs its state.
  const [command = '', ...args] = [...leash(path), ...namespace(path), program, '--config', config];
  const child = spawn(command, args, {
    // Who is not root has no other place for what runs.
    env: { XDG_RUNTIME_DIR: socketFolder, ...process.env, PATH: path },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr?.on('data', data => {
    output = (output + data).slice(-4000);
  });
  child.on('error', error => {
    output += error.message;
  });
  child.once('exit', code => {
    log.warn({ code, output }, 'buildkitd ended');
    // The next one gets a folder of its own.
    rm(socketFolder, { recursive: true, force: true }).catch(() => {});
  });
  const deadline = Date.now() + readyMs;
  while (!existsSync(socket)) {
    if (hasEnded(child) || Date.now() > deadline) {
      child.kill('SIGKILL');
      await rm(socketFolder, { recursive: true, force: true });
      throw new Error(`buildkitd does not start: ${output}`);
    }
    await sleep(pollMs);
  }
  log.info({ program, socket }, 'buildkitd started');
  return {
    address: `unix://${socket}`,
    hasEnded: () => hasEnded(child),
    async stop() {
      child.removeAllListeners('exit');
      if (!hasEnded(child)) {
        const ended = once(child, 'exit');
        child.kill('SIGTERM');
        await Promise.race([ended, sleep(stopMs, undefined, { ref: false })]);
        child.kill('SIGKILL');
      }
      await rm(socketFolder, { recursive: true, force: true });
    },
  };
}

/** The beginning of a command that ends the rest when this process ends; nothing where that cannot be had. */
function leash(path: string): string[] {
  const setpriv = findProgram('setpriv', path);
  if (setpriv === undefined) return [];
  const command = [setpriv, '--pdeathsig', 'TERM'];
  // That of busybox does less.
  return spawnSync(setpriv, [...command.slice(1), 'true']).status === 0 ? command : [];
}

/** The beginning of a command that runs the rest as root of a namespace of its own. */
function namespace(path: string): string[] {
  if (process.getuid?.() === 0) return [];
  const rootlesskit = findProgram('rootlesskit', path);
  if (rootlesskit !== undefined) return [rootlesskit, '--net=host'];
  throw new Error('buildkitd needs root, or RootlessKit: install the package rootlesskit');
}

/** All of it is here and not in flags: builders of other versions and builds know fewer of those. */
function configuration(
  directory: string,
  socketFolder: string,
  socket: string,
  plainHttp: readonly string[],
): string {
  return [
    `root = ${quoted(join(directory, 'state'))}`,
    `[grpc]\n  address = [${quoted(`unix://${socket}`)}]`,
    `[otel]\n  socketPath = ${quoted(join(socketFolder, 'otel.sock'))}`,
    '[worker.oci]\n  networkMode = "host"',
    '[worker.containerd]\n  enabled = false',
    ...plainHttp.map(host => `[registry.${quoted(host)}]\n  http = true`),
    '',
  ].join('\n');
}

// A basic string of TOML is one of JSON. Source: TOML 1.0.0, String.
function quoted(text: string): string {
  return JSON.stringify(text);
}

function hasEnded({ exitCode, signalCode, pid }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null || pid === undefined;
}

function findProgram(name: string, path: string): string | undefined {
  return path
    .split(delimiter)
    .filter(folder => folder !== '')
    .map(folder => join(folder, name))
    .find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
