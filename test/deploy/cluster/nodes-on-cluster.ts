/**
 * The Helm chart on two nodes, behind an ingress: where its replicas run, what clients notice of a machine that disappears,
 * and of an autoscaler. `npm run cluster` runs it.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertSuccess } from '../../integration/served.ts';
import { type Daemon, waitForLine } from '../../world/daemon.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { requireCommand } from '../../world/tools.ts';
import { requestDuring } from '../compose-clients.ts';
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
import {
  ingressValues,
  makeSiteCertificate,
  startIngress,
  trustSite,
} from './ingress-controller.ts';
import { firstNode, nodeAddress, secondNode, siteHost } from './node-files.ts';
import { startPodMetrics } from './pod-metrics.ts';
import { siteImages } from './site-images.ts';
import type { Seen, SteadyReport } from './steady-clients-program.ts';

const repository = 'public/busybox';
const base = `${siteHost}/${repository}:1`;
const user = `${account.username}:${account.password}`;
const inServer = ['-n', namespace, 'exec', 'deploy/sluice', '--'];

suite('the Helm chart on two nodes', () => {
  let cluster: Cluster;
  let second: ClusterNode;
  let pods: ChartPods;
  let authority: string;
  let release: { name: string; namespace: string; values: Readonly<Record<string, unknown>> };

  before(async () => {
    const prepare: Parameters<typeof openClusterSite>[0] = async (opened, images) => {
      await prepareSite(opened);
      const { node, join } = await opened.addNode(secondNode);
      for (const name of ['sluice', 'pause', 'busybox'] as const) await node.load(images[name]);
      await join();
      second = node;
    };
    cluster = await openClusterSite(prepare, { [siteHost]: nodeAddress });
    pods = chartPods(cluster, namespace, 'sluice');
    authority = await makeSiteCertificate(cluster);
    for (const node of [cluster, second]) await trustSite(cluster, node.root);
    await startIngress(cluster);
    release = { name: 'sluice', namespace, values: { ...(await siteValues()), ...ingressValues } };
    await helmRelease(cluster, 'install', release);
    const ctr = (...args: readonly string[]) =>
      cluster.containerd.ctr(['--namespace', 'k8s.io', 'images', ...args]);
    assertSuccess(await ctr('tag', siteImages.busybox, base));
    const hosts = ['--hosts-dir', '/etc/containerd/certs.d'];
    await comesTrue('an image is pushed through the ingress', async () => {
      const { code } = await ctr('push', ...hosts, '--user', user, base);
      return code === 0;
    });
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
      await cluster.kubectl(...inServer, ...command.split(' '));
    }
    await settled();
    const leader = await leads();
    assert.ok(leader);
    return leader;
  };
  const startClients = async (url: string, pauseMs = 60): Promise<Daemon> => {
    const clients = cluster.root.spawnOnNetwork(
      [
        ...[requireCommand('setpriv'), '--pdeathsig', 'KILL', process.execPath],
        join(import.meta.dirname, 'steady-clients-program.ts'),
        ...[url, siteHost, user, repository, '1', String(pauseMs)],
      ],
      { env: { NODE_EXTRA_CA_CERTS: authority } },
    );
    await waitForLine(clients, /^begun$/);
    return clients;
  };
  const endClients = async (clients: Daemon): Promise<SteadyReport> => {
    const report = waitForLine(clients, /^\{.*\}$/);
    clients.process.kill('SIGTERM');
    return JSON.parse((await report)[0]);
  };
  /** Runs curl on the second node, whose address a client of the ingress then has. */
  const curl = async (...args: readonly string[]) => {
    const ports = [80, 443].flatMap(port => ['--resolve', `${siteHost}:${port}:${nodeAddress}`]);
    const command = [requireCommand('curl'), '-sS', ...ports, '--cacert', authority, ...args];
    return assertSuccess(await second.root.execOnNetwork(command));
  };
  const request = (containerConfig: object, to?: string) =>
    pods.request<{ targetImage: string }>(
      '/v1alpha2/container',
      { containerImage: base, containerConfig },
      account,
      to,
    );

  test('replicas spread over both nodes, and reach each other', async () => {
    await settled();
    assert.ok(await isSpread());
    // Each of them: two hand the request on to the one that leads.
    for (const { metadata, status } of await pods.list()) {
      await request({ cmd: [metadata.name] }, `${status.podIP}:9090`);
    }
  });

  test('the kubelet of each node pulls through the ingress, and runs an image', async () => {
    for (const { name } of [firstNode, secondNode]) {
      const { targetImage } = await request({ cmd: ['echo', name] });
      assert.equal(await runImage(cluster, `on-${name}`, targetImage, name), `${name}\n`);
    }
  });

  test('the ingress redirects to https, and passes on the address of clients', async () => {
    const shows = ['-o', '/dev/null', '-w', '%{http_code} %{redirect_url}'];
    const url = `https://${siteHost}`;
    assert.equal(await curl(...shows, `http://${siteHost}/v2/`), `308 ${url}/v2/`);
    // Of Sluice itself: its links have the address by which clients reach it.
    const challenge = await curl('-D', '-', '-o', '/dev/null', `${url}/v2/private/x/tags/list`);
    assert.match(challenge, new RegExp(`^www-authenticate: .*realm="${url}/`, 'im'));
    const manifest = await curl(`${url}/v2/${repository}/manifests/1`);
    const invented = ['-H', 'X-Forwarded-For: 192.0.2.1', '-H', 'X-Forwarded-Proto: http'];
    const { mediaType } = JSON.parse(manifest);
    await curl(
      ...['--fail-with-body', '-X', 'PUT', '-u', user, ...invented, '--data-binary', manifest],
      ...['-H', `Content-Type: ${mediaType}`, `${url}/v2/${repository}/manifests/from-second`],
    );
    const audit = `SLUICE_ACCOUNT=${user} sluice audit --server http://localhost:9090 --json`;
    const log = await cluster.kubectl(...inServer, 'env', ...audit.split(' '));
    const { entries } = JSON.parse(log) as { entries: { client: string; target: string }[] };
    const pushed = entries.find(({ target }) => target.includes(':from-second '));
    assert.equal(pushed?.client, secondNode.address);
  });

  test('a large blob goes through the ingress both ways', async t => {
    await using files = await makeTempDir('large-blob');
    const content = randomBytes(256 * 1024 * 1024);
    const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`;
    await writeFile(files.join('blob'), content);
    const url = `https://${siteHost}`;
    const blobs = `${url}/v2/public/large/blobs`;
    const headers = await curl('-u', user, '-D', '-', '-X', 'POST', `${blobs}/uploads/`);
    const [, place = ''] = /^location: (\S+)/im.exec(headers) ?? [];
    const upload = new URL(place, url);
    upload.searchParams.set('digest', digest);
    const began = performance.now();
    const type = ['-H', 'Content-Type: application/octet-stream', '-H', 'Expect:'];
    const sent = ['-u', user, '-T', files.join('blob'), ...type, '--fail-with-body', upload.href];
    assert.equal(await curl('-o', '/dev/null', '-w', '%{http_code}', ...sent), '201');
    const between = performance.now();
    await curl('-u', user, '--fail', '-L', '-o', files.join('back'), `${blobs}/${digest}`);
    const ended = performance.now();
    const seconds = (ms: number) => (ms / 1000).toFixed(1);
    t.diagnostic(`sent in ${seconds(between - began)} s, back in ${seconds(ended - between)} s`);
    const back = assertSuccess(await cluster.root.execOnNetwork(['sha256sum', files.join('back')]));
    assert.equal(`sha256:${back.split(' ')[0]}`, digest);
    // Neither direction is gathered in the proxy.
    const peak = `grep -h VmHWM $(grep -lx traefik /proc/[0-9]*/comm | sed s/comm/status/)`;
    const [, kib] =
      /VmHWM:\s+(\d+) kB/.exec(assertSuccess(await cluster.root.exec(['sh', '-c', peak]))) ?? [];
    t.diagnostic(`most memory of the ingress: ${Number(kib) / 1024} MiB`);
    assert.ok(Number(kib) < 400 * 1024, kib);
  });

  test('clients go on when a machine disappears with the leader', async t => {
    const lost = await leadOnSecond();
    const gone = on(secondNode, await pods.list());
    await using throughService = await startClients(`http://${await pods.address()}`);
    await using throughIngress = await startClients(`https://${nodeAddress}`);
    await sleep(3000);
    const began = Date.now();
    const leaving = 'the service does not lead there';
    const times: Record<string, number> = {};
    const when = async (what: string, mostSeconds: number, holds: () => Promise<boolean>) => {
      await comesTrue(what, holds);
      const seconds = (Date.now() - began) / 1000;
      times[what] = seconds;
      t.diagnostic(`${what}: ${seconds} s`);
      assert.ok(seconds < mostSeconds, what);
    };
    await powerOff(second);
    const leads = when('another replica leads', 45, async () => {
      const leader = await pods.leader(firstNode.name);
      return leader !== undefined && leader.metadata.uid !== lost.metadata.uid;
    });
    const leaves = when(leaving, 80, async () => {
      const receivers = new Set(await pods.receivers());
      return gone.every(({ status }) => !receivers.has(status.podIP));
    });
    await Promise.all([leads, leaves]);
    await when('three replicas are ready', 150, async () => {
      const all = (await pods.list()).filter(isReady);
      return on(firstNode, all).length === 3;
    });
    for (const [way, report] of [
      ['through the service', await endClients(throughService)],
      ['through the ingress', await endClients(throughIngress)],
    ] as const) {
      const { lost, ...kinds } = report;
      for (const [kind, seen] of Object.entries<Seen>(kinds)) {
        t.diagnostic(`${way}, ${kind}: ${describeSeen(seen, began)}`);
        assert.ok(seen.count > 50, `${way}, ${kind}`);
        // Each attempt of a client takes up to five seconds without a connection, and 20 without a response.
        assert.ok(seen.longestMs < 90_000, `${way}, ${kind}`);
        const settledAt = began + (times[leaving] ?? 0) * 1000 + 20_000;
        const late = seen.failedAt.filter(at => at > settledAt).length;
        assert.ok(late <= seen.count / 50, `${way}, ${kind}: ${late} of ${seen.count}`);
      }
      assert.deepEqual(lost, []);
    }
  });

  test('the machine comes back', async t => {
    const began = Date.now();
    const after = () => `${(Date.now() - began) / 1000} s`;
    await cluster.switchOn(second);
    t.diagnostic(`the node is ready: ${after()}`);
    await comesTrue('the pods before are gone', async () => {
      const names = await cluster.kubectl('-n', namespace, 'get', 'pods', '-o', 'name');
      return names.trim().split('\n').length === 3;
    });
    t.diagnostic(`the pods before are gone: ${after()}`);
    await settled();
    const rollout = ['-n', namespace, 'rollout'];
    await cluster.kubectl(...rollout, 'restart', 'deployment/sluice');
    await cluster.kubectl(...rollout, 'status', 'deployment/sluice', '--timeout=240s');
    await settled();
    assert.ok(await isSpread());
  });

  test('the autoscaler adds and removes replicas, and clients notice nothing', async t => {
    await startPodMetrics(cluster);
    await using clients = await startClients(`https://${nodeAddress}`, 1000);
    const began = Date.now();
    const [least, most] = [2, 3];
    const has = async (count: number) => {
      type Scaled = { status: { replicas?: number; readyReplicas?: number } };
      await comesTrue(`the deployment has ${count} replicas`, async () => {
        const { status } = await cluster.read<Scaled>('deployment', 'sluice', '-n', namespace);
        const { replicas = 0, readyReplicas } = status;
        assert.ok(replicas >= least, `${replicas}`);
        return replicas === count && readyReplicas === count;
      });
      t.diagnostic(`${count} replicas: ${(Date.now() - began) / 1000} s`);
    };
    const autoscaling = {
      ...{ enabled: true, minReplicas: least, maxReplicas: most },
      // In place of ten minutes.
      scaleDownSeconds: 15,
    };
    const resources = { requests: { cpu: '200m' } };
    const values = { ...release.values, autoscaling, resources };
    await helmRelease(cluster, 'upgrade', { ...release, values });
    await has(least);
    const url = `http://${await pods.address()}/v2/${repository}/manifests/1`;
    const lanes = 12;
    const { failures } = await requestDuring(cluster.root, url, () => has(most), lanes, siteHost);
    // Once, all new connections of one moment had no route: that is the network of the test cluster, not of the chart.
    const others = failures.filter(failure => !failure.includes('ENETUNREACH'));
    assert.deepEqual(others, []);
    assert.ok(failures.length <= lanes, `${failures}`);
    await has(least);
    await comesTrue('the others are gone', async () => {
      const names = await cluster.kubectl('-n', namespace, 'get', 'pods', '-o', 'name');
      return names.trim().split('\n').length === least;
    });
    t.diagnostic(`the others are gone: ${(Date.now() - began) / 1000} s`);
    const { lost, ...kinds } = await endClients(clients);
    assert.deepEqual(lost, []);
    for (const seen of Object.values<Seen>(kinds)) {
      t.diagnostic(describeSeen(seen, began));
      assert.deepEqual(seen.failures, {});
    }
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
