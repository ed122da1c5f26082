/**
 * The Helm chart on two nodes: where its replicas run, and what clients notice of a machine that disappears. `npm run cluster`
 * runs it.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertSuccess } from '../../integration/served.ts';
import { type Daemon, waitForLine } from '../../world/daemon.ts';
import { requireCommand } from '../../world/tools.ts';
import { type ChartPods, chartPods, isReady, type Pod, runImage } from './chart-pods.ts';
import { type Cluster, comesTrue } from './cluster.ts';
import { type ClusterNode, powerOff } from './cluster-node.ts';
import {
  account,
  helmRelease,
  namespace,
  openClusterSite,
  prepareSite,
  siteValues,
} from './cluster-site.ts';
import { firstNode, secondNode, siteHost } from './node-files.ts';
import { siteImages } from './site-images.ts';
import type { Seen, SteadyReport } from './steady-clients-program.ts';

const base = `${siteHost}/public/busybox:1`;

suite('the Helm chart on two nodes', () => {
  let cluster: Cluster;
  let second: ClusterNode;
  let pods: ChartPods;

  before(async () => {
    cluster = await openClusterSite(async (cluster, images) => {
      await prepareSite(cluster);
      const { node, join } = await cluster.addNode(secondNode);
      for (const name of ['sluice', 'pause', 'busybox'] as const) await node.load(images[name]);
      await join();
      second = node;
    });
    pods = chartPods(cluster, namespace, 'sluice');
    await helmRelease(cluster, 'install', {
      name: 'sluice',
      namespace,
      values: await siteValues(),
    });
    const ctr = (...args: readonly string[]) =>
      cluster.containerd.ctr(['--namespace', 'k8s.io', 'images', ...args]);
    assertSuccess(await ctr('tag', siteImages.busybox, base));
    const user = `${account.username}:${account.password}`;
    assertSuccess(await ctr('push', '--plain-http', '--user', user, base));
  });

  after(() => cluster?.[Symbol.asyncDispose]());

  const on = ({ name }: { name: string }, all: readonly Pod[]) =>
    all.filter(({ spec }) => spec.nodeName === name);
  const settled = () =>
    comesTrue('three replicas are ready', async () => {
      const all = await pods.list();
      return all.length === 3 && all.every(isReady) && (await pods.leader()) !== undefined;
    });
  const isSpread = async () => {
    const all = await pods.list();
    const counts = [firstNode, secondNode].map(node => on(node, all).length);
    return counts.includes(1) && counts.includes(2);
  };
  /** Gives the lead to a replica on the second node. */
  const leadOnSecond = async (): Promise<Pod> => {
    const leads = async () => {
      const leader = await pods.leader();
      return leader?.spec.nodeName === secondNode.name ? leader : undefined;
    };
    if (!(await leads())) {
      const [chosen] = on(secondNode, await pods.list());
      assert.ok(chosen);
      const command = `sluice replicas lead http://${chosen.status.podIP}:9090`;
      await cluster.kubectl('-n', namespace, 'exec', 'deploy/sluice', '--', ...command.split(' '));
    }
    await settled();
    const leader = await leads();
    assert.ok(leader);
    return leader;
  };
  const startClients = async (): Promise<Daemon> => {
    const clients = cluster.root.spawnOnNetwork([
      ...[requireCommand('setpriv'), '--pdeathsig', 'KILL', process.execPath],
      join(import.meta.dirname, 'steady-clients-program.ts'),
      ...[`http://${await pods.address()}`, siteHost, `${account.username}:${account.password}`],
      ...['public/busybox', '1'],
    ]);
    await waitForLine(clients, /^begun$/);
    return clients;
  };
  const endClients = async (clients: Daemon): Promise<SteadyReport> => {
    const report = waitForLine(clients, /^\{.*\}$/);
    clients.process.kill('SIGTERM');
    return JSON.parse((await report)[0]);
  };

  test('replicas spread over both nodes, and reach each other', async () => {
    await settled();
    assert.ok(await isSpread());
    const all = await pods.list();
    // Each of them: two hand the request on to the one that leads.
    for (const pod of all) {
      const containerConfig = { cmd: [pod.metadata.name] };
      const body = { containerImage: base, containerConfig };
      await pods.request('/v1alpha2/container', body, account, `${pod.status.podIP}:9090`);
    }
  });

  test('the kubelet of each node pulls and runs an image', async () => {
    for (const { name } of [firstNode, secondNode]) {
      const { targetImage } = await pods.request<{ targetImage: string }>('/v1alpha2/container', {
        containerImage: base,
        containerConfig: { cmd: ['echo', name] },
      });
      assert.equal(await runImage(cluster, `on-${name}`, targetImage, name), `${name}\n`);
    }
  });

  test('clients go on when a machine disappears with the leader', async t => {
    const lost = await leadOnSecond();
    const gone = on(secondNode, await pods.list());
    const clients = await startClients();
    await sleep(3000);
    const began = Date.now();
    const after = () => Date.now() - began;
    const times: Record<string, number> = {};
    const when = async (what: string, holds: () => Promise<boolean>) => {
      await comesTrue(what, holds);
      times[what] = after();
    };
    await powerOff(second);
    const leads = when('another replica leads', async () => {
      const leader = await pods.leader();
      return leader !== undefined && leader.metadata.uid !== lost.metadata.uid;
    });
    const leaves = when('the service does not lead there', async () => {
      const receivers = new Set(await pods.receivers());
      return gone.every(({ status }) => !receivers.has(status.podIP));
    });
    await Promise.all([leads, leaves]);
    await when('three replicas are ready', async () => {
      const all = (await pods.list()).filter(isReady);
      return on(firstNode, all).length === 3;
    });
    const report = await endClients(clients);
    for (const [what, ms] of Object.entries(times)) t.diagnostic(`${what}: ${ms / 1000} s`);
    const { pulls, pushes, changes } = report;
    for (const [name, seen] of Object.entries<Seen>({ pulls, pushes, changes })) {
      t.diagnostic(`${name}: ${describeSeen(seen, began)}`);
    }
    assert.deepEqual(report.lost, []);
  });

  test('the machine comes back', async t => {
    const began = Date.now();
    await cluster.switchOn(second);
    t.diagnostic(`the node is ready: ${(Date.now() - began) / 1000} s`);
    await comesTrue('the pods before are gone', async () => {
      const names = await cluster.kubectl(
        ...['-n', namespace, 'get', 'pods', '-o', 'jsonpath={.items[*].metadata.name}'],
      );
      return names.split(' ').length === 3;
    });
    t.diagnostic(`the pods before are gone: ${(Date.now() - began) / 1000} s`);
    await settled();
    await cluster.kubectl('-n', namespace, 'rollout', 'restart', 'deployment/sluice');
    await cluster.kubectl(
      '-n',
      namespace,
      'rollout',
      'status',
      'deployment/sluice',
      '--timeout=240s',
    );
    await settled();
    assert.ok(await isSpread());
  });
});

/** What clients saw, in seconds from the beginning of an event. */
function describeSeen(seen: Seen, began: number): string {
  const { count, longestMs, failures, failedAt, acknowledged } = seen;
  const since = (at: number) => Math.round((at - began) / 100) / 10;
  const first = acknowledged.find(([, at]) => at > began);
  return JSON.stringify({
    ...{ count, longest: longestMs / 1000, failures },
    failedAt: failedAt.map(since),
    ...(first ? { firstAcknowledged: since(first[1]) } : {}),
  });
}
