/** What a test looks at in the pods of a release of the chart, and does to them. */
import assert from 'node:assert/strict';
import { assertSuccess } from '../../integration/served.ts';
import { requireCommand } from '../../world/tools.ts';
import type { Cluster } from './cluster.ts';
import { type Account, account } from './cluster-site.ts';
import { siteHost } from './node-files.ts';

export interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly phase: string;
    readonly podIP: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly {
      readonly containerID: string;
      readonly restartCount: number;
    }[];
  };
}

interface Slices {
  readonly items: readonly {
    readonly endpoints: readonly {
      readonly addresses: readonly string[];
      readonly conditions: { readonly ready?: boolean };
    }[];
  }[];
}

/** The pods of a site, and its service. */
export interface ChartPods {
  /** Servers that nobody has deleted, by name. */
  list(): Promise<Pod[]>;
  /** The one that leads, on any node by default; undefined while none does. */
  leader(node?: string): Promise<Pod | undefined>;
  /** Addresses of the pods that the service sends requests to. */
  receivers(): Promise<string[]>;
  /** Address of the service. */
  address(): Promise<string>;
  /** Sends a signal to the process of a pod's server. */
  signal(pod: Pod, name: string): Promise<void>;
  /** Sends an HTTP request to the service or to one pod, as the administrator by default, and returns the response. */
  request<T>(path: string, body?: object, as?: Account, to?: string): Promise<T>;
}

export const isReady = ({ status }: Pod): boolean =>
  status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;

export const restarts = ({ status }: Pod): number =>
  status.containerStatuses?.[0]?.restartCount ?? 0;

/** Runs an image in a pod, on any node by default, and returns its output. */
export async function runImage(
  cluster: Cluster,
  name: string,
  image: string,
  nodeName?: string,
): Promise<string> {
  const of = ['-n', 'outside'];
  const place = nodeName ? [`--overrides=${JSON.stringify({ spec: { nodeName } })}`] : [];
  await cluster.kubectl(...of, 'run', name, '--image', image, '--restart=Never', ...place);
  const phase = '--for=jsonpath={.status.phase}=Succeeded';
  await cluster.kubectl(...of, 'wait', phase, `pod/${name}`, '--timeout=240s');
  return cluster.kubectl(...of, 'logs', name);
}

export function chartPods(cluster: Cluster, namespace: string, service: string): ChartPods {
  const { root } = cluster;
  const curl = (...args: readonly string[]) =>
    root.execOnNetwork([requireCommand('curl'), '-sS', '--fail-with-body', '-m', '60', ...args]);
  const list = async () => {
    const selector = 'app.kubernetes.io/component=server';
    const { items } = await cluster.read<{ items: Pod[] }>('pods', '-n', namespace, '-l', selector);
    return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  };
  const address = async () => {
    type Service = { spec: { clusterIP: string } };
    const { spec } = await cluster.read<Service>('service', service, '-n', namespace);
    return spec.clusterIP;
  };
  return {
    list,
    address,
    async leader(node) {
      for (const pod of await list()) {
        if (node !== undefined && pod.spec.nodeName !== node) continue;
        const { code, stdout } = await curl('-m', '2', `http://${pod.status.podIP}:9090/metrics`);
        if (code === 0 && /^sluice_replica_leads 1$/m.test(stdout)) return pod;
      }
      return undefined;
    },
    async receivers() {
      const selector = `kubernetes.io/service-name=${service}`;
      const { items } = await cluster.read<Slices>(
        'endpointslices',
        '-n',
        namespace,
        '-l',
        selector,
      );
      const endpoints = items.flatMap(slice => slice.endpoints ?? []);
      return endpoints.filter(({ conditions }) => conditions.ready).flatMap(one => one.addresses);
    },
    async signal({ status }, name) {
      const id = status.containerStatuses?.[0]?.containerID.replace('containerd://', '') ?? '';
      const tasks = await cluster.containerd.ctr(['--namespace', 'k8s.io', 'tasks', 'list']);
      const [, pid] = new RegExp(`^${id} +(\\d+) `, 'm').exec(assertSuccess(tasks)) ?? [];
      assert.ok(pid, id);
      assertSuccess(await root.exec(['sh', '-c', `kill -${name} ${pid}`]));
    },
    async request<T>(path: string, body?: object, { username, password } = account, to?: string) {
      const data = ['-H', 'Content-Type: application/json', '--data-binary', JSON.stringify(body)];
      const response = await curl(
        ...['-H', `Host: ${siteHost}`, '-u', `${username}:${password}`],
        ...(body === undefined ? [] : data),
        `http://${to ?? (await address())}${path}`,
      );
      return JSON.parse(assertSuccess(response)) as T;
    },
  };
}
