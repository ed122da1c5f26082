import type { Daemon } from '../../world/daemon.ts';
import { waitForLine, waitUntil } from '../../world/daemon.ts';
import type { Root } from '../../world/root.ts';
import {
  firstService,
  folder,
  kubeconfig,
  nodeAddress,
  nodeName,
  podNetwork,
  serviceNetwork,
  token,
} from './node-files.ts';

const certificate = (name: string) => `${folder}/certificates/${name}`;

/** The names and addresses in the certificate of the API server. */
export const apiServerNames = [
  ...['127.0.0.1', nodeAddress, firstService],
  ...['kubernetes', 'kubernetes.default', 'kubernetes.default.svc'],
];

/** The user of the kubeconfig. */
export const users = `${token},admin,admin,system:masters\n`;

/** Starts etcd, the API server, the controllers and the scheduler, and waits until the API server answers. */
export async function startControlPlane(root: Root): Promise<Readonly<Record<string, Daemon>>> {
  const start = (name: string, ...options: readonly string[]) =>
    root.spawn([`${folder}/${name}`, ...options]);
  const etcd = start('etcd', '--data-dir', '/tmp/etcd', '--unsafe-no-fsync');
  await waitForLine(etcd, /ready to serve client requests/);
  const apiServer = start(
    'kube-apiserver',
    ...['--etcd-servers=http://127.0.0.1:2379', `--advertise-address=${nodeAddress}`],
    ...[`--service-cluster-ip-range=${serviceNetwork}`, '--authorization-mode=RBAC'],
    '--kubelet-preferred-address-types=InternalIP',
    ...[`--token-auth-file=${folder}/users`, '--allow-privileged=true'],
    `--tls-cert-file=${certificate('server.crt')}`,
    `--tls-private-key-file=${certificate('server.key')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${certificate('server.crt')}`,
    `--service-account-signing-key-file=${certificate('server.key')}`,
  );
  const asksReadiness = [
    `${folder}/kubectl`,
    '--kubeconfig',
    kubeconfig,
    'get',
    '--raw',
    '/readyz',
  ];
  await waitUntil(apiServer, async () => (await root.exec(asksReadiness)).code === 0);
  const controllers = start(
    'kube-controller-manager',
    ...['--kubeconfig', kubeconfig, '--leader-elect=false'],
    `--root-ca-file=${certificate('authority.crt')}`,
    `--service-account-private-key-file=${certificate('server.key')}`,
  );
  const scheduler = start('kube-scheduler', '--kubeconfig', kubeconfig, '--leader-elect=false');
  return { etcd, apiServer, controllers, scheduler };
}

/** Starts kubelet, and kube-proxy, which leads the addresses of services to pods. */
export function startNode(root: Root): Readonly<Record<string, Daemon>> {
  const start = (name: string, ...options: readonly string[]) =>
    root.spawn([
      `${folder}/${name}`,
      `--kubeconfig=${kubeconfig}`,
      `--hostname-override=${nodeName}`,
      ...options,
    ]);
  const kubelet = start(
    'kubelet',
    ...[`--config=${folder}/kubelet.yaml`, `--node-ip=${nodeAddress}`, '--root-dir=/tmp/kubelet'],
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
