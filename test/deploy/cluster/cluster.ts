/** A Kubernetes cluster with one node: all of it in a private root with its own network. */
import { copyFile, link, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertSuccess } from '../../integration/served.ts';
import { makeCertificates } from '../../world/certificates.ts';
import { type Containerd, startContainerd } from '../../world/containerd.ts';
import { type Daemon, waitForLine } from '../../world/daemon.ts';
import { eventually } from '../../world/eventually.ts';
import type { Result } from '../../world/program.ts';
import type { Root } from '../../world/root.ts';
import { requireCluster, requireCommand, requireHelm } from '../../world/tools.ts';
import { apiServerNames, startControlPlane, startNode, users } from './control-plane.ts';
import {
  folder,
  kubeconfig,
  kubeconfigText,
  kubeletConfiguration,
  nodeAddress,
  nodeFiles,
  nodeName,
  serviceNetwork,
  token,
} from './node-files.ts';

export interface Cluster extends AsyncDisposable {
  /** Of the node. Its clients use a namespace of containerd that kubelet does not see. */
  readonly containerd: Containerd;
  readonly root: Root;
  /** Runs kubectl and returns its output. Throws when it fails. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** Runs a shell script as an operator does, in a folder with the project's deploy/, with kubectl and helm. */
  shell(script: string, input?: string): Promise<Result>;
  /** Puts objects of Kubernetes into the cluster. */
  apply(objects: readonly object[]): Promise<void>;
  /** Reads objects as kubectl does: `read('pods', '-n', 'sluice')`. */
  read<T>(...args: readonly string[]): Promise<T>;
  /** Puts the images of a file, as `docker save` writes it, onto the node. */
  load(file: string): Promise<void>;
  /** The last output of each program, for a failure that nothing else explains. */
  logs(): string;
}

const readyMs = 300_000;
const pauseMs = 500;

/** Waits until the check holds. Each check starts kubectl, which takes a while of a processor. */
export function comesTrue(what: string, holds: () => Promise<boolean>): Promise<void> {
  const check = async () => {
    if (await holds()) return true;
    await sleep(pauseMs);
    return false;
  };
  return eventually(what, check, readyMs);
}

export interface ClusterOptions {
  /** Files with the images of its pods. */
  readonly images: readonly string[];
  /** Names that stand for a service: `{ 'containers.test': 'sluice.sluice.svc.cluster.local' }`. */
  readonly names: Readonly<Record<string, string>>;
}

/** Starts the cluster, and waits until its node is ready. */
export async function startCluster({ images, names }: ClusterOptions): Promise<Cluster> {
  const programs = requireCluster();
  const containerd = await startContainerd({ suite: 'forky', ownNetwork: true, files: nodeFiles });
  const { root } = containerd;
  let nameServer: Daemon | undefined;
  let daemons: Readonly<Record<string, Daemon>> = {};
  const environment = {
    PATH: `${folder}:/usr/sbin:/usr/bin:/sbin:/bin`,
    KUBECONFIG: kubeconfig,
  };
  const shell = (script: string, input?: string) =>
    root.exec(['sh', '-ec', `cd ${folder}\n${script}`], {
      env: environment,
      timeoutMs: 600_000,
      ...(input === undefined ? {} : { input }),
    });
  const kubectl = async (...args: readonly string[]) =>
    assertSuccess(await root.exec([`${folder}/kubectl`, ...args], { env: environment }));
  const logs = () =>
    Object.entries(daemons)
      .map(([name, daemon]) => `== ${name}\n${daemon.output().slice(-8000)}`)
      .join('\n');
  const load = async (file: string) => {
    const name = `image-${Math.random().toString(36).slice(2)}.tar`;
    await linkOrCopy(file, join(root.directory, 'tmp', name));
    const imported = ['--namespace', 'k8s.io', 'images', 'import', '--local', `/tmp/${name}`];
    assertSuccess(await containerd.ctr(imported));
    await root.exec(['rm', `/tmp/${name}`]);
  };
  const stop = async () => {
    await nameServer?.stop();
    await containerd.stop();
  };
  try {
    await placeFiles(root, programs);
    await addAddresses(root);
    assertSuccess(await root.exec(['sh', '-ec', prepareNode, 'sh', root.controlGroup]));
    for (const image of images) await load(image);
    nameServer = startNameServer(root, names);
    await waitForLine(nameServer, /listening/);
    daemons = { nameServer, ...(await startControlPlane(root)) };
    daemons = { ...daemons, ...startNode(root) };
    const isReady = '{.status.conditions[?(@.type=="Ready")].status}';
    await comesTrue('the node is ready', async () => {
      const asked = ['get', 'node', nodeName, '--ignore-not-found', '-o', `jsonpath=${isReady}`];
      return (await kubectl(...asked)) === 'True';
    });
  } catch (error) {
    const said = logs();
    await stop();
    throw new Error(`${error}\n${said}`);
  }
  return {
    ...{ containerd, root, kubectl, shell, load, logs },
    async apply(objects) {
      const list = { apiVersion: 'v1', kind: 'List', items: objects };
      assertSuccess(await shell('kubectl apply -f -', JSON.stringify(list)));
    },
    read: async (...args) => JSON.parse(await kubectl('get', '-o', 'json', ...args)),
    [Symbol.asyncDispose]: stop,
  };
}

