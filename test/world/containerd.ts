import type { PullOptions } from './clients.ts';
import { waitUntil } from './daemon.ts';
import type { Result } from './program.ts';
import { type ExecOptions, openRoot, type Root } from './root.ts';
import type { Suite } from './tools.ts';
import { hostsDirectory } from './trust.ts';

export interface ContainerdOptions {
  readonly suite: Suite;
  /** More files of the root by absolute path, such as those of `trustFiles`. */
  readonly files?: Readonly<Record<string, string>>;
  /** Gives it its own network. */
  readonly ownNetwork?: boolean;
}

/** A running containerd and its command line. */
export interface Containerd extends AsyncDisposable {
  readonly root: Root;
  /** Runs `ctr <args>`. */
  ctr(args: readonly string[], options?: ExecOptions): Promise<Result>;
  pull(reference: string, options?: PullOptions): Promise<Result>;
  /**
   * Runs a pulled image on the machine's network, as its configuration specifies.
   *
   * @returns both outputs of the container in `stdout`, the messages of ctr in `stderr`
   */
  run(reference: string, command?: readonly string[]): Promise<Result>;
  /** Starts it again in its root, after `root.powerOn()`. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

// Nothing here needs Kubernetes, and its part asks for the machine's network.
const config = 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n';

/** Starts containerd in a private root. */
export async function startContainerd(options: ContainerdOptions): Promise<Containerd> {
  const files = { '/etc/containerd/config.toml': config, ...options.files };
  const root = await openRoot(options.suite, { files, ownNetwork: options.ownNetwork });
  const ctr = (args: readonly string[], execOptions?: ExecOptions) =>
    root.exec(['ctr', ...args], execOptions);
  let containers = 0;
  const start = async () => {
    const daemon = root.spawn(['containerd']);
    await waitUntil(daemon, async () => (await ctr(['version'])).code === 0);
  };
  try {
    await start();
  } catch (error) {
    await root.close();
    throw error;
  }
  return {
    root,
    ctr,
    pull: (reference, { tls, account, timeoutMs } = {}) =>
      ctr(
        [
          ...['images', 'pull'],
          ...(tls ? ['--hosts-dir', hostsDirectory] : ['--plain-http']),
          ...(account ? ['--user', `${account.username}:${account.password}`] : []),
          reference,
        ],
        timeoutMs === undefined ? {} : { timeoutMs },
      ),
    async run(reference, command = []) {
      const name = `container-${++containers}`;
      const group = `${root.controlGroup}/${name}`;
      // Through a file: on a busy machine ctr loses what a container wrote shortly before it ended.
      const log = `/tmp/${name}.log`;
      const options = ['--rm', '--net-host', '--cgroup', group, '--log-uri', `file://${log}`];
      const { code, stderr } = await ctr(['run', ...options, reference, name, ...command]);
      const { stdout } = await root.exec(['cat', log]);
      return { code, stdout, stderr };
    },
    start,
    stop: root.close,
    [Symbol.asyncDispose]: root.close,
  };
}
