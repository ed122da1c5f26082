/**
 * BuildKit workers of the Helm chart on a real cluster: builds of two users meet nothing of each other, in pods that are
 * replaced and in pods with users of their own. `npm run cluster` runs it.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { build as bundle } from 'esbuild';
import { parse } from 'yaml';
import { assertSuccess } from '../../integration/served.ts';
import { type ChartPods, chartPods, isReady, type Pod, runImage } from './chart-pods.ts';
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
  placeChart,
  singleValues,
} from './cluster-site.ts';
import { siteHost } from './node-files.ts';
import { siteImages } from './site-images.ts';

const base = `${siteHost}/public/busybox:1`;
const ada = { username: 'ada', password: 'lovelace' };
const bob = { username: 'bob', password: 'builder' };
const workersName = 'sluice-buildkit';

suite('BuildKit workers on a cluster', () => {
  let cluster: Cluster;
  let site: ChartPods;

  /** The values with workers of a kind. */
  const values = async (buildkit: object) => {
    const [text = ''] = await blocksOf('Builds', 'yaml');
    return {
      ...singleValues(),
      url: `http://${siteHost}`,
      buildkit: {
        ...parse(text).buildkit,
        image: siteImages.buildkit,
        cache: { size: '1Gi', keepBytes: '512MB' },
        resources: { requests: { cpu: '50m', memory: '128Mi' } },
        config: `[registry."${siteHost}"]\n  http = true\n`,
        ...buildkit,
      },
    };
  };
  const release = async (command: 'install' | 'upgrade', buildkit: object) =>
    helmRelease(cluster, command, { name: 'sluice', namespace, values: await values(buildkit) });

  before(async () => {
    cluster = await openClusterSite(async cluster => {
      await placeChart(cluster);
      await cluster.apply([
        namespaceNamed(namespace, 'privileged'),
        namespaceNamed('outside', 'privileged'),
        await localVolume(cluster, 'data'),
      ]);
      await createAccounts(cluster, namespace, [account, ada, bob]);
      const [certificates = ''] = await blocksOf('Builds', 'sh');
      assertSuccess(await cluster.shell(certificates));
    });
    site = chartPods(cluster, namespace, 'sluice');
    await release('install', { workers: 2 });
    const ctr = (...args: readonly string[]) =>
      cluster.containerd.ctr(['--namespace', 'k8s.io', 'images', ...args]);
    assertSuccess(await ctr('tag', siteImages.busybox, base));
    const user = `${account.username}:${account.password}`;
    assertSuccess(await ctr('push', '--plain-http', '--user', user, base));
  });

  after(() => cluster?.[Symbol.asyncDispose]());

  const workers = async (): Promise<Pod[]> => {
    const selector = 'app.kubernetes.io/component=buildkit';
    const { items } = await cluster.read<{ items: Pod[] }>('pods', '-n', namespace, '-l', selector);
    return items;
  };
  const uids = async () => (await workers()).map(({ metadata }) => metadata.uid);
  const areReady = (count: number) =>
    comesTrue(`${count} workers are ready`, async () => {
      const all = await workers();
      return all.length === count && all.every(isReady);
    });
  const build = async (recipe: string, as: typeof ada): Promise<string> => {
    const containerFile = Buffer.from(`FROM ${base}\n${recipe}\n`).toString('base64');
    const path = '/v1alpha2/container';
    const response = await site.request<{ targetImage: string }>(path, { containerFile }, as);
    return response.targetImage;
  };
  /** What a step of the user sees for some seconds in the variables of all processes, and leaves a process behind. */
  const spies = ({ username }: typeof ada) => `RUN MARK=${username} sh -c '\\
  (trap "" HUP; exec sleep ${leftover(username)}) >/dev/null 2>&1 & \\
  for round in $(seq 10); do sleep 1; cat /proc/[0-9]*/environ 2>/dev/null | tr "\\000" "\\n" | grep -E "^(MARK|HOSTNAME)="; done \\
  | sort -u > /seen; ls -d /proc/[0-9]* | wc -l > /processes; cat /proc/[0-9]*/root/certificates/key.pem 2>/dev/null | wc -c > /key'
CMD ["cat", "/seen", "/processes", "/key"]`;
  const leftover = (username: string) => (username === ada.username ? 7654321 : 7654322);
  /** True if the process that a step has left runs anywhere on the node. */
  const isLeft = async (username: string) => {
    // The brackets keep grep from finding itself.
    const pattern = `${leftover(username)}`.replace('7', '[7]');
    const script = `grep -lz "${pattern}" /proc/[0-9]*/cmdline 2>/dev/null | wc -l`;
    return Number(assertSuccess(await cluster.root.exec(['sh', '-c', script]))) > 0;
  };

  test('the account of the servers replaces workers, and no other pod', async t => {
    const program = `
      import { createWorkerPods, findPodAccount } from './worker-pods.ts';
      const replace = async (address, other) => {
        const pods = createWorkerPods(findPodAccount());
        const signal = AbortSignal.timeout(120_000);
        const found = [await pods.claim(address, signal)];
        const began = performance.now();
        await pods.wipe(address, signal);
        found.push(Math.round(performance.now() - began));
        found.push(await pods.claim(other, signal).catch(error => error.message));
        console.log(JSON.stringify(found));
      };
      replace(...process.argv.slice(2));`;
    // The image has no sources.
    const { outputFiles } = await bundle({
      stdin: { contents: program, resolveDir: 'src/builds/builder' },
      bundle: true,
      platform: 'node',
      write: false,
    });
    const inServer = async (...args: readonly string[]) => {
      const exec = `kubectl -n ${namespace} exec --stdin deployment/sluice -- node - ${args.join(' ')}`;
      return assertSuccess(await cluster.shell(exec, outputFiles[0]?.text));
    };
    const [worker, second] = await workers();
    const [server] = await site.list();
    assert.ok(worker && second && server);
    const [isNew, ms, refusal] = JSON.parse(
      await inServer(`tcp://${worker.status.podIP}:1234`, `tcp://${server.status.podIP}:1234`),
    );
    assert.equal(isNew, false, 'it was there before the program');
    assert.match(refusal, /No pod with the label sluice\.wipe/);
    const gone = performance.now();
    const left = await uids();
    assert.ok(!left.includes(worker.metadata.uid) && left.includes(second.metadata.uid));
    await areReady(2);
    const readyMs = Math.round(performance.now() - gone);
    t.diagnostic(`gone after ${ms} ms, the next one ready after ${readyMs} ms`);
    const may = async (verb: string, what: string, of = namespace) => {
      const as = `--as=system:serviceaccount:${namespace}:sluice`;
      const asked = `kubectl auth can-i ${verb} ${what} -n ${of} ${as}`;
      return (await cluster.shell(asked)).stdout.trim();
    };
    assert.equal(await may('delete', `pods/${workersName}-1`), 'yes');
    assert.equal(await may('list', 'pods'), 'yes');
    for (const [verb, what, of] of [
      ['delete', `pods/${server.metadata.name}`, namespace],
      ['delete', `pods/${workersName}-2`, namespace],
      ['deletecollection', 'pods', namespace],
      ['create', 'pods', namespace],
      ['create', 'pods/exec', namespace],
      ['get', 'secrets', namespace],
      ['list', 'pods', 'kube-system'],
    ] as const) {
      assert.equal(await may(verb, what, of), 'no', `${verb} ${what}`);
    }
  });

  test('builds of two users at once run in two pods, which are gone afterwards', async t => {
    const former = await uids();
    const images = await Promise.all([build(spies(ada), ada), build(spies(bob), bob)]);
    const [first = '', second = ''] = await Promise.all(
      images.map((image, index) => runImage(cluster, `apart-${index}`, image)),
    );
    t.diagnostic(`ada saw ${first.replaceAll('\n', ' ')}, bob saw ${second.replaceAll('\n', ' ')}`);
    assert.match(first, /MARK=ada\n/);
    assert.match(second, /MARK=bob\n/);
    assert.doesNotMatch(first, /bob/);
    assert.doesNotMatch(second, /ada/);
    await comesTrue('both workers are new', async () => {
      const now = await uids();
      return now.length === 2 && now.every(uid => !former.includes(uid));
    });
    for (const { username } of [ada, bob]) assert.equal(await isLeft(username), false);
    await areReady(2);
  });

  test('the next build of the same user finds nothing of the one before', async t => {
    const recipe = 'RUN cat /proc/sys/kernel/random/uuid > /id';
    const ids = [];
    for (const more of ['first', 'second']) {
      const began = performance.now();
      const image = await build(`${recipe}\nENV RUN=${more}\nCMD ["cat", "/id"]`, ada);
      ids.push(await runImage(cluster, `fresh-${more}`, image));
      t.diagnostic(`${more}: ${Math.round((performance.now() - began) / 100) / 10} s`);
    }
    assert.notEqual(ids[0], ids[1]);
    await areReady(2);
  });

  test('with users of its own, a worker keeps its cache for one user, and is emptied for the next', async t => {
    await cluster.kubectl('-n', namespace, 'delete', 'statefulset', workersName, '--wait');
    await comesTrue('the workers are gone', async () => (await workers()).length === 0);
    await cluster.apply([await localVolume(cluster, 'cache')]);
    await release('upgrade', { workers: 1, isolation: 'userNamespaces', processes: 512 });
    const seen = [];
    for (const user of [ada, bob]) {
      const image = await build(`${spies(user)}\nENV KIND=namespaces`, user);
      seen.push(await runImage(cluster, `namespaces-${user.username}`, image));
      assert.equal(await isLeft(user.username), false);
    }
    t.diagnostic(seen.join(' ').replaceAll('\n', ' '));
    // Neither what BuildKit has among its variables, nor its files.
    assert.match(seen[0] ?? '', /^MARK=ada\n\d\n0\n$/);
    assert.match(seen[1] ?? '', /^MARK=bob\n\d\n0\n$/);
    const ids = [];
    for (const [index, user] of [ada, ada, bob].entries()) {
      const recipe =
        'RUN cat /proc/sys/kernel/random/uuid > /id && touch /nobody && chown 65534 /nobody';
      const image = await build(`${recipe}\nENV KIND=cache-${index}\nCMD ["cat", "/id"]`, user);
      ids.push(await runImage(cluster, `cache-${index}`, image));
    }
    assert.equal(ids[0], ids[1]);
    assert.notEqual(ids[1], ids[2]);
  });

  test('the processes of steps have a limit that their root cannot raise', async () => {
    const recipe = `RUN sh -c 'ulimit -u unlimited; for number in $(seq 600); do sleep 5 & done' 2>/dev/null; \\
  set -- /proc/[0-9]*; echo $# > /count
CMD ["cat", "/count"]`;
    const count = Number(await runImage(cluster, 'processes', await build(recipe, ada)));
    assert.ok(count > 200 && count < 512, `${count}`);
    await areReady(1);
  });
});
