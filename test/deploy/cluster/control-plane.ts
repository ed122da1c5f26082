import type { Daemon } from '../../world/daemon.ts';
import { waitForLine, waitUntil } from '../../world/daemon.ts';
import type { Root } from '../../world/root.ts';
import {
  firstService,
  folder,
  kubeconfig,
  nodeAddress,
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
    // For servers that answer a part of its API, such as that of metrics.
    `--requestheader-client-ca-file=${certificate('authority.crt')}`,
    ...['--requestheader-username-headers=X-Remote-User', '--requestheader-allowed-names='],
    ...['--requestheader-group-headers=X-Remote-Group', '--enable-aggregator-routing'],
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${certificate('client.crt')}`,
    `--proxy-client-key-file=${certificate('client.key')}`,
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
