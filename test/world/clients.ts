import type { Result } from './program.ts';
import type { Root } from './root.ts';
import { rootRecipes, type Suite } from './tools.ts';

/** Programs that pull without a daemon. */
export const clients = ['podman', 'buildah', 'skopeo', 'crane', 'oras', 'cosign'] as const;
export type Client = (typeof clients)[number];

export interface Login {
  readonly username: string;
  readonly password: string;
}

export interface PullOptions {
  /** HTTPS, see `trustFiles`; else plain HTTP. */
  readonly tls?: boolean;
  /** Used for this pull only; without it a client sends what {@link login} or {@link storeLogin} stored. */
  readonly account?: Login;
  readonly timeoutMs?: number;
  /**
   * Destination of skopeo (dir), crane (tar), oras (OCI layout) and cosign (OCI layout), under /tmp; the machine sees
   * it in the root's `directory`. Default: a new path under /tmp.
   */
  readonly into?: string;
}

/** The clients of a suite. */
export function clientsOf(suite: Suite): Client[] {
  return clients.filter(client => rootRecipes[suite].packages.includes(client));
}

/** Pulls an image, `127.0.0.1:<port>/corpus/cfg:full` for instance, in a private root. */
export function pull(
  root: Root,
  client: Client,
  reference: string,
  options: PullOptions = {},
): Promise<Result> {
  const place = options.into ?? `/tmp/pulled-${++pulls}`;
  const { command, env = {} } = commands[client](reference, place, options);
  return root.exec(command, { env, ...timeoutOf(options) });
}

/**
 * Copies an image from one plain HTTP registry to another with the stored logins: whole with every
 * platform, but podman and buildah pull the machine's platform into their store and push that.
 */
export function copy(root: Root, client: Client, from: string, to: string): Promise<Result> {
  return root.exec(copies[client](from, to));
}

/** Logs in to a plain HTTP registry as a user does. crane and cosign store credentials without a check. */
export function login(
  root: Root,
  client: Client,
  host: string,
  { username, password }: Login,
): Promise<Result> {
  const tool = client === 'crane' ? ['crane', 'auth'] : [client];
  const command = [...tool, 'login', ...plainLogin[client], '-u', username, '-p', password, host];
  return root.exec(command);
}

/** Writes an account of a registry, valid or not, where docker and every other client look for it. */
export async function storeLogin(root: Root, host: string, account: Login): Promise<void> {
  const auth = Buffer.from(`${account.username}:${account.password}`).toString('base64');
  const input = JSON.stringify({ auths: { [host]: { auth } } });
  const { code, stderr } = await root.exec(['sh', '-c', writeLogins], { input });
  if (code !== 0) throw new Error(stderr);
}

/** Undoes {@link login} and {@link storeLogin}. */
export async function forgetLogins(root: Root): Promise<void> {
  await root.exec(['rm', '-f', '/root/.docker/config.json', '/run/containers/0/auth.json']);
}

const writeLogins = `
mkdir -p /root/.docker /run/containers/0
tee /root/.docker/config.json >/run/containers/0/auth.json`;

/** Runs an image with podman as its configuration specifies, or with another command. */
export function runWithPodman(
  root: Root,
  reference: string,
  options: PullOptions & { readonly command?: readonly string[] } = {},
): Promise<Result> {
  const command = [
    ...['podman', ...podmanEngine, 'run', '--rm', '--network', 'host'],
    ...['--cgroup-parent', root.controlGroup, '--security-opt', 'seccomp=unconfined'],
    // podman would raise these beyond what the machine may allow.
    ...['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096'],
    ...[...containersFlags(options), reference, ...(options.command ?? [])],
  ];
  return root.exec(command, timeoutOf(options));
}

// crun refuses the mixed hierarchies of control groups; there is no systemd in a private root.
const podmanEngine = ['--runtime', 'runc', '--cgroup-manager', 'cgroupfs'];

let pulls = 0;

interface Command {
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const commands: Readonly<
  Record<Client, (reference: string, place: string, options: PullOptions) => Command>
> = {
  podman: (reference, _place, options) => ({
    command: ['podman', ...podmanEngine, 'pull', ...containersFlags(options), reference],
  }),
  buildah: (reference, _place, options) => ({
    // It shares podman's store, and by default uses the image that it finds there.
    command: ['buildah', 'pull', '--policy', 'always', ...containersFlags(options), reference],
  }),
  skopeo: (reference, place, options) => ({
    command: [
      ...['skopeo', 'copy', ...containersFlags(options, '--src-')],
      ...[`docker://${reference}`, `dir:${place}`],
    ],
  }),
  crane: (reference, place, { tls, account }) => ({
    // It takes credentials only from a file, which its own login writes.
    command: [
      ...['sh', '-c', account ? loginAndPull : 'exec crane pull "$@"', 'sh'],
      ...(account ? [hostOf(reference), account.username, account.password] : []),
      ...[...(tls ? [] : ['--insecure']), reference, place],
    ],
    env: account ? { DOCKER_CONFIG: `${place}.docker` } : {},
  }),
  oras: (reference, place, { tls, account }) => ({
    command: [
      ...['oras', 'copy', ...(tls ? [] : ['--from-plain-http'])],
      ...credentials('--from-', account),
      ...[reference, '--to-oci-layout', `${place}:pulled`],
    ],
  }),
  cosign: (reference, place, { tls, account }) => ({
    command: [
      ...['cosign', 'save', '--dir', place, ...(tls ? [] : ['--allow-http-registry'])],
      ...[...credentials('--registry-', account), reference],
    ],
  }),
};

const loginAndPull = `
crane auth login "$1" -u "$2" -p "$3" || exit
shift 3
exec crane pull "$@"`;

const pullAndPush = `
"$0" pull --tls-verify=false "$1" && exec "$0" push --tls-verify=false "$1" "docker://$2"`;

const copies: Readonly<Record<Client, (from: string, to: string) => readonly string[]>> = {
  podman: (from, to) => ['sh', '-c', pullAndPush, 'podman', from, to],
  buildah: (from, to) => ['sh', '-c', pullAndPush, 'buildah', from, to],
  skopeo: (from, to) => [
    ...['skopeo', 'copy', '--all', '--src-tls-verify=false', '--dest-tls-verify=false'],
    ...[`docker://${from}`, `docker://${to}`],
  ],
  crane: (from, to) => ['crane', 'copy', '--insecure', from, to],
  oras: (from, to) => ['oras', 'copy', '--from-plain-http', '--to-plain-http', from, to],
  cosign: (from, to) => ['cosign', 'copy', '--allow-http-registry', from, to],
};

const plainLogin: Readonly<Record<Client, readonly string[]>> = {
  podman: ['--tls-verify=false'],
  buildah: ['--tls-verify=false'],
  skopeo: ['--tls-verify=false'],
  crane: ['--insecure'],
  oras: ['--plain-http'],
  cosign: [],
};

/** What podman, buildah and skopeo share. */
function containersFlags({ tls, account }: PullOptions, prefix = '--'): string[] {
  return [
    `${prefix}tls-verify=${tls === true}`,
    ...(account ? [`${prefix}creds=${account.username}:${account.password}`] : []),
  ];
}

function credentials(prefix: string, account: PullOptions['account']): string[] {
  if (account === undefined) return [];
  return [`${prefix}username`, account.username, `${prefix}password`, account.password];
}

function hostOf(reference: string): string {
  return reference.slice(0, reference.indexOf('/'));
}

function timeoutOf({ timeoutMs }: PullOptions) {
  return timeoutMs === undefined ? {} : { timeoutMs };
}
