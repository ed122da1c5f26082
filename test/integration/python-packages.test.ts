/** Images with packages of pip, without a builder: real packages of the index that pip uses here, and clients that run them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { runWithPodman } from '../world/clients.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { hello } from '../world/conda-programs.ts';
import { pythonPackages } from '../world/conda-python.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { realIndex } from '../world/python-index.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { requireUv } from '../world/tools.ts';
import { assertSuccess } from './served.ts';

interface Built {
  readonly targetImage: string;
  readonly buildId: string;
}

suite('images with packages of pip', () => {
  let registry: Registry;
  let served: CondaChannels;
  let sluice: Sluice;
  let root: Root;
  let baseImage: string;

  before(async () => {
    registry = await startRegistry();
    served = await startCondaChannels({ 'conda-forge': [...pythonPackages(), hello] });
    await pushDebianImage(registry, 'debian');
    baseImage = `${registry.host}/debian:1`;
    const { url, files, settings } = await realIndex();
    sluice = await startSluice({
      config: {
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        channels: served.settings,
        buildkit: 'off',
        builds: { uv: requireUv() },
        pypi: {
          'https://pypi.org/simple': { url, ...settings },
          [files]: settings,
          'https://files.pythonhosted.org': { url: files, ...settings },
        },
      },
    });
    root = await openRoot('forky');
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
    await served?.stop();
    await registry?.stop();
  });

  const bodyOf = (packages: object) => ({
    packages: {
      type: 'CONDA',
      condaOpts: { baseImage, basePackages: '' },
      ...packages,
    },
  });
  const environment = (pip: readonly string[], packages: readonly string[] = []) => {
    const lines = [
      'channels: [conda-forge]',
      'dependencies:',
      ...packages.map(it => `  - ${it}`),
      '  - pip:',
    ];
    const text = [...lines, ...pip.map(it => `      - '${it}'`), ''].join('\n');
    return { environment: Buffer.from(text).toString('base64') };
  };
  const request = async (packages: object, more: object = {}): Promise<Built> =>
    (await sluice.request({ ...bodyOf(packages), ...more })) as unknown as Built;
  const text = async (path: string) => (await sluice.fetch(path)).text();
  const run = async ({ targetImage }: Built, ...command: string[]) =>
    assertSuccess(await runWithPodman(root, targetImage, { command }));
  const digestOf = async ({ targetImage }: Built) => {
    const [, tag = ''] = /:([^:/]+)$/.exec(targetImage) ?? [];
    const response = await fetch(sluice.at(targetImage, `manifests/${tag}`));
    assert.equal(response.status, 200, await response.clone().text());
    return response.headers.get('docker-content-digest');
  };

  test('packages of pip are installed beside those of Conda, and the lock file gives the same image', async () => {
    const extra = '--extra-index-url https://pypi.org/simple';
    const built = await request(environment([extra, 'six==1.17.0', 'requests[socks]'], ['hello']));
    const log = await text(`/v1alpha1/builds/${built.buildId}/logs?follow=true`);
    assert.match(log, /: 2 packages and \d+ of PyPI, found in /);
    const show = 'import six, requests, socks; print(six.__version__, six.__file__)';
    assert.equal(
      await run(built, 'python', '-c', show),
      '1.17.0 /opt/conda/lib/python3.11/site-packages/six.py\n',
    );
    const lock = await text(`/v1alpha1/builds/${built.buildId}/condalock`);
    assert.match(
      lock,
      /^# pip six @ https:\S+\/six-1\.17\.0-py2\.py3-none-any\.whl#sha256=4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274$/m,
    );
    const pixi = await text(`/v1alpha1/builds/${built.buildId}/lock?format=pixi`);
    const digest = await digestOf(built);
    for (const given of [lock, pixi]) {
      const again = await request({ environment: Buffer.from(given).toString('base64') });
      const more = await text(`/v1alpha1/builds/${again.buildId}/logs?follow=true`);
      assert.equal(await digestOf(again), digest, more);
    }
    const bill = await text(`/v1alpha1/builds/${built.buildId}/sbom?format=cyclonedx`);
    assert.match(
      bill,
      /"purl": ?"pkg:pypi\/six@1\.17\.0\?file_name=six-1\.17\.0-py2\.py3-none-any\.whl"/,
    );
  });

  test('a wheel at an address is installed with what it requires, and locked with its digest', async () => {
    const lockOf = async (pip: readonly string[]) => {
      const built = await request(environment(pip));
      const log = await text(`/v1alpha1/builds/${built.buildId}/logs?follow=true`);
      return { built, log, lock: await text(`/v1alpha1/builds/${built.buildId}/condalock`) };
    };
    const { lock: first } = await lockOf(['requests==2.32.3']);
    const [, address = '', hash = ''] = /^# pip (requests @ \S+)#(sha256=\S+)$/m.exec(first) ?? [];
    const { built, log, lock } = await lockOf([address.replace('requests', 'Requests[socks]')]);
    assert.match(
      log,
      new RegExp(`requests 2\\.32\\.3 at https://.* has the SHA-256 ${hash.slice(7)}`),
    );
    assert.ok(lock.includes(`# pip ${address}#${hash}\n`), lock);
    assert.match(lock, /^# pip pysocks @ /m);
    assert.match(await run(built, 'python', '-c', 'import requests, socks; print("runs")'), /runs/);
    const again = await request({ environment: Buffer.from(lock).toString('base64') });
    await text(`/v1alpha1/builds/${again.buildId}/logs?follow=true`);
    assert.equal(await digestOf(again), await digestOf(built));
  });

  test('a file of requirements is installed with Python of Conda, and its hashes are verified', async () => {
    const hash = '4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274';
    const file = (text: string) => ({
      environment: Buffer.from(text).toString('base64'),
      channels: ['conda-forge'],
    });
    const lines = `six==1.17.0 \\\n  --hash=sha256:${hash}  # the wheel\n`;
    const built = await request(file(lines));
    const log = await text(`/v1alpha1/builds/${built.buildId}/logs?follow=true`);
    assert.match(log, /: 1 packages? and 1 of PyPI, found in /);
    assert.equal(
      await run(built, 'python', '-c', 'import six; print(six.__version__)'),
      '1.17.0\n',
    );
    const failed = async (text: string) => {
      const response = await sluice.fetch('/v1alpha2/container', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...bodyOf(file(text)), dryRun: true }),
      });
      return ((await response.json()) as { message?: string }).message ?? '';
    };
    assert.match(
      await failed(lines.replace(hash, 'a'.repeat(64))),
      /No wheel of six 1\.17\.0 has one of the hashes/,
    );
    assert.match(
      await failed(`${lines}idna==3.10\n`),
      /idna, which one of them requires, has none/,
    );
  });

  test('a dry run lists the packages of both kinds, and which of them are here', async () => {
    const { packages } = bodyOf(environment(['six==1.17.0', 'idna==3.10'], ['hello']));
    const answer = (await sluice.request({ packages, dryRun: true })) as unknown as {
      solution: { platforms: { packages: { name: string; build: string; cached: boolean }[] }[] };
    };
    const listed = answer.solution.platforms[0]?.packages ?? [];
    assert.deepEqual(
      listed.filter(({ build }) => build === 'pypi_0').map(({ name }) => name),
      ['idna', 'six'],
    );
    assert.equal(listed.find(({ name }) => name === 'six')?.cached, true);
    assert.equal(listed.find(({ name }) => name === 'idna')?.cached, false);
  });

  test('a request that cannot be solved, or requires a builder, says why', async () => {
    const refused = async (pip: readonly string[]) => {
      const response = await sluice.fetch('/v1alpha2/container', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...bodyOf(environment(pip)), dryRun: false }),
      });
      const { message, buildId } = (await response.json()) as Record<string, string>;
      return message ?? (await text(`/v1alpha1/builds/${buildId}/logs?follow=true`));
    };
    assert.match(
      await refused(['six>=99']),
      /Because only six<=\S+ is available and you require six>=99/,
    );
    assert.match(
      await refused(['absent-project-of-sluice']),
      /was not found in the package registry/,
    );
    const { packages } = bodyOf(environment(['six', '--find-links /etc']));
    const dry = await sluice.request({ packages, dryRun: true });
    const { reason = '' } = dry as unknown as { reason?: string };
    assert.match(
      reason,
      /^The pip option --find-links requires a builder\. This server has no builder/,
    );
    assert.match(
      await refused(['loompy==3.0.7', 'docopt==0.6.2']),
      /The source distribution of docopt 0\.6\.2 and the source distribution of loompy 3\.0\.7 require a builder/,
    );
  });

  test('lock files of uv and poetry give images of what their project requires', async () => {
    const fileOf = (name: string) => {
      const path = new URL(`../pypi/locks/fixtures/${name}`, import.meta.url);
      return { environment: readFileSync(path).toString('base64'), channels: ['conda-forge'] };
    };
    const built = await request(fileOf('uv.lock'));
    const log = await text(`/v1alpha1/builds/${built.buildId}/logs?follow=true`);
    assert.match(
      log,
      /uv\.lock: not installed: the extra 'old', the group 'dev', the group 'lint'/,
    );
    const show =
      'import httpx, socksio, markupsafe._speedups, importlib.util as u; print(httpx.__version__, u.find_spec("tomli"))';
    assert.equal(await run(built, 'python', '-c', show), '0.28.1 None\n');
    const digest = await digestOf(built);
    const again = await request(fileOf('pylock.toml'));
    await text(`/v1alpha1/builds/${again.buildId}/logs?follow=true`);
    assert.equal(await digestOf(again), digest);
    const { packages } = bodyOf({ ...fileOf('pyproject.toml'), pipOpts: { groups: ['lint'] } });
    const dry = (await sluice.request({ packages, dryRun: true })) as unknown as {
      solution: { platforms: { packages: { name: string }[] }[] };
    };
    const names = dry.solution.platforms[0]?.packages.map(({ name }) => name) ?? [];
    for (const name of ['python', 'httpx', 'socksio', 'packaging']) assert.ok(names.includes(name));
    assert.ok(!names.includes('six') && !names.includes('tomli'));
    // A package of a poetry.lock that has no wheel is named, and not built.
    const hash = 'a'.repeat(64);
    const source = `[[package]]\nname = "loompy"\nversion = "3.0.7"\noptional = false\nfiles = [{file = "loompy-3.0.7.tar.gz", hash = "sha256:${hash}"}]\n[metadata]\nlock-version = "2.0"\npython-versions = "^3.8"\ncontent-hash = "x"\n`;
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...bodyOf({
          environment: Buffer.from(source).toString('base64'),
          channels: ['conda-forge'],
        }),
        dryRun: true,
      }),
    });
    assert.equal(response.status, 400, await response.clone().text());
    assert.match(await response.text(), /poetry\.lock: the index has no wheel for .* of loompy\./);
    // Its files are looked up by their hashes.
    const poetry = await request(fileOf('poetry.lock'));
    const more = await text(`/v1alpha1/builds/${poetry.buildId}/logs?follow=true`);
    assert.match(more, /and 9 of PyPI, found in/);
    assert.equal(await run(poetry, 'python', '-c', show), '0.28.1 None\n');
  });
});
