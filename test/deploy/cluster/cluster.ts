/** A Kubernetes cluster: each node in a private root with its own network, and the control plane beside the first one. */
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertSuccess } from '../../integration/served.ts';
import { makeCertificates, makeClientCertificate } from '../../world/certificates.ts';
import type { Containerd } from '../../world/containerd.ts';
import { type Daemon, waitForLine } from '../../world/daemon.ts';
import { eventually } from '../../world/eventually.ts';
import type { Result } from '../../world/program.ts';
import type { Root } from '../../world/root.ts';
import { requireCluster, requireCommand, requireHelm } from '../../world/tools.ts';
import {
  addAddresses,
  type ClusterNode,
  linkNode,
  linkOrCopy,
  openClusterNode,
  startNodeAgain,
} from './cluster-node.ts';
import { apiServerNames, startControlPlane, users } from './control-plane.ts';
import { firstNode, folder, kubeconfig, type NodePlace, nodeAddress, token } from './node-files.ts';

export interface Cluster extends AsyncDisposable {
  /** Of the first node. Its clients use a namespace of containerd that kubelet does not see. */
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
  /** Puts the images of a file, as `docker save` writes it, onto the first node. */
  load(file: string): Promise<void>;
  /** Makes another node, which gets pods when it has joined. */
  addNode(place: NodePlace): Promise<{ node: ClusterNode; join(): Promise<void> }>;
  /** Starts a node again that has lost its power, and waits until it is ready. */
  switchOn(node: ClusterNode): Promise<void>;
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
  /** Names that stand for a service or an address: `{ 'containers.test': 'sluice.sluice.svc.cluster.local' }`. */
  readonly names: Readonly<Record<string, string>>;
}

/** Starts the cluster, and waits until its first node is ready. */
export async function startCluster({ images, names }: ClusterOptions): Promise<Cluster> {
  const first = await openClusterNode(firstNode);
  const { root, containerd, load } = first;
  const nodes = [first];
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
    [daemons, ...nodes.map(node => node.daemons())]
      .flatMap(Object.entries<Daemon>)
      .map(([name, daemon]) => `== ${name}\n${daemon.output().slice(-8000)}`)
      .join('\n');
  const stop = async () => {
    await nameServer?.stop();
    // All of them, even if one fails.
    const ended = await Promise.allSettled(nodes.map(node => node[Symbol.asyncDispose]()));
    for (const one of ended) if (one.status === 'rejected') throw one.reason;
  };
  const isReady = '{.status.conditions[?(@.type=="Ready")].status}';
  const joinNode = async (node: ClusterNode) => {
    node.start();
    const { name } = node.place;
    await comesTrue(`the node ${name} is ready`, async () => {
      const asked = ['get', 'node', name, '--ignore-not-found', '-o', `jsonpath=${isReady}`];
      return (await kubectl(...asked)) === 'True';
    });
  };
  try {
    await placeFiles(root);
    await addAddresses(first);
    for (const image of images) await load(image);
    nameServer = startNameServer(root, names);
    await waitForLine(nameServer, /listening/);
    daemons = { nameServer, ...(await startControlPlane(root)) };
    await joinNode(first);
  } catch (error) {
    const said = logs();
    await stop();
    throw new Error(`${error}\n${said}`);
  }
  return {
    ...{ containerd, root, kubectl, shell, load, logs },
    async addNode(place) {
      const node = await openClusterNode(place);
      nodes.push(node);
      await placeAuthority(root, node.root);
      await linkNode(first, node);
      return { node, join: () => joinNode(node) };
    },
    async switchOn(node) {
      await startNodeAgain(node);
      await linkNode(first, node);
      await joinNode(node);
    },
    async apply(objects) {
      const list = { apiVersion: 'v1', kind: 'List', items: objects };
      assertSuccess(await shell('kubectl apply -f -', JSON.stringify(list)));
    },
    read: async (...args) => JSON.parse(await kubectl('get', '-o', 'json', ...args)),
    [Symbol.asyncDispose]: stop,
  };
}

const controlPrograms = [
  ...['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubectl'],
];

/** The programs of the control plane and of operators, and the certificates, in the root of the first node. */
async function placeFiles(root: Root): Promise<void> {
  const place = join(root.directory, folder);
  const programs = requireCluster();
  for (const name of controlPrograms) await linkOrCopy(join(programs, name), join(place, name));
  await linkOrCopy(requireHelm().helm, join(place, 'helm'));
  const certificates = await makeCertificates(join(place, 'certificates'), apiServerNames);
  await makeClientCertificate(certificates);
  await writeFile(join(place, 'users'), users);
}

async function placeAuthority(from: Root, to: Root): Promise<void> {
  const file = join(folder, 'certificates/authority.crt');
  await mkdir(join(to.directory, folder, 'certificates'));
  await copyFile(join(from.directory, file), join(to.directory, file));
}

function startNameServer(root: Root, names: Readonly<Record<string, string>>): Daemon {
  const authority = join(root.directory, folder, 'certificates/authority.crt');
  return root.spawnOnNetwork([
    ...[requireCommand('setpriv'), '--pdeathsig', 'KILL', process.execPath],
    join(import.meta.dirname, 'name-server-program.ts'),
    ...[nodeAddress, JSON.stringify({ authority, token }), JSON.stringify(names)],
  ]);
}
