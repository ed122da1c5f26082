/** Scans of images by an adapter that reads them from the server, and adapters that misbehave. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, beforeEach, suite, test } from 'node:test';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { type ScriptedAdapter, startAdapter } from './scripted-adapter.ts';

interface ScannedResponse extends ContainerResponse {
  readonly scanId: string;
  readonly scanUri: string;
  readonly succeeded?: boolean;
}

interface Details {
  readonly status: string;
  readonly containerImage: string;
  readonly reason?: string;
  readonly counts?: Readonly<Record<string, number>>;
  readonly vulnerabilities?: readonly { readonly id: string; readonly primaryUrl?: string }[];
}

const low = { id: 'CVE-1', severity: 'Low', package: 'zlib', version: '1.0', fix_version: '1.1' };
const high = { id: 'CVE-2', severity: 'High', package: 'zlib', version: '1.0' };

suite('scans', () => {
  let registry: Registry;
  let images: Map<string, Pushed>;
  let adapter: ScriptedAdapter;
  let channels: CondaChannels;
  let sluice: Sluice;

  const config = () => ({
    buildkit: ['off'],
    builds: { pullWait: '200ms' },
    accounts: { admin: 'secret' },
    limits: { builds: { anonymous: 'off' } },
    channels: channels.settings,
    registries: { [registry.host]: { plainHttp: true } },
    scans: { adapter: adapter.url, allowPrivateAddress: true, timeout: '20s' },
  });
  before(async () => {
    registry = await startRegistry();
    images = await pushCorpus(registry, ['busybox:oci', 'busybox:v2s2', 'cfg:full', 'multi:index']);
    await pushDebianImage(registry, 'debian');
    channels = await startCondaChannels({
      'conda-forge': [program('procps-ng', '4.0'), library('1')],
      bioconda: [program('one', '1', { depends: ['library >=1'] })],
    });
    adapter = await startAdapter();
    sluice = await startSluice({ config: config() });
  });
  after(async () => {
    await sluice?.stop();
    await adapter?.[Symbol.asyncDispose]();
    await channels?.stop();
    await registry?.stop();
  });
  let databases = 0;
  beforeEach(() => {
    // Each test has a database of its own, so that it does not see the results of others.
    databases += 1;
    Object.assign(adapter, { found: [], isHeld: false, report: undefined });
    adapter.database = `database ${databases}`;
  });

  const nameOf = (image: string) => images.get(image)?.reference ?? '';
  const ask = async (body: object, image = 'busybox:oci') =>
    (await sluice.request({ containerImage: nameOf(image), ...body })) as ScannedResponse;
  const json = async <T>(path: string): Promise<T> =>
    (await (await sluice.fetch(path)).json()) as T;
  const finished = async (scanId: string): Promise<Details> => {
    let details: Details | undefined;
    await eventually('the scan ends', async () => {
      details = await json<Details>(`/v1alpha1/scans/${scanId}`);
      return details.status !== 'PENDING';
    });
    return details as Details;
  };
  const statusOf = ({ requestId }: ScannedResponse) =>
    json<Record<string, unknown>>(`/v1alpha2/container/${requestId}/status`);
  const pull = ({ targetImage, digest }: ScannedResponse) =>
    fetch(sluice.at(targetImage, `manifests/${digest}`), { headers: { accept: manifestAccept } });

  test('the scanner reads all of the image, the result is shown, and its name ends with the scan', async () => {
    adapter.found = [low, high, { id: 'CVE-3', severity: 'odd' }];
    const asked = await ask({ scanMode: 'async' });
    assert.match(asked.scanId, /^sc-[0-9a-f]{32}$/);
    assert.equal(asked.scanUri, `${sluice.url}/view/scans/${asked.scanId}`);
    assert.equal(asked.succeeded, true);
    const details = await finished(asked.scanId);
    assert.equal(details.status, 'SUCCEEDED', details.reason);
    assert.deepEqual(details.counts, { HIGH: 1, LOW: 1, UNKNOWN: 1 });
    assert.deepEqual(
      details.vulnerabilities?.map(({ id }) => id),
      ['CVE-2', 'CVE-1', 'CVE-3'],
    );
    assert.ok(adapter.read.length >= 2);
    const log = await (await sluice.fetch(`/v1alpha1/scans/${asked.scanId}/logs`)).text();
    assert.match(log, /Scripted 1\.0/);
    assert.equal((await statusOf(asked)).scanId, asked.scanId);
    // An asynchronous scan holds nothing up.
    assert.equal((await pull(asked)).status, 200);
    const order = adapter.orders.at(-1);
    assert.ok(order);
    assert.equal(order.registry.authorization, '');
    assert.ok(!order.artifact.repository.includes(asked.containerToken));
    const lent = `/v2/${order.artifact.repository}/manifests/${order.artifact.digest}`;
    await eventually(
      'the name of the scanner ends',
      async () => (await sluice.fetch(lent)).status === 404,
    );
  });

  test('the name of the scanner pulls one image, and pushes nothing, and no other route accepts it', async () => {
    adapter.isHeld = true;
    const count = adapter.orders.length;
    const asked = await ask({ scanMode: 'async' });
    await eventually('the scan has begun', () => adapter.orders.length > count);
    const order = adapter.orders.at(-1);
    assert.ok(order);
    const { repository, digest } = order.artifact;
    const status = async (path: string, method = 'GET') =>
      (await sluice.fetch(`/v2/${path}`, { method, headers: { accept: manifestAccept } })).status;
    await eventually(
      'it can be pulled',
      async () => (await status(`${repository}/manifests/${digest}`)) === 200,
    );
    const other = images.get('cfg:full')?.digest ?? '';
    // The second one is in the same repository, whose credentials open it.
    for (const one of [other, images.get('busybox:v2s2')?.digest ?? '']) {
      assert.equal(await status(`${repository}/manifests/${one}`), 404);
      assert.equal(await status(`${repository}/blobs/${one}`), 404);
    }
    assert.equal(await status(`${repository}/manifests/${digest.replace(':', '-')}.sig`), 404);
    assert.equal(await status(`${repository.replace('busybox', 'cfg')}/manifests/${digest}`), 404);
    assert.equal(await status(`${repository}/blobs/uploads/`, 'POST'), 405);
    // By other routes, its image would be there after the scan.
    const name = `${sluice.host}/${repository}@${digest}`;
    for (const [route, body] of [
      ['/v1alpha2/container', { containerImage: name }],
      ['/v1alpha2/container', { containerImage: nameOf('cfg:full'), containerIncludes: [name] }],
      ['/v1alpha1/inspect', { containerImage: name }],
    ] as const) {
      const sent = { method: 'POST', headers: { 'content-type': 'application/json' } };
      const answered = await sluice.fetch(route, { ...sent, body: JSON.stringify(body) });
      assert.match(await answered.text(), /Unknown container token/);
    }
    const listed = await json<{ tags: string[] }>(`/v2/${repository}/tags/list`);
    assert.deepEqual(listed.tags, ['oci']);
    adapter.isHeld = false;
    await finished(asked.scanId);
  });

  test('required: the pull waits, and passes when all severities are accepted', async () => {
    adapter.found = [low];
    adapter.isHeld = true;
    const asked = await ask({ scanMode: 'required', scanLevels: ['LOW', 'MEDIUM'] });
    assert.equal(asked.succeeded, undefined);
    assert.equal((await statusOf(asked)).status, 'SCANNING');
    assert.equal((await statusOf(asked)).succeeded, undefined);
    const waiting = fetch(sluice.at(asked.targetImage, `manifests/${asked.digest}`), {
      redirect: 'manual',
    });
    assert.equal((await waiting).status, 307);
    adapter.isHeld = false;
    // A pull that waits too long on a busy machine is answered with 503.
    await eventually('the pull passes', async () => (await pull(asked)).status === 200);
    const { status, succeeded, vulnerabilities } = await statusOf(asked);
    assert.deepEqual(
      { status, succeeded, vulnerabilities },
      { status: 'DONE', succeeded: true, vulnerabilities: { LOW: 1 } },
    );
  });

  test('required: another severity refuses manifests and blobs, with the reason and the page', async () => {
    adapter.found = [low, high];
    const asked = await ask({ scanMode: 'required', scanLevels: ['LOW'] });
    await finished(asked.scanId);
    const refused = await pull(asked);
    assert.equal(refused.status, 403);
    const text = await refused.text();
    assert.match(text, /"DENIED"/);
    assert.match(text, /vulnerabilities with severity: HIGH \(scan: http.*\/view\/scans\/sc-/);
    const [layer = ''] = adapter.read.slice(-1);
    const [tag = ''] = asked.targetImage.split(':').slice(-1);
    for (const path of [
      ...[`manifests/${asked.digest}`, `manifests/${tag}`, `blobs/${layer}`],
      ...[`referrers/${asked.digest}`, `manifests/${asked.digest?.replace(':', '-')}.sig`],
    ]) {
      for (const method of ['GET', 'HEAD']) {
        const { status } = await fetch(sluice.at(asked.targetImage, path), { method });
        assert.equal(status, 403, `${method} ${path}`);
      }
    }
    const { succeeded, reason, vulnerabilities } = await statusOf(asked);
    assert.equal(succeeded, false);
    assert.match(String(reason), /HIGH$/);
    assert.deepEqual(vulnerabilities, { HIGH: 1, LOW: 1 });
    // The same image without the field is another request.
    assert.equal((await pull(await ask({}))).status, 200);
  });

  test('required without levels accepts nothing', async () => {
    adapter.found = [{ id: 'CVE-9', severity: 'Negligible' }];
    const asked = await ask({ scanMode: 'required' });
    await finished(asked.scanId);
    assert.match(await (await pull(asked)).text(), /severity: LOW/);
  });

  test('a request for all platforms scans each of them', async () => {
    adapter.found = [low];
    const count = adapter.orders.length;
    const asked = await ask({ scanMode: 'async' }, 'multi:index');
    const details = await finished(asked.scanId);
    assert.equal(details.status, 'SUCCEEDED', details.reason);
    assert.ok(adapter.orders.length - count > 1, 'one package in all platforms is one finding');
    assert.deepEqual(details.counts, { LOW: 1 });
    const digestsAt = async (path: string) => {
      const text = await (await fetch(sluice.at(asked.targetImage, path))).text();
      return text.match(/sha256:[0-9a-f]{64}/g) as string[];
    };
    const [ofPlatform = ''] = await digestsAt(`manifests/${asked.digest}`);
    for (const subject of [asked.digest, ofPlatform]) {
      const [sarif] = await digestsAt(`referrers/${subject}`);
      assert.ok((await digestsAt(`manifests/${sarif}`)).includes(subject));
    }
  });

  test('an image that is built first is scanned after its build, and held back until then', async () => {
    adapter.found = [high];
    const condaOpts = { baseImage: `${registry.host}/debian:1` };
    const packages = { type: 'CONDA', entries: ['one'], condaOpts };
    const build = async (scanLevels: readonly string[]) =>
      (await sluice.request({ packages, scanMode: 'required', scanLevels })) as ScannedResponse;
    const refused = await build([]);
    const details = await finished(refused.scanId);
    assert.equal(details.status, 'SUCCEEDED', details.reason);
    assert.match(details.containerImage, /@sha256:/);
    const at = ({ targetImage }: ScannedResponse) =>
      sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`);
    const headers = { accept: manifestAccept };
    assert.equal((await fetch(at(refused), { headers })).status, 403);
    const { succeeded, reason, buildId } = await statusOf(refused);
    assert.equal(succeeded, false);
    assert.match(String(reason), /HIGH$/);
    assert.equal(buildId, refused.buildId);
    const accepted = await build(['HIGH']);
    assert.equal((await fetch(at(accepted), { headers })).status, 200);
  });

  test('a refused image is not shown by an inspection either', async () => {
    adapter.found = [high];
    const asked = await ask({ scanMode: 'required' });
    await finished(asked.scanId);
    const inspected = await sluice.fetch('/v1alpha1/inspect', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ containerImage: asked.targetImage }),
    });
    assert.equal(inspected.status, 403, await inspected.text());
    // Nor is it the beginning of another image, frozen or not.
    for (const more of [{}, { freeze: true }, { mirror: true }, { dryRun: true }]) {
      const body = { containerImage: asked.targetImage, buildRepository: `${registry.host}/made` };
      const built = await sluice.fetch('/v1alpha2/container', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...body, ...more }),
      });
      const text = await built.text();
      assert.equal(built.status, 403, text);
      assert.match(text, /severity: HIGH/);
    }
  });

  test('equal requests share a result until the database changes', async () => {
    const first = await ask({ scanMode: 'async' });
    await finished(first.scanId);
    const count = adapter.orders.length;
    const second = await ask({ scanMode: 'async' });
    assert.notEqual(second.scanId, first.scanId);
    assert.equal((await finished(second.scanId)).status, 'SUCCEEDED');
    assert.equal(adapter.orders.length, count);
    adapter.database = 'tomorrow';
    await finished((await ask({ scanMode: 'async' })).scanId);
    assert.equal(adapter.orders.length, count + 1);
  });

  const faults: readonly (readonly [string, NonNullable<ScriptedAdapter['report']>, RegExp])[] = [
    [
      'is about another image',
      response => response.end(`{"artifact":{"digest":"sha256:0"},"vulnerabilities":[]}`),
      /another image/,
    ],
    ['lacks the list', response => response.end('{}'), /wrong vulnerabilities/],
    ['is not JSON', response => response.end('<html>'), /not JSON/],
    ['has no end', response => response.end(Buffer.alloc(8 * 1024 * 1024, 32)), /larger than the/],
    [
      'has millions of entries',
      response => response.end(`{"vulnerabilities":[${'0,'.repeat(2_500_000)}0]}`),
      /more than 20000 vulnerabilities/,
    ],
    ['is a failure', response => response.writeHead(500).end(), /answered 500/],
    ['breaks off', response => response.destroy(), /scanner/i],
  ];
  for (const [what, report, reason] of faults) {
    test(`a report that ${what} fails the scan, and refuses the pull`, async () => {
      adapter.report = report;
      const asked = await ask({ scanMode: 'required', scanLevels: ['LOW', 'HIGH'] });
      const details = await finished(asked.scanId);
      assert.equal(details.status, 'FAILED');
      assert.match(details.reason ?? '', reason);
      const refused = await pull(asked);
      assert.equal(refused.status, 403);
      assert.match(await refused.text(), /scan did not complete successfully/);
      assert.equal((await statusOf(asked)).succeeded, false);
      // A failure is not shared.
      adapter.report = undefined;
      assert.equal((await finished((await ask({ scanMode: 'async' })).scanId)).status, 'SUCCEEDED');
    });
  }

  test('texts of a report are escaped on the page, and addresses that run something are dropped', async () => {
    const script = '<script>alert(1)</script>\u202e';
    const links = ['javascript:alert(1)'];
    adapter.found = [
      {
        id: script,
        severity: 'High',
        package: script,
        version: script,
        description: script,
        links,
      },
      { ...low, links: ['https://example.com/cve'], layer: { digest: script } },
    ];
    const asked = await ask({ scanMode: 'async' });
    const { vulnerabilities } = await finished(asked.scanId);
    assert.equal(vulnerabilities?.[0]?.primaryUrl, undefined);
    const page = await sluice.fetch(`/view/scans/${asked.scanId}`, {
      headers: { accept: 'text/html' },
    });
    const text = await page.text();
    assert.equal(page.status, 200);
    assert.ok(!text.includes('<script>alert'));
    assert.ok(!text.includes('javascript:alert'));
    assert.match(text, /&lt;script&gt;alert/);
    assert.match(text, /href="https:\/\/example\.com\/cve"/);
  });

  test('a report lists the 100 most severe findings, and counts all', async () => {
    adapter.found = Array.from({ length: 5000 }, (_, at) => ({
      ...{ id: `CVE-${at}`, severity: at % 50 === 0 ? 'Critical' : 'Low' },
      description: 'x'.repeat(1000),
    }));
    const { scanId } = await ask({ scanMode: 'async' });
    const { counts, vulnerabilities } = await finished(scanId);
    assert.deepEqual(counts, { CRITICAL: 100, LOW: 4900 });
    assert.equal(vulnerabilities?.length, 100);
    const { runs } = await json<{ runs: { results: unknown[] }[] }>(
      `/v1alpha1/scans/${scanId}/sarif`,
    );
    assert.equal(runs[0]?.results.length, 5000);
    const pageOf = async (query: string) =>
      (await sluice.fetch(`/view/scans/${scanId}?${query}`)).text();
    const rowsIn = (page: string) => page.match(/<tr><td>/g)?.length ?? 0;
    const first = await pageOf('');
    assert.equal(rowsIn(first), 100);
    assert.match(first, /Page 1 of 50/);
    assert.doesNotMatch(first, /<td>LOW/);
    assert.match(await pageOf('page=2'), /<td>LOW/);
    const lowest = await pageOf('severity=LOW&page=1000');
    assert.match(lowest, /4,900 found\. .*Page 49 of 49/s);
    const named = await pageOf('name=cve-1249&sort=vulnerability');
    assert.match(named, /1 found/);
    assert.equal(rowsIn(named), 1);
    assert.match(await pageOf('fixed=yes'), /None of them matches/);
    const refused = await sluice.fetch(`/view/scans/${scanId}?sort=price`);
    assert.equal(refused.status, 400);
    const bill = await sluice.fetch(`/v1alpha1/scans/${scanId}/spdx`);
    assert.equal(bill.status, 404);
    assert.match(await bill.text(), /Scripted 1\.0 does not list the packages of images/);
  });

  test('pulls of frozen images are not held back, and scans are counted', async () => {
    const body = { containerImage: nameOf('busybox:oci'), freeze: true };
    const send = (more: object) =>
      sluice.fetch('/v1alpha2/container', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          ...body,
          dryRun: true,
          buildRepository: `${registry.host}/made`,
          ...more,
        }),
      });
    assert.equal((await send({ scanMode: 'required' })).status, 400);
    const { warnings } = (await (await send({ scanMode: 'async' })).json()) as ScannedResponse;
    assert.equal(warnings, undefined);
    const headers = { authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` };
    const counted = await sluice.fetch('/v1alpha2/metrics/scans', { headers });
    const { metric, count } = (await counted.json()) as { metric: string; count: number };
    assert.equal(metric, 'scans');
    assert.ok(count > 5);
  });

  test('an unknown id is not found', async () => {
    assert.equal((await sluice.fetch(`/v1alpha1/scans/sc-${'0'.repeat(32)}`)).status, 404);
    assert.equal((await sluice.fetch('/view/scans/x')).status, 404);
  });

  test('kill -9 in the middle of a scan: it has failed, and its image stays refused', async () => {
    adapter.isHeld = true;
    const asked = await ask({ scanMode: 'required', scanLevels: ['LOW'] });
    await eventually('it runs', async () => (await statusOf(asked)).status === 'SCANNING');
    const { data, port } = sluice;
    await sluice.kill();
    sluice = await startSluice({ data, port, config: config() });
    const details = await finished(asked.scanId);
    assert.equal(details.status, 'FAILED');
    assert.match(details.reason ?? '', /server stopped during the scan/);
    assert.equal((await pull(asked)).status, 403);
    // Without its scanner, the server does not let the image pass either.
    await sluice.stop();
    sluice = await startSluice({ data, port, config: { ...config(), scans: {} } });
    assert.equal((await pull(asked)).status, 403);
    assert.equal((await sluice.fetch(`/v1alpha1/scans/${asked.scanId}`)).status, 501);
  });

  test('an operator who requires scans: every image has passed one, whatever its request says', async () => {
    const { data, port } = sluice;
    const before = await ask({});
    await sluice.stop();
    const scans = { ...config().scans, required: 'anonymous', levels: ['LOW'] };
    sluice = await startSluice({ data, port, config: { ...config(), scans } });
    const old = await pull(before);
    assert.equal(old.status, 403);
    assert.match(await old.text(), /scans\.required.*request it again/);
    adapter.found = [low, high];
    const asked = await ask({ scanMode: 'none' });
    assert.match(JSON.stringify(asked), /This server requires a security scan.*accepted: LOW/);
    await finished(asked.scanId);
    const refused = await pull(asked);
    assert.equal(refused.status, 403);
    assert.match(await refused.text(), /severity: HIGH \(scan: http.*\/view\/scans\/sc-/);
    assert.match(String((await statusOf(asked)).reason), /HIGH$/);
    adapter.found = [low];
    adapter.database = 'another one';
    const passed = await ask({});
    await finished(passed.scanId);
    assert.equal((await pull(passed)).status, 200);
    await assert.rejects(ask({ freeze: true }), /'freeze' and 'mirror' are refused/);
    await sluice.stop();
    sluice = await startSluice({ data, port, config: config() });
  });

  test('a scanner that hangs or drips is left in time, and one caller has a share of the queue', async () => {
    const { data, port } = sluice;
    await sluice.stop();
    const scans = { ...config().scans, timeout: '5s', maxWaiting: 4 };
    sluice = await startSluice({ data, port, config: { ...config(), scans } });
    const drips = (response: ServerResponse) => {
      response.writeHead(200).flushHeaders();
      const timer = setInterval(() => response.write(' '), 50);
      response.on('close', () => clearInterval(timer));
    };
    for (const report of [() => {}, drips]) {
      adapter.report = report;
      const asked = await ask({ scanMode: 'async' });
      const other = await finished((await ask({ scanMode: 'async' }, 'cfg:full')).scanId);
      assert.match(other.reason ?? '', /Too many scans run or wait \(at most 4, and 1 of one/);
      assert.match((await finished(asked.scanId)).reason ?? '', /did not finish within 5 s/);
    }
  });

  test('a scanner at a private address is refused unless it is allowed', async () => {
    const { data, port } = sluice;
    await sluice.stop();
    sluice = await startSluice({
      data,
      port,
      config: { ...config(), scans: { adapter: adapter.url } },
    });
    const count = adapter.orders.length;
    const details = await finished((await ask({ scanMode: 'async' })).scanId);
    assert.doesNotMatch(details.reason ?? '', /127\.0\.0\.1/);
    assert.match(details.reason ?? '', /closed network address.*scans\.allowPrivateAddress/);
    assert.equal(adapter.orders.length, count);
  });
});
