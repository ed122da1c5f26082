import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, realpath, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import { startContained } from '../contained/contained-builder.ts';
import { type ContainmentOptions, obstacleToContainment } from '../contained/containment.ts';
import { releaseMounts } from '../contained/leftovers.ts';
import {
  builderConfiguration,
  findProgram,
  memoryOfDaemon,
  type OwnBuilder,
  runBuilder,
} from './builder-process.ts';

export interface OwnBuilderOptions {
  /** Directory for its state. */
  readonly directory: string;
  /** Folders in which buildkitd is looked up, in addition to the PATH. */
  readonly folders: readonly string[];
  /** The PATH. Default: the PATH of this process. */
  readonly path?: string | undefined;
  /** Registries that are contacted without TLS. */
  readonly plainHttp: readonly string[];
  /** Its own network and limits. Without this, the builder uses those of the machine. */
  readonly containment?: ContainmentOptions | undefined;
  /** False if the containment has just failed, and is not tried now. Default: true. */
  readonly mayContain?: boolean;
  readonly log: Logger;
}

// The builder of a killed server finishes its builds first.
const lockTries = 10;
const lockPauseMs = 1000;

/**
 * Starts buildkitd and waits until it listens; returns undefined if it is not installed. As root, it has its own
 * network and limits if the machine supports them. Without root, it runs in a user namespace, which requires
 * RootlessKit.
 */
export async function startOwnBuilder(given: OwnBuilderOptions): Promise<OwnBuilder | undefined> {
  const options = { ...given, directory: resolve(given.directory) };
  const path = builderPath(options);
  const program = findProgram('buildkitd', path);
  if (program === undefined) return undefined;
  const { containment, mayContain = true, log } = options;
  let mayContainLater = !mayContain;
  if (containment !== undefined && mayContain) {
    try {
      const obstacle = obstacleToContainment(path);
      if (obstacle === undefined) {
        return await startContained({ ...options, program, path, containment });
      }
      log.warn(closedToAnonymous(obstacle));
    } catch (err) {
      mayContainLater = true;
      log.error({ err }, closedToAnonymous('its start failed'));
    }
  }
  for (let tried = 1; ; tried += 1) {
    try {
      return { ...(await startPlain(program, path, options)), mayContainLater };
    } catch (error) {
      const isLocked = /could not lock/.test((error as Error).message);
      if (!isLocked || tried === lockTries) throw error;
      await sleep(lockPauseMs);
    }
  }
}

/** Returns whether the programs are installed that {@link startOwnBuilder} requires. */
export function hasOwnBuilder(options: Pick<OwnBuilderOptions, 'folders' | 'path'>): boolean {
  const path = builderPath(options);
  const isRoot = process.getuid?.() === 0;
  const programs = isRoot ? ['buildkitd'] : ['buildkitd', 'rootlesskit'];
  return programs.every(name => findProgram(name, path) !== undefined);
}

/** Returns the log line for a builder that only callers with a login may use. */
export function closedToAnonymous(obstacle: string): string {
  return `builds of callers without a login are off: the builder that this server starts cannot get its own network and limits (${obstacle})`;
}

/** Returns the PATH in which the programs of a builder are looked up. */
export function builderPath({
  folders,
  path,
}: Pick<OwnBuilderOptions, 'folders' | 'path'>): string {
  const inherited = [process.env.PATH ?? '', '/usr/sbin', '/sbin'].join(delimiter);
  return [...folders, path ?? inherited].join(delimiter);
}

/** Starts it in the machine's network, without limits. */
async function startPlain(
  program: string,
  path: string,
  { directory, plainHttp, containment, log }: OwnBuilderOptions,
): Promise<OwnBuilder> {
  await mkdir(directory, { recursive: true });
  const release = async () => void (await releaseMounts(await realpath(directory)));
  // The mounts of a builder that was killed with its server.
  await release();
  // The path of a socket is limited to about a hundred bytes. The path of the data directory may be longer.
  const folder = await mkdtemp(join(tmpdir(), 'sluice-buildkit-'));
  const config = join(directory, 'buildkitd.toml');
  const root = join(directory, 'state');
  await writeFile(
    config,
    builderConfiguration({ root, folder, plainHttp }, ['networkMode = "host"']),
  );
  // The builder must not outlive this process, however this process ends: the next one needs its state.
  const command = [...leash(path), ...expendable, ...namespace(path), program, '--config', config];
  // Only root has another place for runtime files.
  const own = { XDG_RUNTIME_DIR: folder, ...(containment ? memoryOfDaemon(containment.each) : {}) };
  const env = { ...own, ...process.env, PATH: path };
  const daemon = await runBuilder({ command, env, folder, log, onEnd: release });
  log.info({ program, address: daemon.address }, 'buildkitd started');
  return {
    ...daemon,
    isContained: false,
    async refresh() {},
    async stop() {
      await daemon.stop(child => child.kill('SIGTERM'));
      await release();
    },
  };
}

/** Returns the first words of a command that ends the rest when this process ends; empty where that is impossible. */
function leash(path: string): string[] {
  const setpriv = findProgram('setpriv', path);
  if (setpriv === undefined) return [];
  const command = [setpriv, '--pdeathsig', 'TERM'];
  // The setpriv of busybox has fewer options.
  return spawnSync(setpriv, [...command.slice(1), 'true']).status === 0 ? command : [];
}

/** The first words of a command whose rest the kernel ends before this process when the machine has no memory left. */
const expendable = ['sh', '-c', 'echo 500 > /proc/self/oom_score_adj; exec "$0" "$@"'];

/** Returns the first words of a command that runs the rest as root of its own namespace. */
function namespace(path: string): string[] {
  if (process.getuid?.() === 0) return [];
  const rootlesskit = findProgram('rootlesskit', path);
  if (rootlesskit !== undefined) return [rootlesskit, '--net=host'];
  throw new Error('buildkitd requires root, or RootlessKit: install the package rootlesskit');
}
