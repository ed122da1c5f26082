import { waitUntil } from './daemon.ts';
import { type ExecOptions, openRoot, type Result, type Root } from './root.ts';
import type { Suite } from './tools.ts';

export interface DockerOptions {
  readonly suite: Suite;
  /** Docker's classic store, or containerd's image store (trixie and forky only). */
  readonly store?: 'overlay2' | 'containerd';
  /** Registries that are plain HTTP; those on 127.0.0.0/8 need not be named. */
  readonly insecure?: readonly string[];
  /** More files of the root by absolute path, such as certificates of registries. */
  readonly files?: Readonly<Record<string, string>>;
}

/** A running Docker engine and its command line. */
export interface Docker extends AsyncDisposable {
  readonly root: Root;
  /** The engine's socket, on the machine. */
  readonly socket: string;
  /** Runs `docker <args>`. */
  docker(args: readonly string[], options?: ExecOptions): Promise<Result>;
  stop(): Promise<void>;
}

/** Starts a Docker engine in a private root. Containers have only `--network host` or `none`. */
export async function startDocker(options: DockerOptions): Promise<Docker> {
  const { suite, store = 'overlay2', insecure = [] } = options;
  const config = {
    'storage-driver': store === 'containerd' ? 'overlayfs' : 'overlay2',
    features: { 'containerd-snapshotter': store === 'containerd' },
    'insecure-registries': insecure,
    bridge: 'none',
    iptables: false,
    ip6tables: false,
    'cgroup-parent': '/sluice-tests',
  };
  const files = { '/etc/docker/daemon.json': JSON.stringify(config), ...options.files };
  const root = await openRoot(suite, files);
  const docker = (args: readonly string[], execOptions?: ExecOptions) =>
    root.exec(['docker', ...args], execOptions);
  try {
    const daemon = root.spawn(['dockerd', '--host', 'unix:///run/docker.sock']);
    const isReady = async () => (await docker(['version'])).code === 0;
    await waitUntil(daemon, isReady);
  } catch (error) {
    await root.close();
    throw error;
  }
  const socket = `${root.directory}/run/docker.sock`;
  return { root, socket, docker, stop: root.close, [Symbol.asyncDispose]: root.close };
}
