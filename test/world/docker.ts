import assert from 'node:assert/strict';
import { copyFile, link, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { waitUntil } from './daemon.ts';
import type { Result } from './program.ts';
import { type ExecOptions, openRoot, type Root } from './root.ts';
import type { Suite } from './tools.ts';

export interface DockerOptions {
  readonly suite: Suite;
  /** Docker's classic store, or containerd's image store (trixie and forky only). */
  readonly store?: 'overlay2' | 'containerd';
  /** Registries that are plain HTTP; those on 127.0.0.0/8 need not be named. */
  readonly insecure?: readonly string[];
  /** More settings of `daemon.json`, such as `registry-mirrors`. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** More files of the root by absolute path, such as those of `trustFiles`. */
  readonly files?: Readonly<Record<string, string>>;
  /** Gives it its own network, in which its containers have networks as usual. */
  readonly ownNetwork?: boolean;
  /** Puts its files on a disk. Default: into memory, where there is room. */
  readonly onDisk?: boolean;
}

/** A running Docker engine and its command line. */
export interface Docker extends AsyncDisposable {
  readonly root: Root;
  /** The engine's socket, on the machine. */
  readonly socket: string;
  /** Runs `docker <args>`. */
  docker(args: readonly string[], options?: ExecOptions): Promise<Result>;
  /** Loads images from files of this machine. */
  load(files: readonly string[]): Promise<void>;
  pull(reference: string, options?: ExecOptions): Promise<Result>;
  /** Pushes an image of the engine under another name. */
  push(image: string, reference: string): Promise<Result>;
  /** Runs an image on the machine's network, as its configuration specifies or with a command. */
  run(reference: string, command?: readonly string[]): Promise<Result>;
  login(host: string, account: { username: string; password: string }): Promise<Result>;
  stop(): Promise<void>;
}

/** Starts a Docker engine in a private root. Without `ownNetwork`, containers have only `--network host` or `none`. */
export async function startDocker(options: DockerOptions): Promise<Docker> {
  const root = await openRoot(options.suite, options);
  const docker = (args: readonly string[], execOptions?: ExecOptions) =>
    root.exec(['docker', ...args], execOptions);
  try {
    await writeFile(join(root.directory, 'run/daemon.json'), settings(options, root));
    const daemon = root.spawn(['dockerd', '--config-file', '/run/daemon.json']);
    await waitUntil(daemon, async () => (await docker(['version'])).code === 0);
  } catch (error) {
    await root.close();
    throw error;
  }
  return {
    root,
    socket: join(root.directory, 'run/docker.sock'),
    docker,
    async load(files) {
      const seen = join(root.directory, 'tmp/image');
      for (const file of files) {
        // A file that is kept may be on another disk.
        await link(file, seen).catch(() => copyFile(file, seen));
        const { code, stderr } = await docker(['load', '--input', '/tmp/image']);
        assert.equal(code, 0, stderr);
        await unlink(seen);
      }
    },
    pull: (reference, execOptions) => docker(['pull', reference], execOptions),
    async push(image, reference) {
      const tagged = await docker(['tag', image, reference]);
      return tagged.code === 0 ? docker(['push', reference]) : tagged;
    },
    run: (reference, command = []) =>
      docker(['run', '--rm', '--network', 'host', reference, ...command]),
    login: (host, { username, password }) =>
      docker(['login', '--username', username, '--password-stdin', host], { input: password }),
    stop: root.close,
    [Symbol.asyncDispose]: root.close,
  };
}

function settings(options: DockerOptions, root: Root): string {
  const { store = 'overlay2', insecure = [], config } = options;
  return JSON.stringify({
    hosts: ['unix:///run/docker.sock'],
    'storage-driver': store === 'containerd' ? 'overlayfs' : 'overlay2',
    features: { 'containerd-snapshotter': store === 'containerd' },
    'insecure-registries': insecure,
    ...(options.ownNetwork ? {} : { bridge: 'none', iptables: false, ip6tables: false }),
    // There is no systemd in a private root.
    'exec-opts': ['native.cgroupdriver=cgroupfs'],
    'cgroup-parent': root.controlGroup,
    ...config,
  });
}
