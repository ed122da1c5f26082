/** Builds on a real BuildKit, from the request to the pull. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { assertSuccess, fetchJson } from './served.ts';

interface BuildResponse extends ContainerResponse {
  readonly buildId: string;
  readonly cached: boolean;
  readonly succeeded?: boolean;
}

interface Status {
  readonly status: 'PENDING' | 'COMPLETED';
  readonly duration: number;
  readonly succeeded: boolean;
}

suite('builds', { concurrency: 2 }, () => {
  let registry: Registry;
  let closed: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let base: string;
  let multi: string;

  before(async () => {
    registry = await startRegistry();
    closed = await startRegistry({ auth: 'basic' });
    const pushed: Map<string, Pushed> = await pushCorpus(registry, ['busybox:oci', 'multi:index']);
    await pushCorpus(closed, ['busybox:oci']);
    base = pushed.get('busybox:oci')?.reference ?? '';
    multi = pushed.get('multi:index')?.reference ?? '';
    buildkitd = await startBuildkitd();
    sluice = await startSluice({ config: configuration() });
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    await closed?.stop();
    await registry?.stop();
  });

  const configuration = () => ({
    accounts: { admin: 'secret' },
    buildkit: [buildkitd.address],
    // The source of an ADD whose address is masked: nobody listens there.
    builds: { privateHosts: ['127.0.0.1:1'], syntax: 'builder' },
    limits: { builds: { anonymous: 'off' } },
    registries: {
      [registry.host]: { plainHttp: true },
      [closed.host]: { plainHttp: true },
    },
  });
  const request = async (dockerfile: string, more: object = {}): Promise<BuildResponse> =>
    (await sluice.request({
      containerFile: Buffer.from(dockerfile).toString('base64'),
      ...more,
    })) as BuildResponse;
  const status = async (id: string, server = sluice): Promise<Status> =>
    (await server.fetch(`/v1alpha1/builds/${id}/status`)).json() as Promise<Status>;
  const logs = async (id: string) => (await sluice.fetch(`/v1alpha1/builds/${id}/logs`)).text();
  const manifestOf = (name: string) =>
    fetch(sluice.at(name, `manifests/${name.split(':').at(-1)}`));

  test('a Dockerfile is built, and the pull of its name waits for it', async () => {
    const dockerfile = `FROM ${base}\nRUN sleep 3 && echo built > /made\nCMD ["cat", "/made"]\n`;
    const response = await request(dockerfile);
    assert.match(response.buildId, /^[0-9a-f]{16,}_[0-9]+$/);
    assert.equal(response.cached, false);
    assert.equal(response.succeeded, undefined);
    assert.equal((await status(response.buildId)).status, 'PENDING', 'the name is there at once');
    await using root = await openRoot('forky');
    assert.equal(assertSuccess(await runWithPodman(root, response.targetImage)), 'built\n');
    const over = await status(response.buildId);
    assert.equal(over.status, 'COMPLETED');
    assert.equal(over.succeeded, true);
    assert.ok(over.duration >= 3);
    assert.match(
      await logs(response.buildId),
      /RUN sleep 3[\s\S]*\n\nThe build succeeded: .*\/builds:\S+ is sha256:[0-9a-f]{64}\n$/,
    );

    const again = await request(dockerfile);
    assert.equal(again.buildId, response.buildId);
    assert.equal(again.cached, true);
    assert.equal(again.succeeded, true);
    assert.notEqual(again.containerToken, response.containerToken);
    assert.equal((await manifestOf(again.targetImage)).status, 200);
  });

  test('identical simultaneous requests share one build', async () => {
    const dockerfile = `FROM ${base}\nRUN sleep 1; echo shared\n`;
    const responses = await Promise.all(Array.from({ length: 8 }, () => request(dockerfile)));
    assert.equal(new Set(responses.map(({ buildId }) => buildId)).size, 1);
    for (const { targetImage } of responses) {
      assert.equal((await manifestOf(targetImage)).status, 200);
    }
  });

  test('a build pushes one image, and a caller begins only so many builds', async () => {
    const limits = { builds: { anonymous: '2/day' } };
    await using limited = await startSluice({ config: { ...configuration(), limits } });
    const buildRepository = `${registry.host}/counted`;
    const ask = (name: string) => {
      const stages = ['one', 'two'].map(stage => `FROM ${base} AS ${stage}\nLABEL of=${name}\n`);
      const containerFile = Buffer.from(stages.join('')).toString('base64');
      return limited.fetch('/v1alpha2/container', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ containerFile, buildRepository }),
      });
    };
    const ids: string[] = [];
    for (const name of ['first', 'second', 'first']) {
      const response = await ask(name);
      assert.equal(response.status, 200, name);
      ids.push(((await response.json()) as BuildResponse).buildId);
    }
    assert.equal(ids[2], ids[0], 'a build that is there already begins no other');
    const refused = await ask('third');
    assert.equal(refused.status, 429);
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    for (const id of ids) {
      await eventually('the build succeeds', async () => (await status(id, limited)).succeeded);
    }
    const list = async (path: string) => (await fetch(`${registry.url}/v2/${path}`)).json();
    const { repositories } = (await list('_catalog')) as { repositories: string[] };
    assert.deepEqual(
      repositories.filter(name => name.startsWith('counted')),
      ['counted'],
    );
    const { tags } = (await list('counted/tags/list')) as { tags: string[] };
    assert.equal(tags.length, 2);
    // The registry writes its log a moment later.
    const pushing = () => registry.requests.filter(({ path }) => path.startsWith('/v2/counted/'));
    await eventually('the manifests are in the log of the registry', () => {
      return (
        pushing().filter(({ method, path }) => method === 'PUT' && /manifests/.test(path)).length >=
        2
      );
    });
    assert.deepEqual(
      pushing().filter(({ userAgent }) => /buildkit/i.test(userAgent)),
      [],
      'the builder pushes nothing',
    );
  });

  test('credentials in the address of an ADD appear nowhere', async () => {
    const address = 'http://robot:s3cr3t-t0ken@127.0.0.1:1/file';
    const { buildId, containerToken } = await request(`FROM ${base}\nADD ${address} /file\n`);
    await eventually(
      'the build has ended',
      async () => (await status(buildId)).status === 'COMPLETED',
    );
    const responses = [
      await logs(buildId),
      await (await sluice.fetch(`/v1alpha1/builds/${buildId}`)).text(),
      await (await sluice.fetch(`/v1alpha1/builds/${buildId}/status`)).text(),
      await (await sluice.fetch(`/v1alpha2/container/${containerToken}`)).text(),
      await (await sluice.fetch(`/v1alpha2/container/${containerToken}/status`)).text(),
      sluice.output(),
    ];
    assert.match(responses[0] ?? '', /ADD http:\/\/\*\*\*@127\.0\.0\.1:1\/file/);
    assert.match(responses[4] ?? '', /http:\/\/\*\*\*@127\.0\.0\.1:1\/file cannot be fetched/);
    assert.match(responses[1] ?? '', /\*\*\*@127\.0\.0\.1:1/);
    for (const response of responses) assert.ok(!/s3cr3t|robot/.test(response), response);
  });

  test('a containerConfig is applied to the built image when it is served', async () => {
    const dockerfile = `FROM ${base}\nRUN echo changed\nENV OWN=1\n`;
    const config = { env: ['ADDED=2'], cmd: ['env'] };
    const { targetImage } = await request(dockerfile, { containerConfig: config });
    const response = await manifestOf(targetImage);
    const { config: described } = (await response.json()) as { config: { digest: string } };
    const image = await fetchJson<{ config: { Env: string[]; Cmd: string[] } }>(
      sluice,
      targetImage,
      `blobs/${described.digest}`,
    );
    assert.ok(image.config.Env.includes('OWN=1') && image.config.Env.includes('ADDED=2'));
    assert.deepEqual(image.config.Cmd, ['env']);
  });

  test('a build for two platforms is an index, and both images are changed when served', async () => {
    const { targetImage } = await request(`FROM ${multi}\nENV OWN=1\n`, {
      containerPlatform: 'linux/amd64,linux/arm64',
      containerConfig: { env: ['ADDED=2'] },
    });
    const index = (await (await manifestOf(targetImage)).json()) as {
      manifests: { digest: string; platform: { architecture: string } }[];
    };
    const images = index.manifests.filter(({ platform }) => platform.architecture !== 'unknown');
    const architectures = images.map(({ platform }) => platform.architecture);
    assert.deepEqual(architectures.sort(), ['amd64', 'arm64']);
    for (const { digest } of images) {
      const { config } = await fetchJson<{ config: { digest: string } }>(
        sluice,
        targetImage,
        `manifests/${digest}`,
      );
      const image = await fetchJson<{ config: { Env: string[] } }>(
        sluice,
        targetImage,
        `blobs/${config.digest}`,
      );
      assert.ok(image.config.Env.includes('OWN=1') && image.config.Env.includes('ADDED=2'));
    }
  });

  test('a failed build reports the reason to pulls and to its caller', async () => {
    const dockerfile = `FROM ${base}\nRUN echo it goes wrong; exit 42\n`;
    const { targetImage, buildId } = await request(dockerfile);
    const response = await manifestOf(targetImage);
    assert.equal(response.status, 400);
    const { errors } = (await response.json()) as { errors: { code: string; message: string }[] };
    assert.equal(errors[0]?.code, 'MANIFEST_UNKNOWN');
    assert.match(errors[0]?.message ?? '', /exit code 42/);
    const log = `${sluice.url}/v1alpha1/builds/${buildId}/logs`;
    const [, lastLines, end] = errors[0]?.message.split('\n') ?? [];
    assert.deepEqual([lastLines, end], ['it goes wrong', `(log: ${log})`]);
    assert.equal((await status(buildId)).succeeded, false);
    assert.match(await logs(buildId), /it goes wrong[\s\S]*The build failed: /);
    const phrase = response.statusText;
    assert.match(
      phrase,
      /^The build of this image failed: '.*RUN echo it goes wrong; exit 42' ended with exit code 42 \(Dockerfile, line 2\) \(log: /,
    );
    assert.ok(phrase.endsWith(`(log: ${log})`));
    const head = await fetch(sluice.at(targetImage, 'manifests/latest'), { method: 'HEAD' });
    assert.deepEqual([head.status, head.statusText], [400, phrase]);
  });

  test('an invalid Dockerfile is reported with its line', async () => {
    await assert.rejects(request(`FROM ${base}\nRUNN true\n`), /400: .*line 2: 'RUNN'/);
    // A custom frontend would run in the builder, and pull images without a check.
    const frontend = request(`# syntax=evil.example.com/frontend:1\nFROM ${base}\n`);
    await assert.rejects(frontend, /400: .*line 1: the syntax evil\.example\.com/);
    // Errors that only the builder finds are reported to pulls.
    const { targetImage } = await request(`FROM ${base}\n\nCOPY nothing /\n`);
    assert.match(
      await (await manifestOf(targetImage)).text(),
      /line 3[\s\S]*'nothing' is not in the build context/,
    );
  });

  test('the frontend of the builder reads a Dockerfile that names one of Docker Hub', async () => {
    const dockerfile = `# syntax=docker/dockerfile:1.7\nFROM ${base}\nCOPY <<EOF /said\nread here\nEOF\n`;
    const { buildId } = await request(dockerfile);
    await eventually('it has ended', async () => (await status(buildId)).status === 'COMPLETED');
    assert.equal((await status(buildId)).succeeded, true, await logs(buildId));
    assert.doesNotMatch(await logs(buildId), /docker-image:.*docker\/dockerfile/);
  });

  test('a repository without push access is reported with its field', async () => {
    for (const [repository, reason] of [
      [`${closed.host}/team/app`, 'refused access'],
      ['nosuchregistry.invalid/team/app', 'has no address'],
    ]) {
      const wrong = request(`FROM ${base}\n`, { buildRepository: repository });
      await assert.rejects(wrong, new RegExp(`'buildRepository': .*${reason}`));
    }
    // A port is no tag.
    const bare = request(`FROM ${base}\n`, { buildRepository: registry.host });
    await assert.rejects(bare, /'buildRepository' is incomplete: write registry\/path/);
  });

  test('the registry of an existing image is asked once', async () => {
    const repository = 'asked/once';
    const dockerfile = `FROM ${base}\nRUN echo once\n`;
    const where = { buildRepository: `${registry.host}/${repository}` };
    const { targetImage } = await request(dockerfile, where);
    assert.equal((await manifestOf(targetImage)).status, 200);
    const asked = () =>
      registry.requests.filter(({ path }) => path.startsWith(`/v2/${repository}/manifests/`));
    const before = asked().length;
    assert.equal((await request(dockerfile, where)).cached, true);
    // The order of its log is the order of its responses.
    const marker = `/v2/${repository}/manifests/marker`;
    await fetch(registry.url + marker);
    await eventually('it is logged', async () => asked().some(({ path }) => path === marker));
    assert.deepEqual(
      asked()
        .slice(before)
        .map(({ method }) => method),
      ['HEAD', 'GET'],
    );
  });

  test('a build that the builder has asks the registry of its image for nothing twice', async () => {
    const dockerfile = `FROM ${base}\nRUN echo little > /made\n`;
    const buildIn = async (repository: string) => {
      const where = { buildRepository: `${registry.host}/${repository}` };
      const { buildId } = await request(dockerfile, where);
      await eventually('the build succeeds', async () => (await status(buildId)).succeeded);
    };
    await buildIn('little/first');
    await buildIn('little/second');
    const asked = () =>
      registry.requests.filter(({ path }) => path.startsWith('/v2/little/second/'));
    await eventually('the push is logged', async () =>
      asked().some(({ method, path }) => method === 'PUT' && path.includes('/manifests/')),
    );
    assert.deepEqual(
      asked()
        .map(
          ({ method, path }) =>
            `${method} ${path
              .split('/')
              .slice(4)
              .join('/')
              .replace(/(?:\?|\/[\w-]{30}).*/, '')}`,
        )
        .toSorted(),
      [
        ...['HEAD manifests', 'POST blobs/uploads/', 'POST blobs/uploads/', 'POST blobs/uploads/'],
        ...['PUT blobs/uploads', 'PUT manifests'],
      ],
    );
    const mounted = asked().filter(({ path }) => path.includes('?mount='));
    assert.deepEqual(
      mounted.map(({ path }) => new URL(path, registry.url).searchParams.get('from')).toSorted(),
      ['corpus/busybox', 'little/first'],
    );
  });

  test('base images require the rights of the caller, whatever the builder has stored', async () => {
    for (const name of [`${closed.host}/corpus/busybox:oci`, `${registry.host}/corpus/none:1`]) {
      await assert.rejects(request(`FROM ${name}\n`), /400: .*base image .* is unavailable/);
    }
  });

  test('nobody else can pull a built image by its own name', async () => {
    const { targetImage, buildId } = await request(`FROM ${base}\nRUN echo private\n`);
    assert.equal((await manifestOf(targetImage)).status, 200);
    const [key = ''] = buildId.split('_');
    const direct = await sluice.fetch(`/v2/builds/manifests/${key}`);
    assert.equal(direct.status, 401);
    await assert.rejects(
      sluice.request({ containerImage: `${sluice.host}/builds:${key}` }),
      /Cannot pull .* without credentials/,
    );
    // The key is in the name of the image, and reveals nothing.
    for (let number = 0; number < 10; number += 1) {
      for (const what of ['', '/status', '/logs', '/condalock']) {
        const path = `/v1alpha1/builds/${key}_${number}${what}`;
        assert.equal((await sluice.fetch(path)).status, 404, path);
      }
    }
  });

  test('a request cannot write to a hosted repository by naming it', async () => {
    for (const field of ['buildRepository', 'cacheRepository']) {
      await assert.rejects(
        request(`FROM ${base}\n`, { [field]: `${sluice.host}/secret/app` }),
        new RegExp(`403: .*'${field}': Cannot push to .*/secret/app without credentials`),
      );
    }
  });

  test('the log can be followed during the build', async () => {
    const dockerfile = `FROM ${base}\nRUN for i in 1 2 3; do echo step-$i; sleep 2; done\n`;
    const { buildId } = await request(dockerfile);
    const response = await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`);
    assert.equal(response.headers.get('x-accel-buffering'), 'no');
    let text = '';
    let first: string | undefined;
    for await (const piece of response.body ?? []) {
      text += Buffer.from(piece as Uint8Array).toString('utf8');
      if (/\bstep-\d/.test(text)) first ??= text;
    }
    assert.match(text, /step-3/);
    assert.doesNotMatch(first ?? '', /step-3/, 'it came as it was written');
    const events = await sluice.fetch(`/v1alpha1/builds/${buildId}/logs`, {
      headers: { accept: 'text/event-stream' },
    });
    assert.match(await events.text(), /^data: [\s\S]*event: end/);
  });

  test('only its caller and an administrator can cancel a build', async () => {
    const headers = { authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` };
    const cancel = (id: string, more = {}) =>
      sluice.fetch(`/v1alpha1/builds/${id}`, { method: 'DELETE', ...more });
    const dockerfile = `FROM ${base}\nRUN sleep 600\n`;
    const begun = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ containerFile: Buffer.from(dockerfile).toString('base64') }),
    });
    const theirs = (await begun.json()) as BuildResponse;
    const refusal = await cancel(theirs.buildId);
    assert.equal(refusal.status, 401);
    assert.match(await refusal.text(), /Only the caller who requested a build/);
    // Another caller who waits for it.
    assert.equal((await request(dockerfile)).buildId, theirs.buildId);
    const left = (await (await cancel(theirs.buildId)).json()) as { cancelled: boolean };
    assert.equal(left.cancelled, false);
    assert.equal((await status(theirs.buildId)).status, 'PENDING');
    assert.equal((await cancel(theirs.buildId, { headers })).status, 200);
    assert.match(await (await manifestOf(theirs.targetImage)).text(), /cancelled/);
    assert.equal((await status(theirs.buildId)).succeeded, false);

    const own = await request(`FROM ${base}\nRUN sleep 601\n`);
    const done = await sluiceCommand(['cancel', own.buildId], { SLUICE_SERVER: sluice.url });
    assert.equal(assertSuccess(done), 'The build was cancelled\n');
    await eventually('it ends', async () => (await status(own.buildId)).status === 'COMPLETED');
    const late = await sluiceCommand(['cancel', own.buildId], { SLUICE_SERVER: sluice.url });
    assert.deepEqual([late.code, late.stdout], [1, 'The build is finished\n']);
  });

  test('a build moves to another builder when its builder dies', async () => {
    await using doomed = await startBuildkitd();
    await using several = await startSluice({
      config: { ...configuration(), buildkit: [doomed.address, buildkitd.address] },
    });
    const dockerfile = `FROM ${base}\nRUN sleep 4; echo moved\n`;
    const { targetImage, buildId } = (await several.request({
      containerFile: Buffer.from(dockerfile).toString('base64'),
    })) as BuildResponse;
    await eventually('it runs', async () => (await doomed.containerProcesses()).length > 0);
    doomed.signal('SIGKILL');
    const response = await fetch(
      several.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`),
    );
    assert.equal(response.status, 200, several.output());
    const log = await (await several.fetch(`/v1alpha1/builds/${buildId}/logs`)).text();
    assert.match(log, /The connection to the builder was lost during the build: trying again/);
  });

  test('without a builder a request gets a remedy, and everything else works', async () => {
    await using lonely = await startSluice({
      config: { ...configuration(), buildkit: ['off'] },
    });
    const containerFile = Buffer.from(`FROM ${base}\n`).toString('base64');
    await assert.rejects(
      lonely.request({ containerFile }),
      /501: .*docker compose -f builder\/compose\.yaml.*SLUICE_BUILDKIT/,
    );
    assert.ok(await lonely.request({ containerImage: base }));
  });
});
