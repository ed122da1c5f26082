/** Images of Conda packages without a builder: real packages, a real registry, and clients that run the programs. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { openApptainer } from '../world/apptainer.ts';
import { runWithPodman } from '../world/clients.ts';
import {
  type CondaChannels,
  channelSettings,
  startCondaChannels,
} from '../world/conda-channels.ts';
import { type CondaPackage, nativeSubdir } from '../world/conda-package.ts';
import { hello, library, program } from '../world/conda-programs.ts';
import { pythonPackages } from '../world/conda-python.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { freePort } from '../world/free-port.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

const linked: CondaPackage = {
  ...{ name: 'linked', version: '1' },
  files: [{ name: 'bin/.linked-post-link.sh', content: '#!/bin/sh\ntrue\n', mode: 0o755 }],
};

const channels: Readonly<Record<string, readonly CondaPackage[]>> = {
  'conda-forge': [
    ...pythonPackages(),
    program('procps-ng', '4.0'),
    library('1.2'),
    library('1.3', { format: 'tar.bz2' }),
    library('2.0'),
    linked,
    {
      name: 'data',
      version: '1',
      noarch: 'generic',
      files: [{ name: 'share/data', content: 'data\n' }],
    },
    ...['linux-64', 'linux-aarch64'].map(subdir => ({
      ...{ name: 'native', version: '1', depends: ['data'], index: { subdir } },
      files: [{ name: 'share/native', content: `made for ${subdir}\n` }],
    })),
    hello,
  ],
  bioconda: [
    program('samtools', '1.19', { depends: ['library >=1.2,<1.3'], format: 'tar.bz2' }),
    program('samtools', '1.20', { depends: ['library >=1.3,<2'] }),
    program('newest', '1', { depends: ['library >=2', '__glibc >=2.17'] }),
    program('future', '1', { depends: ['__glibc >=99'] }),
  ],
};

interface CondaResponse {
  readonly targetImage: string;
  readonly buildId: string;
  readonly warnings?: readonly string[];
}

suite('native Conda images', () => {
  let registry: Registry;
  let served: CondaChannels;
  let sluice: Sluice;
  let root: Root;
  let baseImage: string;

  const configOf = () => ({
    limits: { builds: { anonymous: 'off' } },
    registries: { [registry.host]: { plainHttp: true } },
    channels: { ...served.settings, ...channelSettings(served.url, ['nowhere']) },
  });

  before(async () => {
    registry = await startRegistry();
    served = await startCondaChannels(channels);
    await pushDebianImage(registry, 'debian');
    baseImage = `${registry.host}/debian:1`;
    sluice = await startSluice({ config: configOf() });
    root = await openRoot('forky');
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
    await served?.stop();
    await registry?.stop();
  });

  const bodyOf = (packages: object, options: object = {}) => ({
    packages: { type: 'CONDA', condaOpts: { baseImage, ...options }, ...packages },
  });
  const request = async (packages: object, more: object = {}): Promise<CondaResponse> =>
    (await sluice.request({ ...bodyOf(packages), ...more })) as unknown as CondaResponse;
  const refused = async (body: object) => {
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const { message } = (await response.json()) as { message: string };
    return { status: response.status, message };
  };
  const run = async ({ targetImage }: Pick<CondaResponse, 'targetImage'>, ...command: string[]) =>
    assertSuccess(await runWithPodman(root, targetImage, { command }));
  const text = async (path: string) => (await sluice.fetch(path)).text();
  const logOf = ({ buildId }: CondaResponse) =>
    text(`/v1alpha1/builds/${buildId}/logs?follow=true`);
  const lockOf = async (response: CondaResponse) => {
    await logOf(response);
    return text(`/v1alpha1/builds/${response.buildId}/condalock`);
  };
  const manifestOf = async ({ targetImage }: CondaResponse) => {
    const tag = targetImage.split(':').at(-1);
    const response = await fetch(sluice.at(targetImage, `manifests/${tag}`));
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as { layers: { digest: string }[] };
  };
  const locked = (path: string) => {
    const bytes = served.files.get(`/${path}`);
    assert.ok(bytes, path);
    return `${served.url}/${path}#${createHash('md5').update(bytes).digest('hex')}`;
  };
  const environment = (lines: readonly string[]) =>
    Buffer.from(`${lines.join('\n')}\n`).toString('base64');

  test('programs run with what they require, at the prefix, without a builder', async () => {
    const built = await request({ entries: ['samtools'] });
    assert.equal(
      await run(built, 'samtools', 'view'),
      'samtools 1.20 view\nlibrary 1.3 below /opt/conda\n',
    );
    assert.match(await run(built, 'procps-ng'), /^procps-ng 4\.0/);
    assert.equal(
      await run(built, 'sh', '-c', 'echo $PATH; echo $CONDA_PREFIX; ls /opt/conda/conda-meta'),
      [
        '/opt/conda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        '/opt/conda',
        'history',
        'library-1.3-0.json',
        'procps-ng-4.0-0.json',
        'samtools-1.20-0.json\n',
      ].join('\n'),
    );
    assert.equal(built.warnings, undefined);
  });

  test('Python runs the entry points of a package for any platform', async () => {
    const built = await request({ entries: ['hello', 'pip'] });
    assert.equal(await run(built, 'hello'), 'hello from /opt/conda/bin/python3.11\n');
    assert.match(await run(built, 'pip', '--version'), /^pip 25\.3 from \/opt\/conda\/lib\/python/);
  });

  test('a package that has a layer is neither fetched nor made again', async () => {
    const one = await manifestOf(await request({ entries: ['samtools=1.20'] }));
    await manifestOf(await request({ entries: ['hello'] }));
    const before = served.requests.length;
    const both = await manifestOf(await request({ entries: ['samtools=1.20', 'hello'] }));
    const digests = new Set(both.layers.map(({ digest }) => digest));
    // The last layer holds the history of the environment.
    const packages = one.layers.slice(0, -1);
    assert.ok(packages.length >= 4, `${packages.length} layers`);
    assert.ok(packages.every(({ digest }) => digests.has(digest)));
    const archives = /\.(?:conda|tar\.bz2)$/;
    assert.deepEqual(
      served.requests.slice(before).filter(path => archives.test(path)),
      [],
    );
  });

  test('packages replace the environment of a base image', async () => {
    const frozen = { freeze: true, buildRepository: `${registry.host}/environment` };
    const before = await request({ entries: ['samtools=1.20'] }, frozen);
    await logOf(before);
    const options = { baseImage: before.targetImage, basePackages: '' };
    const built = await request({}, bodyOf({ entries: ['data'] }, options));
    assert.match(await logOf(built), /the base image has a Conda environment at \/opt\/conda/);
    assert.equal(
      await run(built, 'sh', '-c', 'ls /opt/conda /opt/conda/conda-meta'),
      '/opt/conda:\nconda-meta\nshare\n\n/opt/conda/conda-meta:\ndata-1-0.json\nhistory\n',
    );
  });

  test('packages without a solution are explained in the answer to the request', async () => {
    const { status, message } = await refused(
      bodyOf({ entries: ['samtools=1.20', 'library=2.0'] }),
    );
    assert.equal(status, 400);
    assert.match(message, /samtools/);
    assert.match(message, /library/);
    const absent = await refused(bodyOf({ entries: ['no-such-package'] }));
    assert.equal(absent.status, 400);
    assert.match(absent.message, /no-such-package/);
  });

  test('a missing channel names the package that asks for it, also one that the caller does not see', async () => {
    const asked = await refused(bodyOf({ entries: ['data', 'nowhere::tool'] }));
    assert.match(asked.message, /^The channel nowhere .*\. The package tool asks for this channel/);
    const unseen = await refused(
      bodyOf({ entries: ['data'] }, { basePackages: 'nowhere::procps-ng' }),
    );
    assert.match(
      unseen.message,
      /The package procps-ng asks for this channel, and is in 'packages\.condaOpts\.basePackages'/,
    );
  });

  test('the record of a request has its packages', async () => {
    const packages = { entries: ['data', 'native=1'], channels: ['conda-forge', 'bioconda'] };
    const { containerToken } = (await request(packages)) as CondaResponse & {
      containerToken: string;
    };
    const record = await (await sluice.fetch(`/v1alpha2/container/${containerToken}`)).json();
    assert.deepEqual((record as { packages: object }).packages, bodyOf(packages).packages);
  });

  test('the C library of the base image decides what can be installed', async () => {
    const built = await request({ entries: ['newest'] });
    assert.match(await run(built, 'newest'), /^newest 1/);
    const { status, message } = await refused(bodyOf({ entries: ['future'] }));
    assert.equal(status, 400);
    assert.match(message, /__glibc/);
  });

  test('what requires a builder is named where there is none', async () => {
    const { status, message } = await refused(
      bodyOf({ entries: ['samtools'] }, { commands: ['true'], mambaImage: baseImage }),
    );
    assert.equal(status, 501, message);
    assert.match(
      message,
      /^'condaOpts\.commands' and 'condaOpts\.mambaImage' \S+ require a builder\. This server has no builder/,
    );
    const dry = (await sluice.request({
      ...bodyOf({ entries: ['samtools', 'pip:rich'] }, { commands: ['true'] }),
      dryRun: true,
    })) as unknown as { solution?: { builderReason?: string }; reason?: string };
    assert.match(
      dry.reason ?? '',
      /^'condaOpts\.commands' and the 'pip' packages require a builder\. This server has no builder/,
    );
    served.files.set(
      '/bioconda/locks/with-pip',
      Buffer.from(`@EXPLICIT\n${locked('conda-forge/noarch/data-1-0.conda')}\n# pip rich\n`),
    );
    const withPip = { entries: [`${served.url}/bioconda/locks/with-pip`] };
    const byAddress = (await sluice.request({
      ...bodyOf(withPip),
      dryRun: true,
    })) as unknown as typeof dry;
    const reason = /^The 'pip' packages of the lock file require a builder\. This server has no/;
    assert.match(byAddress.reason ?? '', reason);
    assert.equal(
      byAddress.solution?.builderReason,
      "The 'pip' packages of the lock file require a builder",
    );
    assert.match((await refused(bodyOf(withPip))).message, reason);
    const scripted = await request({ entries: ['linked'] });
    const log = await logOf(scripted);
    assert.match(log, /The link script of linked requires a builder/);
    assert.match(log, /The build failed: The link script of linked requires a builder\. /);
  });

  test('a lock file gives the same image as the request that it was made of', async () => {
    const built = await request({ entries: ['samtools=1.19'] });
    const lock = await lockOf(built);
    assert.match(lock, /^@EXPLICIT$/m);
    assert.ok(lock.includes(locked(`bioconda/${nativeSubdir}/samtools-1.19-0.tar.bz2`)));
    const again = await request({ environment: environment([lock]) });
    assert.deepEqual(await manifestOf(again), await manifestOf(built));
    served.files.set('/locks/conda.lock', Buffer.from(lock));
  });

  test('lock files of other forms and bills of materials come with the image', async () => {
    const built = await request({ entries: ['samtools=1.19'] });
    await logOf(built);
    const at = `/v1alpha1/builds/${built.buildId}`;
    const explicit = await text(`${at}/lock`);
    assert.equal(explicit, await text(`${at}/condalock`));
    assert.match(explicit, new RegExp(`^# platform: ${nativeSubdir}\n@EXPLICIT\n`));
    for (const format of ['pixi', 'conda-lock']) {
      const response = await sluice.fetch(`${at}/lock?format=${format}`);
      assert.equal(response.headers.get('content-type'), 'application/yaml');
      const lock = await response.text();
      assert.match(lock, /samtools-1\.19-0\.tar\.bz2/);
      const again = await request({ environment: environment([lock]) });
      assert.deepEqual(await manifestOf(again), await manifestOf(built), format);
      served.files.set(`/bioconda/locks/${format}`, Buffer.from(lock));
      for (const address of [
        `${served.url}/bioconda/locks/${format}`,
        `${sluice.url}${at}/lock?format=${format}`,
      ]) {
        const byAddress = await request({ entries: [address] });
        assert.deepEqual(await manifestOf(byAddress), await manifestOf(built), address);
      }
    }
    const spdx = JSON.parse(await text(`${at}/sbom`));
    assert.equal(spdx.spdxVersion, 'SPDX-2.3');
    const cyclonedx = JSON.parse(await text(`${at}/sbom?format=cyclonedx`));
    const names = cyclonedx.components.map(({ name }: { name: string }) => name);
    assert.deepEqual(names.sort(), ['library', 'procps-ng', 'samtools']);
    const { digest } = JSON.parse(await text(at)) as { digest: string };
    assert.ok(spdx.name.endsWith(`/builds@${digest}`), spdx.name);
    const referrers = (await (
      await fetch(sluice.at(built.targetImage, `referrers/${digest}`))
    ).json()) as { manifests: { artifactType: string }[] };
    assert.deepEqual(
      [...new Set(referrers.manifests.map(({ artifactType }) => artifactType))].sort(),
      [
        'application/spdx+json',
        'application/vnd.cyclonedx+json',
        'application/vnd.sluice.conda.lock.v1',
      ],
    );
    const unknown = await sluice.fetch(`${at}/sbom?format=syft`);
    assert.equal(unknown.status, 400);
  });

  test('an image is frozen to a repository, and runs from there', async () => {
    const frozen = await request(
      { entries: ['samtools'] },
      {
        ...{ freeze: true, buildRepository: `${registry.host}/frozen` },
        containerConfig: { env: ['ADDED=1'] },
      },
    );
    const log = await logOf(frozen);
    assert.match(log, /The build succeeded/);
    assert.match(await run(frozen, 'samtools'), /^samtools 1\.20/);
    assert.equal(await run(frozen, 'sh', '-c', 'echo $ADDED'), '1\n');
  });

  test('packages become a Singularity image', async () => {
    const { targetImage, ...response } = await request(
      { entries: ['samtools'] },
      { format: 'sif', freeze: true, buildRepository: `${registry.host}/sif` },
    );
    assert.match(await logOf({ targetImage, ...response }), /The build succeeded/);
    await using apptainer = await openApptainer();
    const file = apptainer.join('root', 'home', 'samtools.sif');
    assertSuccess(await apptainer.run(['pull', '--no-https', file, targetImage]));
    const output = await apptainer.run(['exec', file, 'samtools', 'view']);
    assert.match(assertSuccess(output), /^samtools 1\.20 view$/m);
  });

  test('an image for two platforms shares the packages for any platform', async () => {
    const built = (await sluice.request({
      ...bodyOf({ entries: ['native'] }, { basePackages: '' }),
      containerPlatform: 'linux/amd64,linux/arm64',
    })) as unknown as CondaResponse;
    const tag = built.targetImage.split(':').at(-1);
    const index = (await (
      await fetch(sluice.at(built.targetImage, `manifests/${tag}`))
    ).json()) as {
      manifests: { digest: string; platform: { architecture: string } }[];
    };
    const layersOf = async (digest: string) => {
      const response = await fetch(sluice.at(built.targetImage, `manifests/${digest}`));
      const { layers } = (await response.json()) as { layers: { digest: string }[] };
      return layers.map(layer => layer.digest);
    };
    assert.deepEqual(
      index.manifests.map(({ platform }) => platform.architecture),
      ['amd64', 'arm64'],
    );
    const [amd64 = [], arm64 = []] = await Promise.all(
      index.manifests.map(({ digest }) => layersOf(digest)),
    );
    // The base and the package for any platform. The package for one platform and the history differ.
    assert.equal(amd64.length, 4);
    assert.equal(amd64.filter(digest => arm64.includes(digest)).length, 2);
    const local = nativeSubdir === 'linux-64' ? 'linux-64' : 'linux-aarch64';
    assert.equal(await run(built, 'cat', '/opt/conda/share/native'), `made for ${local}\n`);
    for (const format of ['explicit', 'pixi', 'conda-lock']) {
      await logOf(built);
      const lock = await text(`/v1alpha1/builds/${built.buildId}/lock?format=${format}`);
      const again = (await sluice.request({
        ...bodyOf({ environment: environment([lock]) }, { basePackages: '' }),
        containerPlatform: 'linux/amd64,linux/arm64',
      })) as unknown as CondaResponse;
      assert.match(await logOf(again), /The build succeeded/);
      const digestOf = async ({ buildId }: CondaResponse) =>
        (JSON.parse(await text(`/v1alpha1/builds/${buildId}`)) as { digest: string }).digest;
      assert.equal(await digestOf(again), await digestOf(built), format);
    }
    const { message } = await refused({
      ...bodyOf({ entries: ['samtools'] }, { basePackages: '' }),
      containerPlatform: 'linux/amd64,linux/arm64',
    });
    assert.match(message, /linux\/arm64.*samtools/s);
  });

  test('a build that a kill interrupts is made by the next server', async () => {
    await using own = await makeTempDir('data');
    const config = configOf();
    const port = await freePort();
    const first = await startSluice({ config, port, data: own.join('data') });
    const body = bodyOf({ entries: ['hello', 'pip', 'samtools'] });
    const { buildId } = (await first.request(body)) as unknown as CondaResponse;
    await first.kill();
    await using second = await startSluice({ config, port, data: own.join('data') });
    const log = await (await second.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    assert.match(log, /The build succeeded/);
  });

  test('a dry run lists the packages, and those that have a layer', async () => {
    await logOf(await request({ entries: ['samtools=1.20'] }));
    const response = await sluice.request({
      ...bodyOf({ entries: ['samtools=1.20', 'hello', 'pip'] }),
      dryRun: true,
    });
    const { solution } = response as unknown as {
      solution: {
        platforms: { platform: string; packages: { name: string; cached: boolean }[] }[];
      };
    };
    const [platform] = solution.platforms;
    const known = new Map(platform?.packages.map(({ name, cached }) => [name, cached]));
    assert.equal(known.get('samtools'), true);
    assert.ok(known.has('python') && known.has('hello') && known.has('procps-ng'));
  });
});
