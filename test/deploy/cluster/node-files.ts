/** Files of nodes, and of the programs that talk to the API server. */
import { stringify } from 'yaml';

export interface NodePlace {
  readonly name: string;
  /** Its address, which only the networks of the cluster have. */
  readonly address: string;
  /** The network of its pods. */
  readonly pods: string;
}

/** The node beside the control plane. */
export const firstNode: NodePlace = { name: 'node', address: '10.99.0.1', pods: '10.244.0.0/24' };
/** A node whose machine has nothing else. */
export const secondNode: NodePlace = {
  name: 'second',
  address: '10.99.0.2',
  pods: '10.244.1.0/24',
};
/** Address of the API server, of the name server, and of what runs outside the cluster. */
export const nodeAddress = firstNode.address;
export const nodeName = firstNode.name;
/** The networks of all pods. */
export const podNetwork = '10.244.0.0/16';
export const serviceNetwork = '10.96.0.0/16';
/** Address of the service `kubernetes`, the first one of the network. */
export const firstService = '10.96.0.1';
/** The folder of the cluster's files in the root of the node. */
export const folder = '/tmp/cluster';
export const kubeconfig = `${folder}/kubeconfig`;
/** A word that names the one user, who may do everything. */
export const token = 'sesame-for-the-cluster';
/** The host of the site, which the name server leads to its service. */
export const siteHost = 'containers.test';
export const pauseImage = 'registry.test/pause:1';

/** The files of containerd and of the network between pods, by absolute path. */
export const nodeFiles = ({ pods }: NodePlace): Readonly<Record<string, string>> => ({
  '/etc/containerd/config.toml': `
version = 3
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '${pauseImage}'
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
  # Root of a container may not lower the score.
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/usr/lib/cni']
  conf_dir = '/etc/cni/net.d'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
`,
  // The site has no certificate.
  [`/etc/containerd/certs.d/${siteHost}/hosts.toml`]: `server = 'http://${siteHost}'\n`,
  '/etc/resolv.conf': `nameserver ${nodeAddress}\n`,
  // Each pod has a link of its own to the node, which forwards what pods send to each other.
  '/etc/cni/net.d/10-pods.conflist': JSON.stringify({
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [
      {
        type: 'ptp',
        ipam: {
          type: 'host-local',
          dataDir: '/run/cni-addresses',
          ranges: [[{ subnet: pods }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
    ],
  }),
});

/** The configuration of kubectl and of all programs of the cluster. */
export function kubeconfigText(): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'cluster',
        cluster: {
          server: `https://${nodeAddress}:6443`,
          'certificate-authority': `${folder}/certificates/authority.crt`,
        },
      },
    ],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'cluster', context: { cluster: 'cluster', user: 'admin' } }],
    'current-context': 'cluster',
  });
}

/**
 * The configuration of kubelet.
 *
 * @param controlGroup where the control groups of pods belong
 * @param nameServer address of the name server that pods ask
 */
export function kubeletConfiguration(controlGroup: string, nameServer: string): string {
  return stringify({
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
    cgroupDriver: 'cgroupfs',
    cgroupRoot: controlGroup,
    // Machines with version 1 of control groups run the tests too.
    failCgroupV1: false,
    failSwapOn: false,
    enforceNodeAllocatable: ['none'],
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    clusterDomain: 'cluster.local',
    clusterDNS: [nameServer],
    // The disk of the machine may be nearly full.
    evictionHard: { 'nodefs.available': '0%', 'imagefs.available': '0%' },
    imageGCHighThresholdPercent: 100,
    serializeImagePulls: false,
  });
}
