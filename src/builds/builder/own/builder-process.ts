import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isExecutable } from '../../../foundation/limited-program.ts';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import { socketError } from '../builder-refusals.ts';

/** A buildkitd that this process has started. */
export interface OwnBuilder {
  readonly address: string;
  /** True if it has its own network and limits. */
  readonly isContained: boolean;
  /** Adapts its network to the current addresses of names and of the machine, and frees space on its disk. */
  refresh(): Promise<void>;
  /** Prunes its cache to this size; absent for a builder without a disk of its own. */
  shrink?(bytes: number): Promise<void>;
  hasEnded(): boolean;
  /** Returns false if the builder runs but is unusable: its socket or its disk is gone. */
  isWhole(): Promise<boolean>;
  /** True if it replaces a contained builder whose start failed. */
  readonly mayContainLater?: boolean;
  stop(): Promise<void>;
}

/** Share of the memory of a build that a builder takes before it collects garbage more often. */
const usualShare = 0.8;

/** Returns the variables that make a builder give memory back early: a build has this limit. */
export function memoryOfDaemon({ memoryBytes }: { readonly memoryBytes: number }) {
  return { GOMEMLIMIT: String(Math.floor(memoryBytes * usualShare)) };
}

const readyMs = 60_000;
const pollMs = 50;
const stopMs = 10_000;

interface RunOptions {
  readonly command: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Removed after the builder has ended. */
  readonly folder: string;
  readonly log: Logger;
  /** True if it ends when its input closes. Keys typed at the server's terminal do not reach it. */
  readonly isDetached?: boolean;
  /** Called when the builder ends unexpectedly. */
  readonly onEnd?: () => Promise<void>;
}

/** Starts buildkitd and waits until it listens. Throws its output if it does not. */
export async function runBuilder({
  command: [command = '', ...args],
  env,
  folder,
  log,
  ...more
}: RunOptions) {
  const { isDetached: detached = false, onEnd } = more;
  const socket = join(folder, socketName);
  const child = spawn(command, args, { env, detached, stdio: ['pipe', 'ignore', 'pipe'] });
  let output = '';
  child.on('error', error => {
    output += error.message;
  });
  // A process that has ended is handled below. Without free descriptors it has no streams.
  child.stdin?.on('error', () => {});
  child.stderr?.on('data', data => {
    output = (output + data).slice(-4000);
  });
  child.once('exit', code => {
    log.warn({ code, output }, 'buildkitd ended');
    // The next builder gets its own folder.
    rm(folder, { recursive: true, force: true }).catch(() => {});
    onEnd?.().catch(err =>
      log.warn(
        { err },
        'cannot remove what buildkitd left behind: the next builder does not use it',
      ),
    );
  });
  const deadline = performance.now() + readyMs;
  // The socket is there a moment before the builder listens.
  while (!existsSync(socket) || (await socketError(socket)) !== undefined) {
    if (hasEnded(child) || performance.now() > deadline) {
      child.kill('SIGKILL');
      await rm(folder, { recursive: true, force: true });
      throw new Error(`buildkitd does not start: ${output}`);
    }
    await sleep(pollMs);
  }
  // It has been there before the other one.
  await rm(join(folder, traceSocketName), { force: true });
  return {
    address: `unix://${socket}`,
    pid: child.pid,
    hasEnded: () => hasEnded(child),
    isWhole: async () => existsSync(socket),
    write: (line: string) => void child.stdin.write(line),
    async stop(ask: (child: ChildProcess) => void) {
      child.removeAllListeners('exit');
      if (!hasEnded(child)) {
        const ended = once(child, 'exit');
        ask(child);
        await Promise.race([ended, sleep(stopMs, undefined, { ref: false })]);
        child.kill('SIGKILL');
        await ended;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A buildkitd that listens. */
export type BuilderProcess = Awaited<ReturnType<typeof runBuilder>>;

function hasEnded({ exitCode, signalCode, pid }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null || pid === undefined;
}

/** Name of a builder's socket, in the folder that is made for it. */
const socketName = 'buildkitd.sock';

/**
 * Name of the socket that takes traces, in the same folder. BuildKit would mount it into each step, and keep all that steps
 * send in memory that no limit of builds counts. It mounts none that does not exist.
 */
const traceSocketName = 'otel.sock';

interface ConfigurationOptions {
  readonly root: string;
  readonly folder: string;
  readonly plainHttp: readonly string[];
}

/**
 * Returns the text of buildkitd.toml. All options are in this file, not in flags: other versions and builds of
 * buildkitd support fewer flags.
 *
 * @param worker lines below `[worker.oci]`
 */
export function builderConfiguration(
  { root, folder, plainHttp }: ConfigurationOptions,
  worker: readonly string[],
): string {
  return [
    `root = ${tomlText(root)}`,
    `[grpc]\n  address = [${tomlText(`unix://${join(folder, socketName)}`)}]`,
    `[otel]\n  socketPath = ${tomlText(join(folder, traceSocketName))}`,
    `[worker.oci]\n  ${worker.join('\n  ')}`,
    '[worker.containerd]\n  enabled = false',
    // A device of the machine may be marked for all builds.
    '[cdi]\n  disabled = true',
    ...plainHttp.map(host => `[registry.${tomlText(host)}]\n  http = true`),
    '',
  ].join('\n');
}

// Every JSON string is a basic string of TOML. Source: TOML 1.0.0, String.
function tomlText(text: string): string {
  return JSON.stringify(text);
}

/** Returns the path of a program in the folders of `path` (format of the variable PATH); undefined if none has it. */
export function findProgram(name: string, path: string): string | undefined {
  return path
    .split(delimiter)
    .filter(folder => folder !== '')
    .map(folder => join(folder, name))
    .find(isExecutable);
}
