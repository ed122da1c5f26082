/**
 * The Helm chart on a real cluster: its pods run on a kubelet with containerd, under the profiles of Kubernetes, behind
 * a service, as operators install, update and lose parts of it. `npm run cluster` runs it; `npm test` does not, because the
 * programs of the cluster take many minutes to compile.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { parse } from 'yaml';
import { assertSuccess } from '../../integration/served.ts';
import { requestDuring } from '../compose-clients.ts';
import { type ChartPods, chartPods, isReady, type Pod, restarts, runImage } from './chart-pods.ts';
import { type Cluster, comesTrue } from './cluster.ts';
import {
  account,
  blocksOf,
  createAccounts,
  helmRelease,
  localVolume,
  namespace,
  namespaceNamed,
  openClusterSite,
  singleHost,
  singleValues,
  siteValues,
} from './cluster-site.ts';
import { siteHost } from './node-files.ts';
import { siteImages } from './site-images.ts';

const base = `${siteHost}/public/busybox:1`;

suite('the Helm chart on a cluster', () => {
  let cluster: Cluster;
  let pods: ChartPods;
  let release: { name: string; namespace: string; values: Readonly<Record<string, unknown>> };

  before(async () => {
    cluster = await openClusterSite();
    pods = chartPods(cluster, namespace, 'sluice');
    release = { name: 'sluice', namespace, values: await siteValues() };
    await helmRelease(cluster, 'install', release);
  });

  after(() => cluster?.[Symbol.asyncDispose]());

  const settled = () =>
    comesTrue('three replicas are ready', async () => {
      const all = await pods.list();
      return all.length === 3 && all.every(isReady) && (await pods.leader()) !== undefined;
    });
  const leader = async (): Promise<Pod> => {
    const pod = await pods.leader();
    assert.ok(pod, 'no replica leads');
    return pod;
  };
  const request = (containerConfig: object) =>
    pods.request<{ targetImage: string }>('/v1alpha2/container', {
      containerImage: base,
      containerConfig,
    });
  const manifestUrl = async () => {
    const { targetImage } = await request({ cmd: ['true'] });
    const path = targetImage.slice(siteHost.length).replace(/:1$/, '/manifests/1');
    return `http://${await pods.address()}/v2${path}`;
  };
  const run = (name: string, image: string) => runImage(cluster, name, image);

  test('three replicas run under the restricted profile', async () => {
    const all = await pods.list();
    assert.equal(all.length, 3);
    assert.ok(all.every(isReady));
    assert.deepEqual(all.map(restarts), [0, 0, 0]);
    const addresses = all.map(({ status }) => status.podIP);
    // The controller of services hears of a pod that is ready a moment later than helm.
    await comesTrue('the service leads to all of them', async () => {
      const receivers = new Set(await pods.receivers());
      return addresses.every(address => receivers.has(address));
    });
    await leader();
  });

  test('an image is pushed, and its change is pulled by kubelet and run', async () => {
    const ctr = (...args: readonly string[]) =>
      cluster.containerd.ctr(['--namespace', 'k8s.io', 'images', ...args]);
    assertSuccess(await ctr('tag', siteImages.busybox, base));
    const user = `${account.username}:${account.password}`;
    assertSuccess(await ctr('push', '--plain-http', '--user', user, base));
    const { targetImage } = await request({
      env: ['GREETING=hello'],
      cmd: ['sh', '-c', 'echo $GREETING'],
    });
    assert.equal(await run('greeting', targetImage), 'hello\n');
  });

  test('clients notice nothing of an update', async t => {
    await settled();
    const former = (await pods.list()).map(({ metadata }) => metadata.name);
    const {
      answers: responses,
      longestMs,
      failures,
    } = await requestDuring(
      cluster.root,
      await manifestUrl(),
      async () => {
        release.values = { ...release.values, config: { builds: { keep: '30d' } } };
        await helmRelease(cluster, 'upgrade', release);
        await comesTrue('the former pods are gone', async () => {
          const names = await cluster.kubectl('-n', namespace, 'get', 'pods', '-o', 'name');
          return former.every(name => !names.includes(name));
        });
      },
      4,
      siteHost,
    );
    t.diagnostic(`${responses} answers, the longest after ${Math.round(longestMs)} ms`);
    assert.deepEqual(failures, []);
    assert.ok(responses > 100, String(responses));
    await settled();
  });

  test('a replica that is deleted stops by itself', async () => {
    await settled();
    const first = (await leader()).metadata.name;
    const others = (await pods.list()).map(({ metadata }) => metadata.name);
    const [second = ''] = others.filter(name => name !== first);
    for (const name of [first, second]) {
      const [log] = await Promise.all([
        cluster.shell(`kubectl -n ${namespace} logs --follow --tail=5 ${name}`),
        cluster.kubectl('-n', namespace, 'delete', 'pod', name),
      ]);
      assert.match(log.stdout, /"msg":"stopped"/);
    }
    await settled();
  });

  test('another replica leads after the leader is killed', async () => {
    await settled();
    const first = await leader();
    await pods.signal(first, 'KILL');
    await comesTrue('another one leads', async () => {
      const found = await pods.leader();
      return found !== undefined && found.metadata.name !== first.metadata.name;
    });
    assert.ok((await request({ cmd: ['again'] })).targetImage);
    await settled();
    const again = (await pods.list()).find(({ metadata }) => metadata.name === first.metadata.name);
    assert.equal(again && restarts(again), 1);
  });

  test('a leader that hangs gets no requests, and is started again', async () => {
    await settled();
    const hung = await leader();
    await pods.signal(hung, 'STOP');
    await comesTrue('the service leaves it out', async () => {
      return !(await pods.receivers()).includes(hung.status.podIP);
    });
    await comesTrue('another one leads', async () => {
      const found = await pods.leader();
      return found !== undefined && found.metadata.name !== hung.metadata.name;
    });
    await settled();
    assert.ok((await request({ cmd: ['once', 'more'] })).targetImage);
  });

  test('only one replica at a time is evicted', async () => {
    await settled();
    const evict = ({ metadata: { name } }: Pod) => {
      const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace } };
      const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`;
      return cluster.shell(`kubectl create --raw ${path} -f -`, JSON.stringify(eviction));
    };
    const [first, second] = await pods.list();
    assert.ok(first && second);
    assertSuccess(await evict(first));
    assert.match((await evict(second)).stderr, /disruption budget/);
    await settled();
    assertSuccess(await evict(second));
    await settled();
  });

  test('a worker without root builds', async () => {
    // Its profile allows no user namespaces.
    const label = 'pod-security.kubernetes.io/enforce=privileged';
    await cluster.kubectl('label', '--overwrite', 'namespace', namespace, label);
    const [certificates = ''] = await blocksOf('Builds', 'sh');
    assertSuccess(await cluster.shell(certificates));
    const [text = ''] = await blocksOf('Builds', 'yaml');
    const { buildkit } = parse(text);
    const values = {
      ...release.values,
      buildkit: {
        ...buildkit,
        image: siteImages.buildkit,
        workers: 1,
        cache: { size: '1Gi', keepBytes: '512MB' },
        resources: { requests: { cpu: '50m', memory: '128Mi' } },
        config: `[registry."${siteHost}"]\n  http = true\n`,
      },
    };
    release = { ...release, values };
    await helmRelease(cluster, 'upgrade', release);
    await settled();
    const shows = 'cat /built && ls -ld /app | cut -c1-10';
    const recipe = `FROM ${base}\nRUN mkdir /app && id -u > /built\nCMD ["sh", "-c", "${shows}"]\n`;
    const { targetImage } = await pods.request<{ targetImage: string }>('/v1alpha2/container', {
      containerFile: Buffer.from(recipe).toString('base64'),
    });
    // Without the setgid bit of the volume.
    assert.equal(await run('built', targetImage), '0\ndrwxr-xr-x\n');
  });

  test('one server keeps everything on its volume', async () => {
    const single = { name: 'one', namespace: 'one', values: singleValues() };
    await cluster.apply([await localVolume(cluster, 'data'), namespaceNamed('one', 'restricted')]);
    await createAccounts(cluster, 'one');
    await helmRelease(cluster, 'install', single);
    const ctr = (...args: readonly string[]) =>
      cluster.containerd.ctr(['--namespace', 'k8s.io', 'images', ...args]);
    const image = `${singleHost}/public/busybox:1`;
    const user = `${account.username}:${account.password}`;
    assertSuccess(await ctr('tag', siteImages.busybox, image));
    assertSuccess(await ctr('push', '--plain-http', '--user', user, image));
    const server = chartPods(cluster, 'one', 'one-sluice');
    const [first] = await server.list();
    assert.ok(first && isReady(first));
    await cluster.kubectl('-n', 'one', 'delete', 'pod', first.metadata.name);
    await comesTrue('the next pod is ready', async () => (await server.list()).some(isReady));
    // The proxy of the cluster may still lead to the address of the pod before.
    let pulled = await cluster.containerd.pull(image);
    await comesTrue('the image is pulled', async () => {
      if (pulled.code !== 0) pulled = await cluster.containerd.pull(image);
      return pulled.code === 0;
    });
  });
});
