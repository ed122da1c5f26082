/** Singularity images: requested, made, pushed, and run by a real Apptainer. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Pushed } from '../corpus/corpus.ts';
import type { Apptainer, ApptainerUser } from '../world/apptainer.ts';
import type { Registry } from '../world/registry.ts';
import type { Sluice } from '../world/sluice.ts';
import { assertSuccess } from './served.ts';
import { type SifWorld, startSifWorld } from './sif-world.ts';

interface SifResponse {
  readonly targetImage: string;
  readonly containerToken?: string;
  readonly expiration?: string;
  readonly buildId: string;
  readonly cached: boolean;
  readonly freeze: boolean;
  readonly succeeded?: boolean;
  readonly warnings?: readonly string[];
}

suite('Singularity images', { concurrency: 1 }, () => {
  let world: SifWorld;
  let open: Registry;
  let closed: Registry;
  let sluice: Sluice;
  let apptainer: Apptainer;
  let images: Map<string, Pushed>;

  before(async () => {
    world = await startSifWorld(['busybox:oci', 'multi:index']);
    ({ open, closed, images, apptainer, sluice } = world);
  });
  after(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  const nameOf = (image: string) => images.get(image)?.reference ?? '';
  const request = async (body: object): Promise<SifResponse> =>
    (await sluice.request({ format: 'sif', freeze: true, ...body })) as unknown as SifResponse;
  const finished = async (response: SifResponse): Promise<string> => {
    const { buildId } = response;
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const status = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/status`)).json();
    assert.equal((status as { succeeded: boolean }).succeeded, true, log);
    return log;
  };
  const run = async (args: readonly string[], user: ApptainerUser = 'root', env = {}) =>
    assertSuccess(await apptainer.run(args, { user, env }));

  test('an image is converted without a build, and runs as root and as any user', async () => {
    const body = {
      containerImage: nameOf('busybox:oci'),
      containerConfig: { env: ['GREETING=it\'s "$HOME" `x`'], cmd: ['sh', '-c', 'echo $GREETING'] },
      buildRepository: `${open.host}/sif/busybox`,
    };
    const response = await request(body);
    assert.match(
      response.targetImage,
      new RegExp(`^oras://${open.host}/sif/busybox:[0-9a-f]{32}$`),
    );
    assert.equal(response.containerToken, undefined);
    assert.equal(response.expiration, undefined);
    assert.equal(response.freeze, true);
    const log = await finished(response);
    assert.match(log, /squashfs|SIF file/);
    for (const user of ['root', 'ordinary'] as const) {
      const file = apptainer.join(user, 'home', 'image.sif');
      await run(['pull', '--no-https', file, response.targetImage], user);
      assert.equal(await run(['run', file], user), 'it\'s "$HOME" `x`\n');
      assert.equal(await run(['run', file, 'echo', 'own words'], user), 'own words\n');
      assert.equal(
        await run(['exec', file, 'cat', '/bin/../etc/hostname'], user).catch(() => ''),
        '',
      );
    }
    const again = await request(body);
    assert.deepEqual(
      [again.targetImage, again.cached, again.succeeded],
      [response.targetImage, true, true],
    );
    const details = (await (await sluice.fetch(`/v1alpha1/builds/${response.buildId}`)).json()) as {
      file: string;
      format: string;
    };
    assert.equal(details.format, 'sif');
    assert.equal((await fetch(details.file)).status, 200);
  });

  test('a private registry works as source and target', async () => {
    const response = await request({
      containerImage: nameOf('busybox:oci'),
      buildRepository: `${closed.host}/sif/private`,
      buildCompression: { mode: 'zstd' },
    });
    await finished(response);
    const env = { APPTAINER_DOCKER_USERNAME: 'tester', APPTAINER_DOCKER_PASSWORD: 'sesame' };
    const output = await run(
      ['exec', '--no-https', response.targetImage, 'echo', 'private'],
      'root',
      env,
    );
    assert.equal(output, 'private\n');
    const without = await apptainer.run([
      ...['pull', '--no-https', apptainer.join('root', 'home', 'no.sif')],
      `oras://${closed.host}/sif/private:${response.targetImage.split(':').at(-1)}`,
    ]);
    assert.notEqual(without.code, 0);
  });

  test('a Dockerfile becomes a Singularity image, and leaves nothing else behind', async () => {
    const response = await request({
      containerFile: Buffer.from(
        `FROM ${nameOf('busybox:oci')}\nRUN echo made > /made\nENV KIND=dockerfile\nENTRYPOINT ["cat"]\nCMD ["/made"]\n`,
      ).toString('base64'),
      buildRepository: `${open.host}/sif/built`,
    });
    await finished(response);
    assert.equal(await run(['run', '--no-https', response.targetImage]), 'made\n');
    const { tags } = (await (await fetch(`${open.url}/v2/sif/built/tags/list`)).json()) as {
      tags: string[];
    };
    assert.deepEqual(tags, [response.targetImage.split(':').at(-1)]);
  });

  test('a definition file is built', async () => {
    const definition = [
      'Bootstrap: docker',
      `From: ${nameOf('busybox:oci')}`,
      '',
      '%post',
      '    echo "from post" > /post',
      '    echo "export POSTED=1" >> $APPTAINER_ENVIRONMENT',
      '',
      '%environment',
      '    export KIND=definition',
      '',
      '%runscript',
      '    echo "$KIND $(cat /post) $*"',
      '',
      '%labels',
      '    Author somebody',
      '',
    ].join('\n');
    const response = await request({
      containerFile: Buffer.from(definition).toString('base64'),
      buildRepository: `${open.host}/sif/defined`,
    });
    await finished(response);
    const file = apptainer.join('root', 'home', 'defined.sif');
    await run(['pull', '--no-https', file, response.targetImage]);
    assert.equal(await run(['run', file, 'and words']), 'definition from post and words\n');
    assert.match(await run(['inspect', file]), /Author: somebody/);
    assert.equal((await run(['inspect', '--deffile', file])).trim(), definition.trim());
    assert.match(
      await run(['inspect', '--environment', file]),
      /env\/91-environment\.sh ===\nexport POSTED=1\n/,
    );
  });

  test('%test runs unless it is disabled, and build arguments are used', async () => {
    const definition = (test: string) =>
      [
        ...['From: {{ IMAGE }}', 'Bootstrap: docker', 'OSVersion: none', '%setup', '%arguments'],
        ...['  GREETING=hello', '%post', '  echo "{{ GREETING }}" > /greeting', '  touch /tmp/x'],
        ...['%runscript', '  cat /greeting; ls /tmp', '%test', `  ${test}`, ''],
      ].join('\n');
    const body = (test: string) => ({
      containerFile: Buffer.from(definition(test)).toString('base64'),
      buildArgs: { IMAGE: nameOf('busybox:oci'), GREETING: 'hi there', UNUSED: '1' },
      buildRepository: `${open.host}/sif/tested`,
    });
    const failing = await request(body('test -f /nothing'));
    const log = await (
      await sluice.fetch(`/v1alpha1/builds/${failing.buildId}/logs?follow=true`)
    ).text();
    const status = await (await sluice.fetch(`/v1alpha1/builds/${failing.buildId}`)).json();
    assert.match(
      JSON.stringify(status) + log,
      /'%test' of the definition file ended with exit code 1; to build without it, set 'noTest'/,
    );
    const untested = await request({ ...body('test -f /nothing'), noTest: true });
    assert.notEqual(untested.targetImage, failing.targetImage);
    assert.match(untested.warnings?.join() ?? '', /'buildArgs.UNUSED' is not used/);
    await finished(untested);
    assert.equal(await run(['run', '--contain', '--no-https', untested.targetImage]), 'hi there\n');
    const tested = await request(body('grep hi /greeting'));
    assert.match(await finished(tested), /RUN .*\/dev\/sluice\/try/);
  });

  test('the request takes precedence over the definition file', async () => {
    const definition = [
      `Bootstrap: docker\nFrom: ${nameOf('busybox:oci')}\nIncludeCmd: yes`,
      '%post\n  echo "export KIND=post" >> $APPTAINER_ENVIRONMENT',
      '%environment\n  export KIND=definition',
      '%runscript\n  echo definition',
    ].join('\n');
    const response = await request({
      containerFile: Buffer.from(definition).toString('base64'),
      containerConfig: {
        ...{ entrypoint: ['sh', '-c', 'echo "$KIND $0"'], cmd: ['cmd'] },
        ...{ env: ['KIND=asked'], workingDir: '/tmp' },
      },
      buildRepository: `${open.host}/sif/changed`,
    });
    assert.match(response.warnings?.join() ?? '', /'containerConfig.workingDir'.*--pwd/);
    await finished(response);
    assert.equal(await run(['run', '--no-https', response.targetImage]), 'asked cmd\n');
    assert.equal(await run(['run', '--no-https', response.targetImage, 'own']), 'asked own\n');
  });

  test('an image for arm64 is made here, and states its architecture', async () => {
    const response = await request({
      containerImage: nameOf('multi:index'),
      containerPlatform: 'linux/arm64',
      buildRepository: `${open.host}/sif/arm`,
    });
    await finished(response);
    const inspected = await sluice.fetch('/v1alpha1/inspect', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ containerImage: response.targetImage }),
    });
    const { container } = (await inspected.json()) as {
      container: { config: { architecture: string }; sif: { definition: string } };
    };
    assert.equal(container.config.architecture, 'arm64');
    assert.match(container.sif.definition, /^bootstrap: docker\nfrom: .*\/corpus\/multi:index\n/);
  });

  test('a hosted repository accepts Singularity images only from callers who may push to it', async () => {
    const administrator = `Basic ${Buffer.from('admin:secret').toString('base64')}`;
    const post = async (path: string, authorization: string, body: object) => {
      const reply = await sluice.fetch(`/platform${path}`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      assert.equal(reply.status, 200, await reply.clone().text());
      return reply.json() as Promise<{ accessKey: string }>;
    };
    await post('/users', administrator, { email: 'someone@example.org' });
    const { accessKey } = await post('/tokens', administrator, {
      name: 'sif',
      user: 'someone@example.org',
    });
    await post('/credentials', `Bearer ${accessKey}`, {
      credentials: { keys: { registry: sluice.host, userName: 'admin', password: 'secret' } },
    });
    const body = {
      containerImage: nameOf('busybox:oci'),
      containerConfig: { cmd: ['echo', 'hosted'] },
      buildRepository: `${sluice.host}/public/tools`,
    };
    await assert.rejects(request(body), /403: .*'buildRepository'/);
    const response = await request({ ...body, platformAccessToken: accessKey });
    await finished(response);
    assert.equal(await run(['run', '--no-https', response.targetImage], 'ordinary'), 'hosted\n');
    const details = (await (await sluice.fetch(`/v1alpha1/builds/${response.buildId}`)).json()) as {
      file: string;
    };
    const file = apptainer.join('root', 'home', 'linked.sif');
    await run(['pull', file, details.file]);
    assert.equal(await run(['run', file]), 'hosted\n');
  });

  test('unsupported requests are reported', async () => {
    const refused = async (body: object) => {
      const response = await sluice.fetch('/v1alpha2/container', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ format: 'sif', freeze: true, ...body }),
      });
      return { status: response.status, text: await response.text() };
    };
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const buildRepository = `${open.host}/sif/none`;
    const both = await refused({
      containerFile: base64('FROM scratch\n'),
      containerPlatform: 'linux/amd64,linux/arm64',
      buildRepository,
    });
    assert.equal(both.status, 400);
    assert.match(both.text, /one platform/);
    const setup = await refused({
      containerFile: base64(`Bootstrap: docker\nFrom: busybox\n%setup\n  id\n`),
      buildRepository,
    });
    assert.equal(setup.status, 400);
    assert.match(setup.text, /%setup/);
    const dockerfile = await refused({
      ...{ containerFile: base64('FROM scratch\n'), buildRepository, noTest: true },
    });
    assert.match(dockerfile.text, /'noTest' is for Singularity definition files/);
    const argument = await refused({
      containerFile: base64('Bootstrap: docker\nFrom: {{ X }}\n'),
      ...{ buildRepository, buildArgs: { 'X Y': '1' } },
    });
    assert.match(argument.text, /'buildArgs': a name has letters, digits and _ only, not \\"X Y/);
    const unfrozen = await refused({ freeze: false, containerImage: nameOf('busybox:oci') });
    assert.match(unfrozen.text, /requires 'freeze: true'/);
    const docker = await refused({
      format: 'docker',
      containerFile: base64('Bootstrap: docker\nFrom: busybox\n'),
      buildRepository,
    });
    assert.match(docker.text, /set 'format' to sif/);
  });

  test('apptainer pulls served images, and SIF files pass through unchanged', async () => {
    const served = await sluice.request({
      containerImage: nameOf('busybox:oci'),
      containerConfig: { env: ['SERVED=yes'] },
    });
    const printed = await run([
      ...['exec', '--no-https', `docker://${served.targetImage}`],
      ...['sh', '-c', 'echo $SERVED'],
    ]);
    assert.equal(printed, 'yes\n');
    const sif = await request({
      containerImage: nameOf('busybox:oci'),
      containerConfig: { cmd: ['echo', 'through'] },
      buildRepository: `${open.host}/sif/through`,
    });
    await finished(sif);
    const through = await sluice.request({
      containerImage: sif.targetImage.replace('oras://', ''),
      containerConfig: { env: ['IGNORED=1'] },
    });
    assert.match(through.warnings?.join() ?? '', /artifact/);
    const ofArtifact = sif.targetImage.replace('oras://', '');
    await assert.rejects(
      request({ containerImage: ofArtifact, buildRepository: `${open.host}/sif/none` }),
      /400: .*an artifact, not a container image/,
    );
    assert.equal(await run(['run', '--no-https', `oras://${through.targetImage}`]), 'through\n');
  });
});
