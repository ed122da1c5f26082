/** Real clients pull a name whose image is still being built, or whose build has failed. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { clientsOf, pull } from '../world/clients.ts';
import { startContainerd } from '../world/containerd.ts';
import { startDocker } from '../world/docker.ts';
import { eventually } from '../world/eventually.ts';
import type { Result } from '../world/program.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type ContainerResponse, labelOf, type Sluice, startSluice } from '../world/sluice.ts';
import { outerSuites } from '../world/tools.ts';
import { assertSuccess } from './served.ts';

interface BuildResponse extends ContainerResponse {
  readonly buildId: string;
  readonly cached: boolean;
  readonly succeeded?: boolean;
  readonly reason?: string;
}

interface RequestStatus {
  readonly id: string;
  readonly status: 'BUILDING' | 'DONE';
  readonly buildId?: string;
  readonly succeeded?: boolean;
  readonly reason?: string;
  readonly detailsUri?: string;
  readonly creationTime: string;
  readonly duration: number;
}

suite('pulls of builds in progress', { concurrency: 6 }, () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let base: string;
  // A build continues when its id is in here, so it ends after the tested event on any machine.
  const opened = new Set<string>();
  let gate: Server;
  let gateUrl: string;

  before(async () => {
    gate = createServer(({ url = '' }, response) => {
      response.writeHead(opened.has(url.slice(1)) ? 200 : 404).end();
    }).listen(0, '127.0.0.1');
    await once(gate, 'listening');
    gateUrl = `http://127.0.0.1:${(gate.address() as AddressInfo).port}`;
    registry = await startRegistry();
    const pushed = await pushCorpus(registry, ['busybox:v2s2']);
    base = pushed.get('busybox:v2s2')?.reference ?? '';
    buildkitd = await startBuildkitd();
    sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        // Two seconds instead of 25; a client follows ten redirects.
        builds: { pullWait: '2s', concurrent: 12, retryAfter: '1h' },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    await registry?.stop();
    gate?.close();
  });

  /** Requests a new build that runs until the test continues it. */
  const build = async (): Promise<BuildResponse & { letOn(): void }> => {
    const id = randomUUID();
    const wait = `until wget -q -O /dev/null ${gateUrl}/${id}; do sleep 0.1; done`;
    const dockerfile = `FROM ${base}\nRUN ${wait}; echo ${id} > /made\n`;
    const body = { containerFile: Buffer.from(dockerfile).toString('base64') };
    const response = (await sluice.request(body)) as BuildResponse;
    return { ...response, letOn: () => opened.add(id) };
  };
  const redirectsOf = async (response: ContainerResponse): Promise<number> => {
    const own = (await sluice.requests()).filter(one => one.tokenLabel === labelOf(response));
    return own.filter(({ status }) => status === 307).length;
  };
  const statusOf = async (id: string): Promise<RequestStatus> =>
    (await sluice.fetch(`/v1alpha2/container/${id}/status`)).json() as Promise<RequestStatus>;

  /** Requests a build that fails, and waits for the failure. */
  const failing = async () => {
    const dockerfile = `FROM ${base}\nRUN echo ${randomUUID()}; exit 42\n`;
    const body = { containerFile: Buffer.from(dockerfile).toString('base64') };
    const response = (await sluice.request(body)) as BuildResponse;
    await eventually(
      'the build has failed',
      async () => (await statusOf(response.requestId)).succeeded === false,
    );
    return { ...response, body };
  };

  const check = async (pullName: (reference: string) => Promise<Result>): Promise<void> => {
    const response = await build();
    const pulled = pullName(response.targetImage);
    await Promise.race([
      eventually('the client was redirected', async () => (await redirectsOf(response)) >= 2),
      pulled,
    ]);
    response.letOn();
    assertSuccess(await pulled);
    assert.ok((await redirectsOf(response)) >= 2, 'it followed redirects');
    const own = (await sluice.requests()).filter(one => one.tokenLabel === labelOf(response));
    // cosign also looks for signatures, under tags that do not exist.
    const refused = own.filter(({ status, path }) => status >= 400 && !path.includes('/sha256-'));
    assert.deepEqual(refused, []);
  };

  let failedOnce: ReturnType<typeof failing> | undefined;
  /** Requests the same failed build each time, which gives a name for each client. */
  const failedName = async (): Promise<BuildResponse> => {
    failedOnce ??= failing();
    const { body } = await failedOnce;
    return (await sluice.request(body)) as BuildResponse;
  };

  /** Whatever a client requests first, it shows why the build failed, and stops at once. */
  const checkFailed = async (pullName: (reference: string) => Promise<Result>): Promise<void> => {
    const response = await failedName();
    const { code, stderr } = await pullName(response.targetImage);
    assert.notEqual(code, 0);
    assert.match(
      stderr,
      /The build of this image failed: '[^']* RUN echo \S+; exit 42' ended with exit code 42 \(Dockerfile, line 2\)/,
    );
    assert.ok(stderr.includes(`(log: ${sluice.url}/v1alpha1/builds/${response.buildId}/logs)`));
    const own = (await sluice.requests()).filter(one => one.tokenLabel === labelOf(response));
    assert.ok(own.length > 0 && own.length <= 2, `asked ${own.length} times`);
    for (const { status } of own) assert.equal(status, 400);
  };

  for (const name of outerSuites) {
    for (const store of ['overlay2', 'containerd'] as const) {
      if (name === 'bookworm' && store === 'containerd') continue;
      test(`Docker of ${name} with ${store}`, async () => {
        await using docker = await startDocker({ suite: name, store });
        const pullName = (reference: string) => docker.pull(reference);
        await check(pullName);
        await checkFailed(pullName);
      });
    }
    test(`containerd of ${name}`, async () => {
      await using containerd = await startContainerd({ suite: name });
      const pullName = (reference: string) => containerd.pull(reference);
      await check(pullName);
      await checkFailed(pullName);
    });
    for (const client of clientsOf(name)) {
      test(`${client} of ${name}`, async () => {
        await using root = await openRoot(name);
        const pullName = (reference: string) => pull(root, client, reference);
        await check(pullName);
        await checkFailed(pullName);
      });
    }
  }

  test('the status of a request follows its build', async () => {
    const response = await build();
    const { requestId, containerToken, buildId } = response;
    assert.equal(requestId, containerToken);
    const running = await statusOf(requestId);
    assert.deepEqual([running.status, running.buildId], ['BUILDING', buildId]);
    assert.equal(running.succeeded, undefined);
    response.letOn();
    await eventually('it is built', async () => (await statusOf(requestId)).succeeded === true);
    assert.equal((await statusOf(requestId)).status, 'DONE');

    const image = await sluice.request({ containerImage: base });
    const { creationTime, duration, ...how } = await statusOf(image.requestId);
    assert.ok(duration >= 0 && Date.parse(creationTime) > 0);
    assert.deepEqual(how, { id: image.requestId, status: 'DONE', succeeded: true });
  });

  // Clients that wait ask for the status, except where the response has `succeeded`.
  test('a failed build does not look ready when it is requested again', async () => {
    const { body, ...first } = await failing();
    const again = (await sluice.request(body)) as BuildResponse;
    const { buildId } = first;
    assert.equal(again.buildId, buildId);
    assert.deepEqual([again.cached, again.succeeded], [false, undefined]);
    assert.match(again.reason ?? '', /exit code 42/);
    for (const id of [first.requestId, again.requestId]) {
      const { creationTime, duration, reason, ...how } = await statusOf(id);
      assert.ok(duration >= 0 && Date.parse(creationTime) > 0);
      assert.match(reason ?? '', /exit code 42/);
      const detailsUri = `${sluice.url}/view/builds/${buildId}`;
      assert.deepEqual(how, { id, status: 'DONE', buildId, detailsUri, succeeded: false });
    }
  });

  test('a dry run has an id and no status', async () => {
    const { requestId } = await sluice.request({ containerImage: base, dryRun: true });
    assert.match(requestId, /^dry-run-/);
    const none = await sluice.fetch(`/v1alpha2/container/${requestId}/status`);
    assert.equal(none.status, 404);
    assert.match(await none.text(), /dry run, which has no status/);
  });

  test('a client that was redirected nine times gets the answer that the build is running', async () => {
    const { targetImage, letOn } = await build();
    const response = await fetch(
      sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`),
    );
    assert.equal(response.status, 503);
    assert.equal(response.headers.get('retry-after'), '5');
    assert.match(
      await response.text(),
      /image is running: pull it again in a while \(log: http:\/\/.*\/v1alpha1\/builds\//,
    );
    letOn();
  });
});
