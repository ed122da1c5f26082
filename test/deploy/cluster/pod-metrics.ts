/** What the pods of the cluster use, for the autoscaler: metrics-server beside the control plane. */
import { join } from 'node:path';
import { requireMetricsServer } from '../../world/tools.ts';
import { type Cluster, comesTrue } from './cluster.ts';
import { linkOrCopy } from './cluster-node.ts';
import { folder, kubeconfig, nodeAddress } from './node-files.ts';

const port = 4443;
const where = { name: 'metrics-server', namespace: 'kube-system' };

/** Starts metrics-server, and waits until it knows what each node uses. */
export async function startPodMetrics({ root, apply, shell }: Cluster): Promise<void> {
  await linkOrCopy(requireMetricsServer(), join(root.directory, folder, 'metrics-server'));
  const server = root.spawn([
    `${folder}/metrics-server`,
    ...['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].map(
      name => `--${name}=${kubeconfig}`,
    ),
    ...[`--secure-port=${port}`, '--cert-dir=/tmp/metrics-server', '--metric-resolution=15s'],
    ...['--kubelet-insecure-tls', '--kubelet-preferred-address-types=InternalIP'],
  ]);
  await apply([
    {
      ...{ apiVersion: 'v1', kind: 'Service', metadata: where },
      spec: { ports: [{ name: 'https', port: 443, targetPort: port }] },
    },
    {
      ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' },
      metadata: { ...where, labels: { 'kubernetes.io/service-name': where.name } },
      addressType: 'IPv4',
      endpoints: [{ addresses: [nodeAddress] }],
      ports: [{ name: 'https', port }],
    },
    {
      ...{ apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService' },
      metadata: { name: 'v1beta1.metrics.k8s.io' },
      spec: {
        ...{ group: 'metrics.k8s.io', version: 'v1beta1', service: where },
        ...{ insecureSkipTLSVerify: true, groupPriorityMinimum: 100, versionPriority: 100 },
      },
    },
  ]);
  await comesTrue('the metrics of each node are known', async () => {
    if (server.process.exitCode !== null) throw new Error(server.output());
    const { code, stdout } = await shell('kubectl top nodes --no-headers');
    return code === 0 && !stdout.includes('unknown');
  });
}