/** Programs, certificates and configurations in the root of the node. */
async function placeFiles(root: Root, programs: string): Promise<void> {
  const place = join(root.directory, folder);
  await mkdir(place, { recursive: true });
  for (const name of await readdir(programs)) {
    await linkOrCopy(join(programs, name), join(place, name));
  }
  await linkOrCopy(requireHelm().helm, join(place, 'helm'));
  await makeCertificates(join(place, 'certificates'), apiServerNames);
  await writeFile(join(place, 'kubeconfig'), kubeconfigText());
  await writeFile(join(place, 'users'), users);
  const configuration = kubeletConfiguration(root.controlGroup, nodeAddress);
  await writeFile(join(place, 'kubelet.yaml'), configuration);
}

async function addAddresses(root: Root): Promise<void> {
  const ip = async (...args: readonly string[]) =>
    assertSuccess(await root.execOnNetwork([requireCommand('ip'), ...args]));
  await ip('address', 'add', nodeAddress, 'dev', 'lo');
  // kube-proxy replaces the addresses of services, for which there must be a way first.
  await ip('route', 'add', serviceNetwork, 'dev', 'lo', 'src', nodeAddress);
}

function startNameServer(root: Root, names: Readonly<Record<string, string>>): Daemon {
  const authority = join(root.directory, folder, 'certificates/authority.crt');
  return root.spawnOnNetwork([
    ...[requireCommand('setpriv'), '--pdeathsig', 'KILL', process.execPath],
    join(import.meta.dirname, 'name-server-program.ts'),
    ...[nodeAddress, JSON.stringify({ authority, token }), JSON.stringify(names)],
  ]);
}

async function linkOrCopy(from: string, to: string): Promise<void> {
  // Another file system has no links to this one.
  await link(from, to).catch(() => copyFile(from, to));
}

// kubelet sets these for the whole machine unless they have its values: it sees files of their own instead.
const tunables: Readonly<Record<string, number>> = {
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/keys/root_maxbytes': 25_000_000,
};

const prepareNode = `
mkdir /run/tunables
${Object.entries(tunables)
  .map(([name, value], index) => {
    const file = `/run/tunables/${index}`;
    return `echo ${value} > ${file}\nmount --bind ${file} /proc/sys/${name}`;
  })
  .join('\n')}
# Linux allows a /proc in a user namespace only where a whole one is mounted.
mkdir /run/whole-proc && mount -t proc proc /run/whole-proc
# kubelet requires the group in each hierarchy, and creates those of pods below it.
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
  case $hierarchy in /sys/fs/cgroup) [ -e /sys/fs/cgroup/cgroup.procs ] || continue ;; esac
  [ ! -e "$hierarchy/cgroup.procs" ] || mkdir -p "$hierarchy$1"
done
mkdir -p /tmp/kubelet
# As kube-proxy does with nftables: another port of a service refuses connections. BuildKit tries HTTPS first.
iptables -A FORWARD -d ${serviceNetwork} -p tcp -j REJECT --reject-with tcp-reset
`;
