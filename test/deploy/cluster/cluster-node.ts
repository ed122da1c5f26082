/** A node of the cluster: a private root with its own network, in which containerd, kubelet and kube-proxy run. */
import { copyFile, link, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { assertSuccess } from '../../integration/served.ts';
import { type Containerd, startContainerd } from '../../world/containerd.ts';
import type { Daemon } from '../../world/daemon.ts';
import type { Root } from '../../world/root.ts';
import { requireCluster, requireCommand } from '../../world/tools.ts';
import {
  firstNode,
  folder,
  kubeconfig,
  kubeconfigText,
  kubeletConfiguration,
  type NodePlace,
  nodeAddress,
  nodeFiles,
  podNetwork,
  serviceNetwork,
} from './node-files.ts';

export interface ClusterNode extends AsyncDisposable {
  readonly place: NodePlace;
  /** Its clients use a namespace of containerd that kubelet does not see. */
  readonly containerd: Containerd;
  readonly root: Root;
  /** Puts the images of a file, as `docker save` writes it, onto the node. */
  load(file: string): Promise<void>;
  /** Starts kubelet, and kube-proxy, which leads the addresses of services to pods. */
  start(): void;
  /** The programs that run, by name. */
  daemons(): Readonly<Record<string, Daemon>>;
}

/** Makes a node whose containerd runs. It joins the cluster with `start`. */
export async function openClusterNode(place: NodePlace): Promise<ClusterNode> {
  const containerd = await startContainerd({
    suite: 'forky',
    ownNetwork: true,
    files: nodeFiles(place),
  });
  const { root } = containerd;
  let daemons: Readonly<Record<string, Daemon>> = {};
  try {
    await placeNodeFiles(root);
    await prepare(root);
  } catch (error) {
    await containerd.stop();
    throw error;
  }
  return {
    ...{ place, containerd, root },
    async load(file) {
      const name = `image-${Math.random().toString(36).slice(2)}.tar`;
      await linkOrCopy(file, join(root.directory, 'tmp', name));
      const imported = ['--namespace', 'k8s.io', 'images', 'import', '--local', `/tmp/${name}`];
      assertSuccess(await containerd.ctr(imported));
      await root.exec(['rm', `/tmp/${name}`]);
    },
    start() {
      daemons = startPrograms(root, place);
    },
    daemons: () => daemons,
    [Symbol.asyncDispose]: containerd.stop,
  };
}

/** Starts containerd, kubelet and kube-proxy again, as a machine that is switched on. Its links must be made again. */
export async function startNodeAgain(node: ClusterNode): Promise<void> {
  await node.root.powerOn();
  await prepare(node.root);
  await node.containerd.start();
}

/** Settings of a node that its memory holds. */
async function prepare(root: Root): Promise<void> {
  assertSuccess(await root.exec(['sh', '-ec', prepareNode, 'sh', root.controlGroup]));
}

async function placeNodeFiles(root: Root): Promise<void> {
  const place = join(root.directory, folder);
  await mkdir(place, { recursive: true });
  const programs = requireCluster();
  for (const name of ['kubelet', 'kube-proxy']) {
    await linkOrCopy(join(programs, name), join(place, name));
  }
  await writeFile(join(place, 'kubeconfig'), kubeconfigText());
  const configuration = kubeletConfiguration(root.controlGroup, nodeAddress);
  await writeFile(join(place, 'kubelet.yaml'), configuration);
}

function startPrograms(root: Root, { name, address }: NodePlace): Readonly<Record<string, Daemon>> {
  const start = (program: string, ...options: readonly string[]) =>
    root.spawn([
      `${folder}/${program}`,
      `--kubeconfig=${kubeconfig}`,
      `--hostname-override=${name}`,
      ...options,
    ]);
  const kubelet = start(
    'kubelet',
    ...[`--config=${folder}/kubelet.yaml`, `--node-ip=${address}`, '--root-dir=/tmp/kubelet'],
  );
  const proxy = start(
    'kube-proxy',
    ...['--proxy-mode=iptables', `--cluster-cidr=${podNetwork}`],
    // These are limits of the machine.
    ...['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'],
    '--conntrack-tcp-timeout-close-wait=0',
  );
  return { kubelet, proxy };
}

/** Gives the first node its address. */
export async function addAddresses({ root }: ClusterNode): Promise<void> {
  const ip = networkTool(root);
  await ip('address', 'add', nodeAddress, 'dev', 'lo');
  await ip('link', 'add', switchName, 'type', 'bridge');
  await ip('link', 'set', switchName, 'up');
  await routeServices(ip, nodeAddress);
}

const switchName = 'switch';

/**
 * Links another node with the first one, which has the switch. All names and addresses are those of their own networks:
 * clusters that run at the same time do not meet.
 */
export async function linkNode(first: ClusterNode, { root, place }: ClusterNode): Promise<void> {
  const { name, address, pods } = place;
  const here = networkTool(first.root);
  const there = networkTool(root);
  const process = String(root.firstProcess());
  // The kernel takes its time to remove the link of a machine that has lost its power.
  await first.root.execOnNetwork([requireCommand('ip'), 'link', 'delete', `to-${name}`]);
  const peer = ['type', 'veth', 'peer', 'name', 'eth0', 'address', cardOf(place)];
  await here('link', 'add', `to-${name}`, ...peer, 'netns', process);
  await here('link', 'set', `to-${name}`, 'master', switchName, 'up');
  await there('address', 'add', `${address}/24`, 'dev', 'eth0');
  await there('link', 'set', 'eth0', 'up');
  await there('route', 'add', firstNode.pods, 'via', nodeAddress);
  await routeServices(there, address);
  await here('route', 'replace', address, 'dev', switchName, 'src', nodeAddress);
  // What is sent to a machine that has gone disappears without an error, as behind a router.
  const neighbour = ['lladdr', cardOf(place), 'dev', switchName, 'nud', 'permanent'];
  await here('neighbour', 'replace', address, ...neighbour);
  await here('route', 'replace', pods, 'via', address, 'dev', switchName);
}

/** Takes the power from a linked node: nobody hears of it again. */
export async function powerOff({ root }: ClusterNode): Promise<void> {
  // Programs that are killed close their connections, which a machine without power does not.
  await networkTool(root)('link', 'set', 'eth0', 'down');
  await root.powerOff();
}

const cardOf = ({ address }: NodePlace): string =>
  `02:00:00:00:00:${(address.split('.').at(-1) ?? '').padStart(2, '0')}`;

type NetworkTool = (...args: readonly string[]) => Promise<void>;

const networkTool =
  (root: Root): NetworkTool =>
  async (...args) => {
    assertSuccess(await root.execOnNetwork([requireCommand('ip'), ...args]));
  };

/** kube-proxy replaces the addresses of services, for which there must be a way first. */
async function routeServices(ip: NetworkTool, address: string): Promise<void> {
  await ip('route', 'add', serviceNetwork, 'dev', 'lo', 'src', address);
}

export async function linkOrCopy(from: string, to: string): Promise<void> {
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
echo 1 > /proc/sys/net/ipv4/ip_forward
# As kube-proxy does with nftables: another port of a service refuses connections. BuildKit tries HTTPS first.
iptables -A FORWARD -d ${serviceNetwork} -p tcp -j REJECT --reject-with tcp-reset
`;
