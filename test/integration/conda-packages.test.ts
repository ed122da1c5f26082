/**
 * Conda builds from real packages: channels served here, a real solver and a real installer, behind a command line of
 * this project (`test/world/micromamba.py`), because no registry has micromamba.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { type CondaImages, pushCondaImages } from '../world/conda-image.ts';
import { type CondaPackage, nativeSubdir } from '../world/conda-package.ts';
import { hello, library, program } from '../world/conda-programs.ts';
import { pythonPackages } from '../world/conda-python.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { zipOf } from '../world/zip.ts';
import { assertSuccess } from './served.ts';

const channels: Readonly<Record<string, readonly CondaPackage[]>> = {
  'conda-forge': [
    ...pythonPackages(),
    program('procps-ng', '4.0'),
    library('1.2'),
    library('1.3', { format: 'tar.bz2' }),
    library('2.0'),
    program('both', '1', { format: 'tar.bz2' }),
    program('accelerated', '1', { depends: ['__cuda >=12'] }),
    program('accelerated', '2', { depends: ['__cuda >=12.6'] }),
    { name: 'cuda-version', version: '12.4', noarch: 'generic' },
    hello,
  ],
  bioconda: [
    program('samtools', '1.9', { depends: ['library'] }),
    program('samtools', '1.19', { depends: ['library >=1.2,<1.3'], format: 'tar.bz2' }),
    program('samtools', '1.20', { depends: ['library >=1.3,<2'] }),
    program('both', '2'),
  ],
};

suite('Conda packages', () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let served: CondaChannels;
  let images: CondaImages;
  let sluice: Sluice;
  let root: Root;

  before(async () => {
    registry = await startRegistry();
    buildkitd = await startBuildkitd();
    served = await startCondaChannels(channels);
    images = await pushCondaImages(buildkitd.address, registry.host, {
      channelAlias: served.url,
      pipIndex: `${served.url}/simple`,
    });
    sluice = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        // Lock files are added by their address.
        builds: { privateHosts: [new URL(served.url).host] },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    root = await openRoot('forky');
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
    await served?.stop();
    await buildkitd?.stop();
    await registry?.stop();
  });

  interface CondaResponse {
    readonly targetImage: string;
    readonly buildId: string;
  }

  const request = async (packages: object, options: object = {}): Promise<CondaResponse> => {
    const condaOpts = { mambaImage: images.manager, baseImage: images.base, ...options };
    const response = await sluice.request({ packages: { type: 'CONDA', condaOpts, ...packages } });
    return response as unknown as CondaResponse;
  };
  const run = async ({ targetImage }: CondaResponse, ...command: string[]) =>
    assertSuccess(await runWithPodman(root, targetImage, { command }));
  const text = async (path: string) => (await sluice.fetch(path)).text();
  const lockOf = ({ buildId }: CondaResponse) => text(`/v1alpha1/builds/${buildId}/condalock`);
  const logOf = ({ buildId }: CondaResponse) =>
    text(`/v1alpha1/builds/${buildId}/logs?follow=true`);
  const refusalOf = async ({ targetImage }: CondaResponse) => {
    const tag = targetImage.split(':').at(-1);
    const response = await fetch(sluice.at(targetImage, `manifests/${tag}`));
    assert.equal(response.status, 400);
    return response.text();
  };
  /** The line of a lock file for a package of the channels. */
  const locked = (path: string) => {
    const bytes = served.files.get(`/${path}`);
    assert.ok(bytes, path);
    return `${served.url}/${path}#${createHash('md5').update(bytes).digest('hex')}`;
  };
  const environment = (lines: readonly string[]) =>
    Buffer.from(`${lines.join('\n')}\n`).toString('base64');
  const newest = () => [
    locked(`bioconda/${nativeSubdir}/samtools-1.20-0.conda`),
    locked(`conda-forge/${nativeSubdir}/library-1.3-0.tar.bz2`),
    locked(`conda-forge/${nativeSubdir}/procps-ng-4.0-0.conda`),
  ];
  const packagesOf = (lock: string) => {
    const [head, ...lines] = lock.trim().split('\n');
    assert.equal(head, '@EXPLICIT');
    return lines.sort();
  };

  test('the newest suitable versions are installed with their dependencies, and run without the package manager', async () => {
    const built = await request({ entries: ['samtools'] });
    assert.equal(
      await run(built, 'samtools', 'view'),
      'samtools 1.20 view\nlibrary 1.3 below /opt/conda\n',
    );
    assert.match(await run(built, 'procps-ng'), /^procps-ng 4\.0/);
    assert.deepEqual(packagesOf(await lockOf(built)), newest());
    const manager = '/usr/bin/micromamba /usr/bin/python3 /usr/lib/python3 /opt/conda/pkgs';
    const left = `ls -d /opt/conda/conda-meta ${manager} 2>/dev/null || :`;
    assert.equal(await run(built, 'sh', '-c', left), '/opt/conda/conda-meta\n');
  });

  test('a pinned package determines the versions of others', async () => {
    const pinned = await request({ entries: ['samtools=1.19'] });
    assert.match(pinned.targetImage, /\/builds:[a-z0-9._-]*samtools-1\.19[a-z0-9._-]*$/);
    const said = 'samtools 1.19\nlibrary 1.2 below /opt/conda\n';
    assert.equal(await run(pinned, 'samtools'), said);
    const other = await request({ entries: ['samtools', 'library<1.3'] });
    assert.equal(await run(other, 'samtools'), said);
  });

  test('channels have an order, and a package may name its channel', async () => {
    const first = await request({ entries: ['both'], channels: ['conda-forge', 'bioconda'] });
    assert.match(await run(first, 'both'), /^both 1\n/);
    const turned = await request({ entries: ['both'], channels: ['bioconda', 'conda-forge'] });
    assert.match(await run(turned, 'both'), /^both 2\n/);
    const named = await request({ entries: ['bioconda::both'], channels: ['conda-forge'] });
    assert.match(await run(named, 'both'), /^both 2\n/);
    const byAddress = await request({
      entries: [`${served.url}/bioconda::both`],
      channels: [`${served.url}/conda-forge`],
    });
    assert.match(await run(byAddress, 'both'), /^both 2\n/);
  });

  test('a lock file recreates the environment, by its address and by its content', async () => {
    const first = await request({ entries: ['samtools=1.20'] });
    const said = await run(first, 'samtools');
    const lock = await lockOf(first);
    const address = `${sluice.url}/v1alpha1/builds/${first.buildId}/condalock`;
    for (const entry of [address, lock]) {
      const again = await request({ entries: [entry] });
      assert.notEqual(again.buildId, first.buildId);
      assert.equal(await run(again, 'samtools'), said);
      assert.equal(await lockOf(again), lock);
    }
  });

  test('base packages are added to a lock file that lacks them', async () => {
    const bare = await request({ entries: ['accelerated'] }, { basePackages: '' });
    assert.match(await run(bare, 'accelerated'), /^accelerated 2\n/);
    const lock = await lockOf(bare);
    assert.doesNotMatch(lock, /procps-ng/);
    const address = `${sluice.url}/v1alpha1/builds/${bare.buildId}/condalock`;
    for (const entry of [address, lock]) {
      const full = await request({ entries: [entry] });
      assert.match(await run(full, 'procps-ng'), /^procps-ng 4\.0/);
      assert.deepEqual(
        packagesOf(await lockOf(full)),
        [...packagesOf(lock), locked(`conda-forge/${nativeSubdir}/procps-ng-4.0-0.conda`)].sort(),
      );
    }
  });

  test('a package that differs from the lock file is not installed', async () => {
    const line = locked(`bioconda/${nativeSubdir}/samtools-1.20-0.conda`);
    const [url] = line.split('#');
    const entries = [`@EXPLICIT\n${url}#${'0'.repeat(32)}\n`];
    const refusal = await refusalOf(await request({ entries }, { basePackages: '' }));
    assert.match(refusal, /mismatch/i);
  });

  test('a package with an address bypasses the solver, which still knows it', async () => {
    const line = locked(`bioconda/${nativeSubdir}/samtools-1.19-0.tar.bz2`);
    const built = await request({ entries: [line, 'library=1.2'] }, { basePackages: '' });
    assert.match(await run(built, 'samtools'), /^samtools 1\.19\nlibrary 1\.2/);
    assert.deepEqual(packagesOf(await lockOf(built)), [
      line,
      locked(`conda-forge/${nativeSubdir}/library-1.2-0.conda`),
    ]);
  });

  test('an environment file, with Python, pip and a variable', async () => {
    served.files.set('/simple/greeter/greeter-1.0-py3-none-any.whl', greeter);
    const page = '<a href="greeter-1.0-py3-none-any.whl">greeter-1.0-py3-none-any.whl</a>';
    served.files.set('/simple/greeter/', Buffer.from(page));
    const built = await request({
      environment: environment([
        'name: greetings',
        'channels: [conda-forge]',
        'dependencies:',
        '  - hello',
        '  - pip:',
        '      - greeter==1.0',
        'variables:',
        '  GREETING: good morning',
      ]),
    });
    assert.match(built.targetImage, /:greetings--/);
    assert.equal(await run(built, 'hello'), 'hello from /opt/conda/bin/python3.11\n');
    assert.equal(await run(built, 'greeter'), 'good morning\n');
    const lock = await lockOf(built);
    assert.match(lock, /\/conda-forge\/noarch\/hello-1-0\.conda#[0-9a-f]{32}\n/);
    assert.match(lock, /\n# pip greeter==1\.0\n$/);

    const again = await request({ entries: [lock] });
    assert.equal(await run(again, 'sh', '-c', 'GREETING=again greeter'), 'again\n');
    assert.equal(await lockOf(again), lock);
  });

  test('a lock file without pip gets it, and pip fetches a wheel by its address and digest', async () => {
    const path = '/files/greeter-1.0-py3-none-any.whl';
    served.files.set(path, greeter);
    const line = (sha256: string) => `# pip greeter @ ${served.url}${path}#sha256=${sha256}`;
    const lock = ['@EXPLICIT', locked(`conda-forge/${nativeSubdir}/python-3.11.2-0.conda`)];
    const digest = createHash('sha256').update(greeter).digest('hex');
    const built = await request({
      environment: environment([...lock, line(digest)]),
      channels: ['conda-forge'],
    });
    assert.equal(await run(built, 'greeter'), 'none\n', await logOf(built));
    assert.match(await lockOf(built), /\/noarch\/pip-25\.3-0\.conda#/);
    assert.match(await lockOf(built), new RegExp(`^${line(digest)}$`, 'm'));
  });

  test('an unsolvable environment fails with the message of the solver', async () => {
    const built = await request({ entries: ['samtools=1.20', 'library=1.2'] });
    const words = /samtools 1\.20[\s\S]*library >=1\.3,<2/;
    assert.match(await logOf(built), words);
    assert.match(await refusalOf(built), words);
    const missing = await request({ entries: ['no-such-package'] });
    assert.match(await refusalOf(missing), /no-such-package/);
    const details = JSON.parse(await text(`/v1alpha1/builds/${missing.buildId}`));
    assert.equal(details.succeeded, false);
    assert.match(details.reason, /No candidates were found for no-such-package/i);
    const none = await sluice.fetch(`/v1alpha1/builds/${missing.buildId}/condalock`);
    assert.equal(none.status, 404);
  });

  test('packages that require CUDA are installed on a machine without it', async () => {
    const built = await request({ entries: ['accelerated'] });
    assert.match(await run(built, 'accelerated'), /^accelerated 2\n/);
    assert.match(await logOf(built), /A package needs CUDA: trying again/);
    const pinned = await request({ entries: ['accelerated', 'cuda-version=12.4'] });
    assert.match(await run(pinned, 'accelerated'), /^accelerated 1\n/);
  });

  test('base packages and commands', async () => {
    const built = await request(
      { entries: ['samtools=1.20'] },
      {
        basePackages: 'bioconda::both  hello',
        commands: ['samtools index > /said', 'ENV THREADS=4'],
      },
    );
    const command = 'cat /said; both; hello; echo $THREADS; ls /opt/conda/bin';
    const said = await run(built, 'sh', '-c', command);
    assert.match(said, /^samtools 1\.20 index\n[\s\S]*both 2\n[\s\S]*hello from [\s\S]*\n4\n/);
    assert.doesNotMatch(said, /procps-ng/);
  });
});

const greeter = zipOf([
  [
    'greeter.py',
    Buffer.from('import os\ndef main():\n  print(os.environ.get("GREETING", "none"))\n'),
  ],
  [
    'greeter-1.0.dist-info/METADATA',
    Buffer.from('Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n'),
  ],
  [
    'greeter-1.0.dist-info/WHEEL',
    Buffer.from('Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n'),
  ],
  [
    'greeter-1.0.dist-info/entry_points.txt',
    Buffer.from('[console_scripts]\ngreeter = greeter:main\n'),
  ],
  ['greeter-1.0.dist-info/RECORD', Buffer.from('')],
]);
